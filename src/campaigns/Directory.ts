/** Segments, which are named lists of clients for campaigns, and templates of messages (contract §9). Project files create them. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { Segment, Template } from "../api/campaigns/Campaigns.ts"
import type { ProjectId } from "../api/schema/Ids.ts"
import { columnsOf, selectList } from "../sql/Columns.ts"
import { statement } from "../sql/Database.ts"
import {
  makeListById,
  pageCondition,
  pageConditionByVersion,
  pageLimit,
  type PageQuery,
  Pages,
  type Window
} from "../http/pages/Pages.ts"

export const makeListSegments = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const pages = yield* Pages
  return (projectId: ProjectId, query: PageQuery) =>
    pages.read({ projectId, operation: "listSegments", filters: {} }, query, (window) =>
      statement(segments(sql, projectId, window))
    )
})

const segment = selectList(columnsOf(Segment.fields, { contactCount: "integer" }))

const segments = (sql: SqlClient.SqlClient, projectId: ProjectId, window: Window) => sql<Segment>`
  SELECT ${sql.literal(segment)} FROM segments
  WHERE project_id = ${projectId} ${pageCondition(sql, window.after)}
  ORDER BY created_at DESC, id DESC
  ${pageLimit(sql, window)}`

const template = selectList(columnsOf(Template.fields, { version: "bigint" }))

export const makeListTemplates = makeListById(
  "listTemplates",
  (sql, projectId, window) => sql<Template>`
  SELECT ${sql.literal(template)} FROM templates
  WHERE project_id = ${projectId} AND id > '' ${pageConditionByVersion(sql, window.after)}
  ORDER BY id, -version ${pageLimit(sql, window)}`
)
