/** Installations of integrations (contract §10). Project files create them. */
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { details } from "../api/Details.ts"
import type { Installation } from "../api/integrations/Installations.ts"
import type { ProjectId } from "../api/schema/Ids.ts"
import { type CursorInvalid, InstallationNotFound, type ServiceUnavailable } from "../api/Problems.ts"
import { statement } from "../platform/database/Database.ts"
import { pageConditionById, pageLimit, type Page, Pages, type Window } from "../platform/requests/Pages.ts"

export class Installations extends Context.Service<
  Installations,
  {
    /** Lists the installations of a project by id, up to `limit` on a page. */
    readonly list: (
      projectId: ProjectId,
      query: { readonly limit: number; readonly cursor: string | undefined }
    ) => Effect.Effect<Page<Installation>, CursorInvalid | ServiceUnavailable>
  }
>()("developer-api/integrations/Installations") {
  static readonly layer = Layer.effect(
    Installations,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const pages = yield* Pages
      return {
        list: (projectId, query) =>
          pages.readById({ projectId, operation: "listInstallations", filters: {} }, query, (window) =>
            statement(list(sql, projectId, window))
          )
      }
    })
  )
}

const list = (sql: SqlClient.SqlClient, projectId: ProjectId, window: Window) => sql<Installation>`
  SELECT id, name, profile_version AS "profileVersion", (
    SELECT json_build_object('enabled', enabled, 'version', version) FROM webhooks
    WHERE project_id = ${projectId} AND installation_id = installations.id
  ) AS webhook
  FROM installations
  WHERE project_id = ${projectId} ${pageConditionById(sql, "installations", projectId, window.after)}
  ORDER BY id ${pageLimit(sql, window)}`

export const exists = (sql: SqlClient.SqlClient, projectId: ProjectId, id: string) =>
  Effect.map(sql`SELECT FROM installations WHERE project_id = ${projectId} AND id = ${id}`, (rows) => rows.length > 0)

export const installation_not_found = () => new InstallationNotFound({ detail: details.installation_not_found })
