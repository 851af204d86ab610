/** Project files that stage records, and the previews of them. */
import { Effect, Layer } from "effect"
import { InstallationId, ProjectId } from "../../src/api/Ids.ts"
import { Preview } from "../../src/integrations/Preview.ts"
import { Projects } from "../../src/project/Projects.ts"
import { secretBox } from "../support/SecretBox.ts"
import { TestDatabase } from "../support/TestDatabase.ts"
import type { Profile, StagedRecord } from "./Preview.model.support.ts"

export const services = Layer.mergeAll(Projects.layer, Preview.layer).pipe(
  Layer.provide(secretBox(Buffer.alloc(32, 1).toString("base64"))),
  Layer.provideMerge(TestDatabase.layer)
)

/** What a file says of the one installation of these tests. */
export interface Installation {
  readonly status?: "active" | "disabled"
  readonly importProfile?: Profile | null
  readonly stagedRecords?: ReadonlyArray<StagedRecord>
}

/** Applies a file with an installation `ins`, and what else it says. */
export const apply = Effect.fnUntraced(function* (projectId: string, installation: Installation, parts: object = {}) {
  const { apply } = yield* Projects
  const installations = [{ id: "ins", name: "Shop", ...installation }]
  return yield* apply(JSON.stringify({ project: { id: projectId, name: "Acme" }, installations, ...parts }))
})

export const preview = Effect.fnUntraced(function* (projectId: string, installationId = "ins") {
  const { preview } = yield* Preview
  return yield* preview(ProjectId.make(projectId), InstallationId.make(installationId))
})

/** The records in another order. */
export const reordered = <T>(items: ReadonlyArray<T>): ReadonlyArray<T> => items.toReversed()
