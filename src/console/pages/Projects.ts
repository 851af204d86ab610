/** All projects, by id. */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { selected } from "../../platform/Columns.ts"
import { filters, input, link, nextPage, table, time } from "../Html.ts"
import { type PageRequest, pageSize, textOf } from "../Page.ts"

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
  const rows = yield* sql<Row>`
    SELECT project_id AS id, name, ${sql.literal(selected({ createdAt: ["created_at", "timestamptz"] }))}, (
      SELECT count(*)::int FROM (
        SELECT FROM webhooks WHERE webhooks.project_id = projects.project_id LIMIT ${maxWebhooks}::int
      ) counted
    ) AS webhooks
    FROM projects WHERE project_id >= ${from} ORDER BY project_id LIMIT ${pageSize + 1}::int`
  const cells = rows
    .slice(0, pageSize)
    .map(({ createdAt, id, name, webhooks }) => [
      link("/console/project", { project: id }, id),
      name,
      webhooks === maxWebhooks ? `${maxWebhooks} or more` : webhooks,
      time(createdAt)
    ])
  const next = rows[pageSize]
  return {
    title: "Projects",
    body: [
      filters("/console/projects", {}, [input("From the id", "from", from)]),
      table("Projects by id", ["Project", "Name", "Webhooks", "Created"], cells, "No projects."),
      nextPage("/console/projects", next && { from: next.id }, "More projects")
    ]
  }
})
