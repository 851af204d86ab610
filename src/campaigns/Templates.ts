/** Templates of messages (contract §9). Project files create them. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { Template } from "../api/campaigns/Campaigns.ts"
import type { ProjectId } from "../api/schema/Ids.ts"
import { columnsOf, selectList } from "../sql/Columns.ts"
import { statement } from "../sql/Database.ts"
import { pageConditionByVersion, pageLimit, type PageQuery, Pages, type Window } from "../http/pages/Pages.ts"

export const makeListTemplates = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const pages = yield* Pages
  return (projectId: ProjectId, query: PageQuery) =>
    pages.readByVersion({ projectId, operation: "listTemplates", filters: {} }, query, (window) =>
      statement(list(sql, projectId, window))
    )
})

const record = selectList(columnsOf(Template.fields, { version: "bigint" }))

const list = (sql: SqlClient.SqlClient, projectId: ProjectId, window: Window) => sql<Template>`
  SELECT ${sql.literal(record)} FROM templates
  WHERE project_id = ${projectId} AND id > '' ${pageConditionByVersion(sql, window.after)}
  ORDER BY id, -version ${pageLimit(sql, window)}`
