import { Effect } from "effect"
import { eventTypes } from "../../api/integrations/Events.ts"
import { pendingMax } from "../../api/integrations/WebhookHealth.ts"
import { states } from "../../webhooks/delivery/States.ts"
import { find } from "../../webhooks/delivery/DeliveryList.ts"
import { replayFilters } from "../../api/integrations/Replays.ts"
import { details, list } from "../../webhooks/WebhookList.ts"
import { lookupOne } from "../../sql/Lookups.ts"
import { badge, block, countOf, facts, failureOf, html, idOf, input, link, select, table, timeInput } from "../Html.ts"
import { historyLink, historyPage, listOf, pageSize, projectPage, recordLink, textOf } from "../Page.ts"
import { deliveryColumns, probesOf } from "./Deliveries.ts"
import { listReplays } from "../../webhooks/Replays.ts"

const reasons = {
  gone: "the endpoint answered 410",
  failing: "it failed for too long",
  operator: "an operator disabled it",
  unknown: "unknown"
}

/** What the condition of an endpoint means; nothing if the word suffices. */
const meanings: Readonly<Record<string, string>> = {
  unproven: "no attempt has succeeded since the webhook was changed: send a test event",
  behind: "a delivery has been due for more than a minute",
  parked: "one probe at a time is sent; the other deliveries wait until it succeeds",
  resting: "nothing is sent until its Retry-After has passed"
}

export const webhook = projectPage(
  Effect.fnUntraced(function* ({ project, request, sql, submit, time }) {
    const id = textOf(request, "installation") ?? ""
    const row = yield* lookupOne(sql, details(sql), { projectId: project.id, id })
    if (row === undefined) {
      return { title: "No webhook", body: [], elsewhere: historyPage("installation", { projectId: project.id, id }) }
    }
    const filter = { installationId: row.installationId, status: null, type: null, answer: null }
    const found = yield* find(sql, project.id, filter, { after: null, limit: 10 })
    const of = { project: project.id, installation: row.installationId }
    const path = "/console/deliveries"
    return {
      title: `Webhook of ${row.name}`,
      body: [
        facts({
          Webhook: badge(row.enabled ? "enabled" : "disabled"),
          "Disabled because": row.enabled ? undefined : reasons[row.disabledReason ?? "unknown"],
          Installation: idOf(row.installationId),
          Endpoint: row.endpointUrl,
          "Event types": row.eventTypes.join(", "),
          "Headers, without values": row.headerNames.length === 0 ? undefined : row.headerNames.join(", "),
          Version: row.version,
          History: historyLink("installation", { projectId: project.id, id: row.installationId })
        }),
        html`<h2>Health</h2>`,
        facts({
          State: html`${badge(row.condition)}
          ${row.enabled ? meanings[row.condition] : "nothing is sent while the webhook is disabled"}`,
          "Failures in a row": row.failures,
          "Failing since": time(row.failingSince) ?? undefined,
          "Last success": time(row.lastSuccessAt) ?? "never",
          "Last failure": row.lastFailure === null ? "none" : html`${failureOf(row)}, ${time(row.lastFailure.at)}`,
          "Pending deliveries": link(path, { ...of, status: "pending" }, countOf(row.pending, pendingMax)),
          "In flight": row.inFlight,
          "Next attempt": time(row.nextAttemptAt),
          "Parked until": time(row.parkedUntil) ?? undefined,
          "Resting until (Retry-After)": time(row.restingUntil) ?? undefined
        }),
        row.lastFailure?.responseBody &&
          block("The beginning of the answer to the attempt that failed last", row.lastFailure.responseBody),
        html`<h2>Secrets</h2>`,
        table(
          "Secrets that sign deliveries now",
          { Created: (row) => time(row.createdAt), "Signs until": (row) => time(row.signsUntil) ?? "no end" },
          row.secrets,
          "No secrets."
        ),
        html`<h2>Actions</h2>`,
        html`<div class="actions">
          ${submit("webhook.test", of, "Send a test event")}
          ${row.enabled ? submit("webhook.disable", of, "Disable") : submit("webhook.enable", of, "Enable")}
        </div>`,
        html`<h2>Replay</h2>`,
        submit("replay.start", of, "Continue", [
          timeInput("Events since", "since", null),
          timeInput("and before", "until", null),
          select("State", "status", replayFilters, "dead", ""),
          select("Event", "type", eventTypes, null, "all")
        ]),
        html`<h2>Deliveries</h2>`,
        table(
          "Latest deliveries, newest first",
          deliveryColumns(project.id, time, yield* probesOf(sql, project.id, found.items)),
          found.items,
          "No deliveries."
        ),
        html`<p class="links">
          ${[null, ...states].map((status) => link(path, { ...of, status }, status ?? "All deliveries"))}
        </p>`
      ]
    }
  })
)

export const replays = projectPage(
  Effect.fnUntraced(function* ({ project, range, request, sql, submit, time }) {
    const installation = textOf(request, "installation")
    const found = yield* listReplays(project.id, { ...range, installationId: installation })
    const ids = found.items.filter(({ state }) => state === "running").map(({ installationId }) => installationId)
    const webhooks = yield* list(sql, project.id, sql`webhooks.installation_id = ANY(${ids}::text[])`, pageSize)
    return listOf(request, {
      range,
      filter: [input("Installation", "installation", installation)],
      title: `Replays of ${project.name}`,
      caption: "Replays, newest first",
      empty: "No such replays. The page of a webhook starts one.",
      found,
      columns: {
        Replay: ({ id }) => idOf(id),
        Installation: ({ installationId: id }) => recordLink("installation", project.id, id),
        State: ({ id: replay, state }) =>
          html`${badge(state)} ${state === "running" ? submit("replay.cancel", { replay }, "Cancel") : ""}`,
        Made: ({ made }) => String(made),
        Endpoint: ({ installationId, state }) => {
          const webhook = webhooks.find((webhook) => webhook.installationId === installationId)
          if (state !== "running" || webhook === undefined) return null
          const until =
            webhook.state === "parked" ? webhook.parkedUntil : webhook.state === "resting" ? webhook.restingUntil : null
          return html`${badge(webhook.condition)}${until === null ? "" : html` until ${time(until)}`}`
        },
        Events: ({ eventTypes, since, status, until }) =>
          html`${status}${eventTypes.length === 0 ? "" : `: ${eventTypes.join(", ")}`}, since ${time(since)} and before
          ${time(until)}`,
        Started: ({ createdAt }) => time(createdAt)
      }
    })
  })
)
