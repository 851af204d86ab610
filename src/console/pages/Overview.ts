/** The service: whether anything is wrong, the endpoints that fail, what needs a decision, and the charts of deliveries. */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { measureQueue } from "../../integrations/deliveries/DeliveryMetrics.ts"
import { listFailing, type FailingEndpoint, failingMax } from "../../integrations/endpoints/WebhookList.ts"
import { pendingMax } from "../../api/integrations/WebhookHealth.ts"
import { countEndpoints, maxCount, type Waiting, waiting } from "../../project/Waiting.ts"
import { attemptCharts } from "../Charts.ts"
import type { PageRequest } from "../Page.ts"
import { plural } from "../../platform/operators/Search.ts"
import { badge, countOf, duration, facts, failureOf, html, idLink, link, table, timeSince } from "../Html.ts"

/** Maximum numbers of failing endpoints and of projects on the page. */
const maxEndpoints = 20
const maxProjects = 20

/** The queue is overdue if the oldest due delivery has waited for this number of seconds. */
const overdueAfter = 5

interface State {
  readonly enabled: number
  readonly failed: ReadonlyArray<FailingEndpoint>
  readonly projects: ReadonlyArray<Waiting>
  readonly overdueSeconds: number
}

type Count = "dead" | "unknown" | "disabled" | "paused"

/** Says in one sentence what is wrong, and which counts are only minimums. */
const summaryOf = ({ enabled, failed, overdueSeconds, projects }: State): string => {
  const [longest] = failed
  const part = (of: Count, one: string, many: string) => {
    const sum = projects.reduce((sum, project) => sum + project[of], 0)
    const isPartial =
      projects.length > maxProjects ||
      projects.some((project) => project[of] === maxCount || (of === "unknown" && project.hasMore))
    return sum === 0 ? [] : [`${isPartial ? "at least " : ""}${plural(sum, one, many)}`]
  }
  const failing = ({ failingSeconds, total }: FailingEndpoint) => {
    const time = duration(failingSeconds)
    if (total > 1)
      return `${countOf(total, failingMax)} of ${countOf(enabled, maxCount)} endpoints fail, the longest for ${time}`
    return `${enabled === 1 ? "the only endpoint" : `1 of ${countOf(enabled, maxCount)} endpoints`} has been failing for ${time}`
  }
  const wrong = [
    ...(longest === undefined ? [] : [failing(longest)]),
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

const listed = (path: string, count: Count, status?: string) => ({
  number: (row: Waiting) => link(path, { project: row.projectId, status }, countOf(row[count], maxCount))
})

export const overview = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, request: PageRequest) {
  const [{ depth, seconds } = { depth: 0, seconds: 0 }] = yield* measureQueue(sql, maxCount)
  const [{ enabled } = { enabled: 0 }] = yield* countEndpoints(sql)
  const failed = yield* listFailing(sql, maxEndpoints)
  const projects = yield* waiting(sql, maxProjects + 1)
  const time = timeSince(request.session.now)
  const summary = summaryOf({ enabled, failed, projects, overdueSeconds: seconds })
  return {
    title: "Overview",
    body: [
      html`<p class="summary" role="status">${summary}</p>`,
      facts({ "Pending deliveries": countOf(depth, maxCount), "Oldest due delivery": `${seconds.toFixed(1)} s` }),
      html`<h2>Endpoints that fail</h2>`,
      table(
        `Failing endpoints, the longest first, at most ${maxEndpoints}`,
        {
          Webhook: ({ installationId: installation, name, projectId: project }) =>
            link("/console/webhook", { project, installation }, name),
          Project: ({ projectId: project }) => idLink("/console/project", { project }, project),
          State: ({ state }) => badge(state),
          "Failing since": ({ failingSince }) => time(failingSince),
          "Last failure": failureOf,
          Waiting: {
            number: ({ installationId: installation, pending, projectId: project }) =>
              link("/console/deliveries", { project, installation, status: "pending" }, countOf(pending, pendingMax))
          },
          "Next attempt": ({ nextAttemptAt }) => time(nextAttemptAt)
        },
        failed,
        "No endpoint fails."
      ),
      html`<h2>What waits for an operator</h2>`,
      table(
        `Projects where something waits, at most ${maxProjects}`,
        {
          Project: ({ projectId: project }) => idLink("/console/project", { project }, project),
          "Dead deliveries": listed("/console/deliveries", "dead", "dead"),
          "Messages that need a decision": listed("/console/messages", "unknown", "needs decision"),
          "Disabled webhooks": listed("/console/project", "disabled"),
          "Paused campaigns": listed("/console/campaigns", "paused", "paused")
        },
        projects.slice(0, maxProjects),
        "Nothing waits for an operator."
      ),
      html`<h2>Deliveries</h2>`,
      ...(yield* attemptCharts(sql, request, null))
    ]
  }
})
