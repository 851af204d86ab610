/** The service: its queue, what waits for an operator in each project, and the charts of deliveries. */
import { Effect } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import { measureQueue } from "../../integrations/DeliveryMetrics.ts"
import { charts, sample } from "../Charts.ts"
import { isDead } from "../../integrations/DeliveryList.ts"
import { facts, html, link, table } from "../Html.ts"

/** Maximum number that is counted. */
const maxCount = 10_000

const shown = (count: number) => (count >= maxCount ? `${maxCount} or more` : String(count))

/** Counts of a project's records that need an operator. */
interface Waiting {
  readonly projectId: string
  readonly dead: number
  readonly unknown: number
  readonly disabled: number
  readonly paused: number
}

/** Finds projects where something waits for an operator, with counts up to `maxCount`. */
const waiting = (sql: SqlClient.SqlClient) => {
  const of = (table: string, condition: string) =>
    sql.literal(`FROM ${table} WHERE ${table}.project_id = projects.project_id AND ${condition}`)
  const deliveries = of("deliveries", isDead)
  const messages = of("messages", "status = 'unknown'")
  const webhooks = of("webhooks", "NOT enabled")
  const campaigns = of("campaigns", "status = 'paused'")
  const counted = (of: Statement.Fragment) =>
    sql`(SELECT count(*)::int FROM (SELECT ${of} LIMIT ${maxCount}::int) counted)`
  return sql<Waiting>`
    SELECT project_id AS "projectId", waiting.*
    FROM projects, LATERAL (
      SELECT ${counted(deliveries)} AS dead, ${counted(messages)} AS unknown, ${counted(webhooks)} AS disabled,
        ${counted(campaigns)} AS paused OFFSET 0
    ) waiting
    WHERE dead + unknown + disabled + paused > 0
    ORDER BY project_id LIMIT 20`
}

export const overview = Effect.fnUntraced(function* (sql: SqlClient.SqlClient) {
  const rows = yield* measureQueue(sql, maxCount)
  const { depth, seconds } = rows[0] ?? { depth: 0, seconds: 0 }
  const projects = yield* waiting(sql)
  const cells = projects.map(({ dead, disabled, paused, projectId, unknown }) => [
    link("/console/project", { project: projectId }, projectId),
    link("/console/deliveries", { project: projectId, status: "dead" }, shown(dead)),
    link("/console/messages", { project: projectId, status: "unknown" }, shown(unknown)),
    link("/console/project", { project: projectId }, shown(disabled)),
    link("/console/campaigns", { project: projectId }, shown(paused))
  ])
  const head = ["Project", "Dead deliveries", "Messages of unknown outcome", "Disabled webhooks", "Paused campaigns"]
  return {
    title: "Overview",
    body: [
      facts([
        ["Pending deliveries", shown(depth)],
        ["Oldest due delivery", `${seconds.toFixed(1)} s`]
      ]),
      charts(yield* sample(sql, null)),
      html`<h2>What waits for an operator</h2>`,
      table("Projects where something waits, at most 20", head, cells, "Nothing waits for an operator.")
    ]
  }
})
