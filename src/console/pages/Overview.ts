/** The whole service at a glance: its queue, what waits for an operator, and how deliveries fare. */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { queue } from "../../integrations/Deliveries/Metrics.ts"
import { charts, sample } from "../Charts.ts"
import { facts, html, link, table } from "../Html.ts"
import type { Content } from "../Page.ts"

/** Counting stops here. */
const countsTo = 10_000

const counted = (count: number) => (count >= countsTo ? `${countsTo} or more` : String(count))

/** What waits for an operator in a project. */
interface Waiting {
  readonly projectId: string
  readonly dead: number
  readonly unknown: number
  readonly disabled: number
  readonly paused: number
}

/** The condition of the index of dead deliveries (`deliveries_dead`). */
const dead = "finished_at IS NOT NULL AND coalesce(attempt_log -> -1 ->> 'statusCode', '') NOT LIKE '2__'"

/** Projects with something that waits, and what that is; counted to a limit in each. */
const waiting = (sql: SqlClient.SqlClient) => {
  const of = (table: string, condition: string) =>
    sql.literal(`FROM ${table} WHERE ${table}.project_id = projects.project_id AND ${condition}`)
  const deliveries = of("deliveries", dead)
  const messages = of("messages", "status = 'unknown'")
  const webhooks = of("webhooks", "NOT enabled")
  const campaigns = of("campaigns", "status = 'paused'")
  return sql<Waiting>`
    SELECT project_id AS "projectId",
      (SELECT count(*)::int FROM (SELECT ${deliveries} LIMIT ${countsTo}::int) counted) AS dead,
      (SELECT count(*)::int FROM (SELECT ${messages} LIMIT ${countsTo}::int) counted) AS unknown,
      (SELECT count(*)::int ${webhooks}) AS disabled, (SELECT count(*)::int ${campaigns}) AS paused
    FROM projects
    WHERE EXISTS (SELECT ${deliveries}) OR EXISTS (SELECT ${messages}) OR EXISTS (SELECT ${webhooks})
      OR EXISTS (SELECT ${campaigns})
    ORDER BY project_id LIMIT 20`
}

export const overview = Effect.fnUntraced(function* (sql: SqlClient.SqlClient) {
  const rows = yield* queue(sql, countsTo)
  const { depth, seconds } = rows[0] ?? { depth: 0, seconds: 0 }
  const concerned = yield* waiting(sql)
  const cells = concerned.map(({ dead, disabled, paused, projectId, unknown }) => [
    link("/console/project", { project: projectId }, projectId),
    link("/console/deliveries", { project: projectId, status: "dead" }, counted(dead)),
    link("/console/messages", { project: projectId, status: "unknown" }, counted(unknown)),
    link("/console/project", { project: projectId }, counted(disabled)),
    link("/console/campaigns", { project: projectId }, counted(paused))
  ])
  const head = ["Project", "Dead deliveries", "Messages of unknown outcome", "Disabled webhooks", "Paused campaigns"]
  const content: Content = {
    title: "Overview",
    body: [
      facts([
        ["Pending deliveries", counted(depth)],
        ["Oldest due delivery", `${seconds.toFixed(1)} s`]
      ]),
      charts(yield* sample(sql, null)),
      html`<h2>What waits for an operator</h2>`,
      table("Projects with something to look at, 20 at most", head, cells, "Nothing waits for an operator.")
    ]
  }
  return content
})
