/** The import preview (contract §11). */
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { details } from "../../api/Details.ts"
import type { InstallationId, ProjectId } from "../../api/schema/Ids.ts"
import type { ImportPreview } from "../../api/integrations/Preview.ts"
import { type InstallationNotFound, InstallationNotReady, type ServiceUnavailable } from "../../api/Problems.ts"
import { statement } from "../../platform/database/Database.ts"
import { installation_not_found } from "../Installations.ts"
import { preview } from "./Preview/Repo.ts"

export class Preview extends Context.Service<
  Preview,
  {
    /**
     * Previews an import. Fails with `InstallationNotReady` if the installation is disabled, has no profile or has no staged
     * records.
     */
    readonly preview: (
      projectId: ProjectId,
      id: InstallationId
    ) => Effect.Effect<ImportPreview, InstallationNotFound | InstallationNotReady | ServiceUnavailable>
  }
>()("developer-api/integrations/imports/Preview") {
  static readonly layer = Layer.effect(
    Preview,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      return {
        preview: Effect.fnUntraced(function* (projectId, id) {
          const [found] = yield* statement(preview(sql, projectId, id))
          if (found === undefined) return yield* installation_not_found()
          const { differing, evaluation, hasProfile, matched, status } = found
          if (status === "disabled") return yield* notReady("The installation is disabled.")
          if (!hasProfile) return yield* notReady("The installation has no import profile.")
          if (evaluation === null) return yield* notReady(details.installation_not_ready)
          const { counts, duplicateCount, fingerprint, profileVersion, unsupportedFields } = evaluation
          const records = Object.values(counts).reduce((sum, count) => sum + count, 0)
          const skip = duplicateCount + matched - differing
          const estimatedChanges = { create: records - differing - skip, update: differing, skip }
          return { counts, duplicateCount, unsupportedFields, estimatedChanges, profileVersion, fingerprint }
        })
      }
    })
  )
}

const notReady = (detail: string) => new InstallationNotReady({ detail })
