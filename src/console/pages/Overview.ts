/** The service: whether anything is wrong, the endpoints that fail, what needs a decision, and the charts of deliveries. */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { countPending } from "../../webhooks/delivery/DeliveryMetrics.ts"
import type { DueEndpoint, FailingEndpoint } from "../../webhooks/WebhookList.ts"
import { pendingMax } from "../../api/integrations/WebhookHealth.ts"
import {
  maxCount,
  maxEndpoints,
  maxProjects,
  queueOf,
  readWorkState,
  type WorkState,
  troublesOf,
  type WaitingRecords
} from "../../operators/Troubles.ts"
import { attemptCharts } from "../Charts.ts"
import { type PageRequest, recordLink } from "../Page.ts"
import { duration } from "../../platform/Text.ts"
import { diskFull } from "../../sql/Database.ts"
import { RateLimits } from "../../http/limits/RateLimits.ts"
import { listRefused, maxShown } from "../../http/auth/RefusedRequests.ts"
import { badge, countOf, facts, failureOf, html, idOf, link, table, timeSince } from "../Html.ts"

/** Says in one sentence what is wrong. */
const summaryOf = (state: WorkState, hasLimiter: boolean): string => {
  const refused = hasLimiter ? [] : ["Redis does not answer: requests but sends of messages are refused"]
  const full = performance.now() - diskFull.at < 60_000 ? ["the disk of the database is full: writes fail"] : []
  const wrong = [...full, ...refused, ...troublesOf(state).map(({ what }) => what)]
  const sentence = [...(wrong.length === 0 ? ["nothing waits for an operator"] : wrong), queueOf(state)].join("; ")
  return `${sentence.charAt(0).toUpperCase()}${sentence.slice(1)}.`
}

const listed = (path: string, count: "dead" | "unknown" | "disabled" | "paused", status?: string) => ({
  number: (row: WaitingRecords) => link(path, { project: row.projectId, status }, countOf(row[count], maxCount))
})

const projectLink = ({ projectId }: { readonly projectId: string }) => recordLink("project", projectId, projectId)

const named = {
  Webhook: ({ installationId: installation, name, projectId: project }: FailingEndpoint | DueEndpoint) =>
    link("/console/webhook", { project, installation }, name),
  Project: projectLink
}

const meanings: Readonly<Record<number, string>> = { 401: "token refused", 403: "not allowed", 429: "too many" }

export const overview = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, request: PageRequest) {
  const [{ pending } = { pending: 0 }] = yield* countPending(sql, maxCount)
  const state = yield* readWorkState(sql)
  const { due, failing, projects, workers } = state
  const refused = yield* listRefused(sql)
  const { ping } = yield* RateLimits
  const hasLimiter = yield* Effect.match(ping, { onFailure: () => false, onSuccess: () => true })
  const time = timeSince(request.session.now)
  return {
    title: "Overview",
    body: [
      html`<p class="summary" role="status">${summaryOf(state, hasLimiter)}</p>`,
      facts({ "Pending deliveries": countOf(pending, maxCount) }),
      table(
        "Workers, the oldest first",
        {
          Worker: ({ id }) => idOf(id),
          Role: ({ role }) => role,
          Version: ({ version }) => version,
          Host: ({ host }) => host,
          Since: ({ startedAt }) => time(startedAt),
          "Last sign": ({ isHung, silentSeconds }) =>
            html`${silentSeconds === null ? "–" : silentSeconds < 1 ? "now" : `${duration(silentSeconds)} ago`}
            ${isHung ? badge("hangs") : ""}`
        },
        workers,
        "No worker runs. Start a process with --role worker or --role all."
      ),
      (due[0]?.behind ?? 0) > 0 && [
        html`<h2>Endpoints that are behind</h2>`,
        table(
          `Endpoints that ask for no pause and have a delivery due for more than a minute, the longest first, at most ${maxEndpoints}`,
          {
            ...named,
            "In flight": { number: ({ inFlight }) => inFlight },
            "Last success": ({ lastSuccessAt }) => time(lastSuccessAt),
            "Oldest due delivery": { number: ({ dueSeconds }) => duration(dueSeconds) }
          },
          due.filter(({ condition }) => condition === "behind")
        )
      ],
      html`<h2>Endpoints that fail</h2>`,
      table(
        `Failing endpoints, the longest first, at most ${maxEndpoints}`,
        {
          ...named,
          State: ({ condition }) => badge(condition),
          "Failing since": ({ failingSince }) => time(failingSince),
          "Last failure": failureOf,
          Waiting: {
            number: ({ installationId: installation, pending, projectId: project }) =>
              link("/console/deliveries", { project, installation, status: "pending" }, countOf(pending, pendingMax))
          },
          "Next attempt": ({ nextAttemptAt }) => time(nextAttemptAt)
        },
        failing,
        "No endpoint fails."
      ),
      html`<h2>What waits for an operator</h2>`,
      table(
        `Projects where something waits, at most ${maxProjects}`,
        {
          Project: projectLink,
          "Dead deliveries": listed("/console/deliveries", "dead", "dead"),
          "Messages that need a decision": listed("/console/messages", "unknown", "needs decision"),
          "Disabled webhooks": listed("/console/project", "disabled"),
          "Paused campaigns": listed("/console/campaigns", "paused", "paused")
        },
        projects.slice(0, maxProjects),
        "Nothing waits for an operator."
      ),
      refused.length > 0 && [
        html`<h2>Requests that were refused</h2>`,
        table(
          `Keys with the most requests that were refused in the last day, at most ${maxShown}`,
          {
            Key: ({ keyId, keyName, projectId: project }) => html`${keyName} ${recordLink("key", project, keyId)}`,
            Project: projectLink,
            Status: ({ status }) => `${status} ${meanings[status] ?? ""}`,
            Requests: ({ count }) => count,
            "Last counted": ({ lastAt }) => time(lastAt)
          },
          refused
        )
      ],
      html`<h2>Deliveries</h2>`,
      yield* attemptCharts(sql, request, null)
    ]
  }
})
