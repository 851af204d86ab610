/** The service: whether anything is wrong, the endpoints that fail, what needs a decision, and the charts of deliveries. */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { countPending } from "../../integrations/deliveries/DeliveryMetrics.ts"
import {
  type DueEndpoint,
  listDue,
  listFailing,
  type FailingEndpoint,
  failingMax,
  overdueAfter
} from "../../integrations/endpoints/WebhookList.ts"
import { pendingMax } from "../../api/integrations/WebhookHealth.ts"
import { countEndpoints, inWords, maxCount, maxProjects, type Waiting, waiting } from "../../project/Waiting.ts"
import { attemptCharts } from "../Charts.ts"
import { type PageRequest, recordLink } from "../Page.ts"
import { listWorkers } from "../../work/Worker.ts"
import { plural } from "../../platform/Text.ts"
import { listRefused, maxShown } from "../../http/auth/RefusedRequests.ts"
import { badge, countOf, duration, facts, failureOf, html, idOf, link, table, timeSince } from "../Html.ts"

const maxEndpoints = 20

const readState = Effect.fnUntraced(function* (sql: SqlClient.SqlClient) {
  const due = yield* listDue(sql, maxEndpoints)
  const workers = yield* listWorkers(sql)
  const [{ enabled } = { enabled: 0 }] = yield* countEndpoints(sql)
  const failed = yield* listFailing(sql, maxEndpoints)
  return { due, workers, enabled, failed, projects: yield* waiting(sql) }
})
type State = Effect.Success<ReturnType<typeof readState>>

/** Says in one sentence what is wrong, and which counts are only minimums. */
const summaryOf = ({ due, enabled, failed, projects, workers }: State): string => {
  const [longest] = failed
  const failing = ({ failingSeconds, total }: FailingEndpoint) => {
    const time = duration(failingSeconds)
    if (total > 1)
      return `${countOf(total, failingMax)} of ${countOf(enabled, maxCount)} endpoints fail, the longest for ${time}`
    return `${enabled === 1 ? "the only endpoint" : `1 of ${countOf(enabled, maxCount)} endpoints`} has been failing for ${time}`
  }
  const { behind = 0, oldestSeconds = 0 } = due[0] ?? {}
  const working = workers.filter(({ isHung }) => !isHung).length
  const wrong = [
    ...(working === 0 ? ["no worker runs: nothing is sent in the background"] : []),
    ...(behind === 0 ? [] : [plural(behind, "endpoint is behind", "endpoints are behind")]),
    ...(longest === undefined ? [] : [failing(longest)]),
    ...(["disabled", "dead", "unknown", "paused"] as const).flatMap((kind) => inWords(projects, kind))
  ]
  const queue =
    oldestSeconds < overdueAfter
      ? "nothing is overdue"
      : `the oldest due delivery has waited ${duration(oldestSeconds)}`
  const sentence = [...(wrong.length === 0 ? ["Nothing waits for an operator"] : wrong), queue].join("; ")
  return `${sentence.charAt(0).toUpperCase()}${sentence.slice(1)}.`
}

const listed = (path: string, count: "dead" | "unknown" | "disabled" | "paused", status?: string) => ({
  number: (row: Waiting) => link(path, { project: row.projectId, status }, countOf(row[count], maxCount))
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
  const state = yield* readState(sql)
  const { due, failed, projects, workers } = state
  const refused = yield* listRefused(sql)
  const time = timeSince(request.session.now)
  return {
    title: "Overview",
    body: [
      html`<p class="summary" role="status">${summaryOf(state)}</p>`,
      facts({
        "Pending deliveries": countOf(pending, maxCount),
        "Oldest due delivery": `${(due[0]?.oldestSeconds ?? 0).toFixed(1)} s`
      }),
      table(
        "Workers, the oldest first",
        {
          Worker: ({ id }) => idOf(id),
          Role: ({ role }) => role,
          Version: ({ version }) => version,
          Host: ({ host }) => host,
          Since: ({ startedAt }) => time(startedAt),
          "Last sign": ({ isHung, silentSeconds }) =>
            html`${silentSeconds < 1 ? "now" : `${duration(silentSeconds)} ago`} ${isHung ? badge("hangs") : ""}`
        },
        workers,
        "No worker runs. Start a process with --role worker or --role all."
      ),
      ...(due[0]?.behind
        ? [
            html`<h2>Endpoints that are behind</h2>`,
            table(
              `Endpoints that ask for no pause and have a delivery due for more than a minute, the longest first, at most ${maxEndpoints}`,
              {
                ...named,
                "In flight": { number: ({ inFlight }) => inFlight },
                "Last success": ({ lastSuccessAt }) => time(lastSuccessAt),
                "Oldest due delivery": { number: ({ dueSeconds }) => duration(dueSeconds) }
              },
              due.filter(({ condition }) => condition === "behind"),
              ""
            )
          ]
        : []),
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
        failed,
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
      ...(refused.length === 0
        ? []
        : [
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
              refused,
              ""
            )
          ]),
      html`<h2>Deliveries</h2>`,
      ...(yield* attemptCharts(sql, request, null))
    ]
  }
})
