/** Segments: named lists of clients for campaigns (contract §9). Project files create them. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { Segment } from "../api/campaigns/Campaigns.ts"
import type { ProjectId } from "../api/schema/Ids.ts"
import { columnsOf, selectList } from "../sql/Columns.ts"
import { statement } from "../sql/Database.ts"
import { pageCondition, pageLimit, type PageQuery, Pages, type Window } from "../http/pages/Pages.ts"

export const makeListSegments = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const pages = yield* Pages
  return (projectId: ProjectId, query: PageQuery) =>
    pages.read({ projectId, operation: "listSegments", filters: {} }, query, (window) =>
      statement(list(sql, projectId, window))
    )
})

const record = selectList(columnsOf(Segment.fields, { contactCount: "integer" }))

const list = (sql: SqlClient.SqlClient, projectId: ProjectId, window: Window) => sql<Segment>`
  SELECT ${sql.literal(record)} FROM segments
  WHERE project_id = ${projectId} ${pageCondition(sql, window.after)}
  ORDER BY created_at DESC, id DESC
  ${pageLimit(sql, window)}`
