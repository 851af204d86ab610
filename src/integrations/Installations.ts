/** Lists installations of integrations (contract §10). Project files create them. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { Installation } from "../api/integrations/Installations.ts"
import type { ProjectId } from "../api/schema/Ids.ts"
import { statement } from "../sql/Database.ts"
import { pageConditionById, pageLimit, type PageQuery, Pages, type Window } from "../http/pages/Pages.ts"

export const makeListInstallations = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const pages = yield* Pages
  return (projectId: ProjectId, query: PageQuery) =>
    pages.readById({ projectId, operation: "listInstallations", filters: {} }, query, (window) =>
      statement(list(sql, projectId, window))
    )
})

const list = (sql: SqlClient.SqlClient, projectId: ProjectId, window: Window) => sql<Installation>`
  SELECT id, name, profile_version AS "profileVersion", (
    SELECT json_build_object('enabled', enabled, 'version', version) FROM webhooks
    WHERE project_id = ${projectId} AND installation_id = installations.id
  ) AS webhook
  FROM installations
  WHERE project_id = ${projectId} ${pageConditionById(sql, window.after)}
  ORDER BY id ${pageLimit(sql, window)}`

export const exists = (sql: SqlClient.SqlClient, projectId: ProjectId, id: string) =>
  Effect.map(sql`SELECT FROM installations WHERE project_id = ${projectId} AND id = ${id}`, (rows) => rows.length > 0)
