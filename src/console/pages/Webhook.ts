/** A webhook: its health, its secrets, its actions and its latest deliveries. */
import { Effect, Record } from "effect"
import { eventTypes } from "../../api/integrations/Events.ts"
import { lookupOne } from "../../platform/Lookups.ts"
import { filterNames, usualPace } from "../../integrations/Replays.ts"
import { find } from "../../integrations/DeliveryList.ts"
import { details } from "../../integrations/WebhookList.ts"
import { replayFaults } from "../Actions.ts"
import { render } from "../DeliveryList.ts"
import { pendingMax } from "../../api/integrations/WebhookHealth.ts"
import { action, badge, counted, facts, html, input, select, table, time } from "../Html.ts"
import { notFound, projectPage, textOf } from "../Page.ts"

/** Number of latest deliveries on the page. */
const latest = 10

/** The labels of the form of a replay. */
const replayLabels = {
  since: "Created since",
  until: "and before",
  status: "State",
  type: "Event",
  pace: "Deliveries per second"
} as const

/** Why a webhook is disabled. */
const reasons = {
  gone: "the endpoint answered 410",
  failing: "it failed for too long",
  operator: "an operator disabled it",
  unknown: "unknown"
}

export const webhook = projectPage(
  Effect.fnUntraced(function* ({ project, request, sql }) {
    const id = textOf(request, "installation")
    const found = id === null ? undefined : yield* lookupOne(sql, details(sql), { projectId: project.id, id })
    const row = found ?? (yield* notFound("webhook for installation", id))
    const filter = {
      installationId: row.installationId,
      status: null,
      type: null,
      since: null,
      until: null
    }
    const of = { project: project.id, installation: row.installationId }
    const { csrf } = request.session
    const names = (textOf(request, "faulty") ?? "").split(",")
    const faulty = Record.keys(replayLabels).filter((name) => names.includes(name))
    return {
      title: `Webhook of ${row.name}`,
      body: [
        facts([
          ["Webhook", badge(row.enabled ? "enabled" : "disabled")],
          ...(row.enabled ? [] : [["Disabled because", reasons[row.disabledReason ?? "unknown"]] as const]),
          ["Installation", row.installationId],
          ["Endpoint", row.endpointUrl],
          ["Event types", row.eventTypes.join(", ")],
          ["Version", row.version]
        ]),
        html`<h2>Health</h2>`,
        facts([
          ["State", badge(row.state)],
          ["Failures in a row", row.failures],
          ["Failing since", time(row.failingSince)],
          ["Last success", time(row.lastSuccessAt)],
          [
            "Last failure",
            row.lastFailure &&
              html`${row.lastFailure.errorCode ?? `status ${row.lastFailure.statusCode}`} at ${time(row.lastFailure.at)}`
          ],
          ["Pending deliveries", counted(row.pending, pendingMax)],
          ["In flight", row.inFlight],
          ["Next attempt", time(row.nextAttemptAt)],
          ["Parked until", time(row.parkedUntil)],
          ["Resting until (Retry-After)", time(row.restingUntil)]
        ]),
        html`<h2>Secrets</h2>`,
        table(
          "Secrets that sign deliveries now",
          ["Created", "Signs until"],
          row.secrets.map(({ createdAt, signsUntil }) => [
            time(createdAt),
            signsUntil === null ? "no end" : time(signsUntil)
          ]),
          "No secrets."
        ),
        html`<h2>Actions</h2>`,
        html`<div class="actions">
          ${action("/console/test", csrf, of, "Send a test event")}
          ${row.enabled ? action("/console/disable", csrf, of, "Disable") : action("/console/enable", csrf, of, "Enable")}
        </div>`,
        html`<h2>Replay</h2>`,
        ...faulty.map((name) => html`<p class="bad" role="alert">${replayLabels[name]}: ${replayFaults[name]}</p>`),
        action("/console/replay", csrf, of, "Count and continue", [
          input(replayLabels.since, "since", textOf(request, "since"), "2026-11-20T00:00:00Z"),
          input(replayLabels.until, "until", textOf(request, "until"), "2026-11-21T00:00:00Z"),
          select(replayLabels.status, "status", filterNames, textOf(request, "status") ?? "dead", ""),
          select(replayLabels.type, "type", eventTypes, textOf(request, "type"), "all"),
          input(replayLabels.pace, "pace", textOf(request, "pace") ?? String(usualPace))
        ]),
        html`<h2>Deliveries</h2>`,
        render(project.id, filter, yield* find(sql, project.id, filter, { after: null, limit: latest }), latest)
      ]
    }
  })
)
