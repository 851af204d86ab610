/** A webhook: its health, its secrets, its actions and its latest deliveries. */
import { Effect } from "effect"
import { eventTypes } from "../../api/integrations/Events.ts"
import { lookupOne } from "../../platform/Lookups.ts"
import { filterNames, usualPace } from "../../integrations/Replays.ts"
import { find } from "../../integrations/DeliveryList.ts"
import { details } from "../../integrations/WebhookList.ts"
import { render } from "../DeliveryList.ts"
import { action, badge, facts, html, input, select, table, time } from "../Html.ts"
import { notFound, projectPage, textOf } from "../Page.ts"

/** Number of latest deliveries on the page. */
const latest = 10

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
    return {
      title: `Webhook of ${row.name}`,
      body: [
        facts([
          ["State", badge(row.enabled ? "enabled" : "disabled")],
          ["Reason", row.enabled ? null : (row.disabledReason ?? "unknown")],
          ["Installation", row.installationId],
          ["Endpoint", row.endpointUrl],
          ["Event types", row.eventTypes.join(", ")],
          ["Version", row.version]
        ]),
        html`<h2>Health</h2>`,
        facts([
          ["Failures in a row", row.failures],
          ["Suspect", row.suspect ? "yes" : "no"],
          ["In flight", row.inFlight],
          ["Parked until", time(row.parkedUntil)],
          ["Resting until (Retry-After)", time(row.restingUntil)],
          ["Failing since", time(row.failingSince)],
          ["Last success", time(row.lastSuccessAt)]
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
        action("/console/replay", csrf, of, "Submit", [
          input("Created since", "since", null, "2026-11-20T00:00:00Z"),
          input("and before", "until", null, "2026-11-21T00:00:00Z"),
          select("State", "status", filterNames, "dead", ""),
          select("Event", "type", eventTypes, null, "all"),
          input("Deliveries per second", "pace", String(usualPace)),
          select("Mode", "mode", ["count only", "replay"], "count only", "")
        ]),
        html`<h2>Deliveries</h2>`,
        render(project.id, filter, yield* find(sql, project.id, filter, { after: null, limit: latest }), latest)
      ]
    }
  })
)
