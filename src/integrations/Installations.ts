/** Lists installations of integrations (contract §10). Project files create them. */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { Installation } from "../api/integrations/Installations.ts"
import type { ProjectId } from "../api/schema/Ids.ts"
import { makeListById, pageConditionById, pageLimit } from "../http/pages/Pages.ts"

export const makeListInstallations = makeListById(
  "listInstallations",
  (sql, projectId, window) => sql<Installation>`
  SELECT id, name, profile_version AS "profileVersion", (
    SELECT json_build_object('enabled', enabled, 'version', version) FROM webhooks
    WHERE project_id = ${projectId} AND installation_id = installations.id
  ) AS webhook
  FROM installations
  WHERE project_id = ${projectId} ${pageConditionById(sql, window.after)}
  ORDER BY id ${pageLimit(sql, window)}`
)

export const exists = (sql: SqlClient.SqlClient, projectId: ProjectId, id: string) =>
  Effect.map(sql`SELECT FROM installations WHERE project_id = ${projectId} AND id = ${id}`, (rows) => rows.length > 0)
