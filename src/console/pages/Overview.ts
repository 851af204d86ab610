/** The service: whether anything is wrong, the endpoints that fail, what needs a decision, and the charts of deliveries. */
import { Effect } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import { isDead } from "../../integrations/DeliveryList.ts"
import { measureQueue } from "../../integrations/DeliveryMetrics.ts"
import { failing, type FailingEndpoint, failingMax } from "../../integrations/WebhookList.ts"
import { pendingMax } from "../../api/integrations/WebhookHealth.ts"
import { attemptsOf, charts } from "../Charts.ts"
import type { PageRequest } from "../Page.ts"
import { badge, counted, duration, facts, html, link, table, time } from "../Html.ts"

/** Maximum number that is counted. */
const maxCount = 10_000

/** Maximum numbers of failing endpoints and of projects on the page. */
const maxEndpoints = 20
const maxProjects = 20

/** Age of the oldest due delivery, in seconds, from which on the queue is overdue. */
const overdueAfter = 5

/** Counts of a project's records that need an operator. */
interface Waiting {
  readonly projectId: string
  readonly dead: number
  readonly unknown: number
  readonly disabled: number
  readonly paused: number
}

const bounded = (sql: SqlClient.SqlClient, of: Statement.Fragment) =>
  sql`(SELECT count(*)::int FROM (SELECT ${of} LIMIT ${maxCount}::int) counted)`

/** Finds projects where something waits for an operator, with counts up to `maxCount`. */
const waiting = (sql: SqlClient.SqlClient) => {
  const of = (table: string, condition: string) =>
    bounded(sql, sql.literal(`FROM ${table} WHERE ${table}.project_id = projects.project_id AND ${condition}`))
  return sql<Waiting>`
    SELECT project_id AS "projectId", waiting.*
    FROM projects, LATERAL (
      SELECT ${of("deliveries", isDead)} AS dead, ${of("messages", "status = 'unknown'")} AS unknown,
        ${of("webhooks", "NOT enabled")} AS disabled, ${of("campaigns", "status = 'paused'")} AS paused OFFSET 0
    ) waiting
    WHERE dead + unknown + disabled + paused > 0
    ORDER BY project_id LIMIT ${maxProjects + 1}::int`
}

/** Counts the endpoints of enabled webhooks. */
const endpoints = (sql: SqlClient.SqlClient) =>
  sql<{ readonly enabled: number }>`SELECT ${bounded(sql, sql.literal("FROM webhooks WHERE enabled"))} AS enabled`

interface State {
  readonly enabled: number
  readonly failed: ReadonlyArray<FailingEndpoint>
  readonly projects: ReadonlyArray<Waiting>
  readonly overdueSeconds: number
}

/** Says in one sentence what is wrong. A count that stops at a maximum says so. */
const summaryOf = ({ enabled, failed, overdueSeconds, projects }: State): string => {
  const [longest] = failed
  const total = (of: Exclude<keyof Waiting, "projectId">) => ({
    sum: projects.reduce((sum, project) => sum + project[of], 0),
    isPartial: projects.length > maxProjects || projects.some((project) => project[of] === maxCount)
  })
  const part = (of: Exclude<keyof Waiting, "projectId">, one: string, many: string) => {
    const { isPartial, sum } = total(of)
    return sum === 0 ? [] : [`${isPartial ? "at least " : ""}${sum} ${sum === 1 ? one : many}`]
  }
  const failing =
    longest === undefined
      ? []
      : [
          `${counted(longest.total, failingMax)} of ${counted(enabled, maxCount)} endpoints ${longest.total === 1 ? "fails" : "fail"}, ` +
            `${longest.total === 1 ? "" : "the longest "}for ${duration(longest.failingSeconds)}`
        ]
  const wrong = [
    ...failing,
    ...part("disabled", "webhook is disabled", "webhooks are disabled"),
    ...part("dead", "delivery is dead", "deliveries are dead"),
    ...part("unknown", "message needs a decision", "messages need a decision"),
    ...part("paused", "campaign is paused", "campaigns are paused")
  ]
  const queue =
    overdueSeconds < overdueAfter
      ? "nothing is overdue"
      : `the oldest due delivery has waited ${duration(overdueSeconds)}`
  const sentence = [...(wrong.length === 0 ? ["Nothing waits for an operator"] : wrong), queue].join("; ")
  return `${sentence.charAt(0).toUpperCase()}${sentence.slice(1)}.`
}

const failureOf = ({ lastFailure }: FailingEndpoint) =>
  lastFailure === null ? null : (lastFailure.errorCode ?? `status ${lastFailure.statusCode}`)

export const overview = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, request: PageRequest) {
  const [{ depth, seconds } = { depth: 0, seconds: 0 }] = yield* measureQueue(sql, maxCount)
  const [{ enabled } = { enabled: 0 }] = yield* endpoints(sql)
  const failed = yield* failing(sql, maxEndpoints)
  const projects = yield* waiting(sql)
  const summary = summaryOf({ enabled, failed, projects, overdueSeconds: seconds })
  return {
    title: "Overview",
    body: [
      html`<p class="summary" role="status">${summary}</p>`,
      facts([
        ["Pending deliveries", counted(depth, maxCount)],
        ["Oldest due delivery", `${seconds.toFixed(1)} s`]
      ]),
      html`<h2>Endpoints that fail</h2>`,
      table(
        `Failing endpoints, the longest first, at most ${maxEndpoints}`,
        ["Webhook", "Project", "State", "Failing for", "Last failure", "Waiting", "Next attempt"],
        failed.map((endpoint) => [
          link(
            "/console/webhook",
            { project: endpoint.projectId, installation: endpoint.installationId },
            endpoint.name
          ),
          link("/console/project", { project: endpoint.projectId }, endpoint.projectId),
          badge(endpoint.state),
          html`${duration(endpoint.failingSeconds)}, since ${time(endpoint.failingSince)}`,
          failureOf(endpoint),
          counted(endpoint.pending, pendingMax),
          time(endpoint.nextAttemptAt)
        ]),
        "No endpoint fails."
      ),
      html`<h2>What waits for an operator</h2>`,
      table(
        `Projects where something waits, at most ${maxProjects}`,
        ["Project", "Dead deliveries", "Messages of unknown outcome", "Disabled webhooks", "Paused campaigns"],
        projects
          .slice(0, maxProjects)
          .map(({ dead, disabled, paused, projectId, unknown }) => [
            link("/console/project", { project: projectId }, projectId),
            link("/console/deliveries", { project: projectId, status: "dead" }, counted(dead, maxCount)),
            link("/console/messages", { project: projectId, status: "unknown" }, counted(unknown, maxCount)),
            link("/console/project", { project: projectId }, counted(disabled, maxCount)),
            link("/console/campaigns", { project: projectId }, counted(paused, maxCount))
          ]),
        "Nothing waits for an operator."
      ),
      html`<h2>Deliveries</h2>`,
      charts(yield* attemptsOf(sql, request, null))
    ]
  }
})
