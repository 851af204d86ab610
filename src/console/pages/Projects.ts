import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { selectList } from "../../sql/Columns.ts"
import { pageOf } from "../../operators/Search.ts"
import { countOf, input, timeSince } from "../Html.ts"
import { listOf, type PageRequest, pageSize, textOf } from "../Page.ts"
import { recordLink } from "../Records.ts"

interface Row {
  readonly id: string
  readonly name: string
  readonly webhooks: number
  readonly createdAt: string
}

/** Maximum number of webhooks that is counted for a project. */
const maxWebhooks = 1_000

export const projects = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, request: PageRequest) {
  const from = textOf(request, "from") ?? ""
  const after = textOf(request, "cursor") ?? ""
  const time = timeSince(request.session.now)
  const rows = yield* sql<Row>`
    SELECT project_id AS id, name, ${sql.literal(selectList({ createdAt: ["created_at", "timestamptz"] }))}, (
      SELECT count(*)::int FROM (
        SELECT FROM webhooks WHERE webhooks.project_id = projects.project_id LIMIT ${maxWebhooks}::int
      ) counted
    ) AS webhooks
    FROM projects WHERE project_id >= ${from} AND project_id > ${after} ORDER BY project_id LIMIT ${pageSize + 1}::int`
  return listOf(request, {
    title: "Projects",
    filter: [input("From the id", "from", from)],
    caption: "Projects by id",
    empty: "No projects.",
    found: pageOf(rows, pageSize, ({ id }) => id),
    columns: {
      Project: ({ id }) => recordLink("project", id, id),
      Name: ({ name }) => name,
      Webhooks: { number: ({ webhooks }) => countOf(webhooks, maxWebhooks) },
      Created: ({ createdAt }) => time(createdAt)
    }
  })
})
