/** A webhook: its health, its secrets, its actions and its latest deliveries. */
import { Effect } from "effect"
import { eventTypes } from "../../api/integrations/Events.ts"
import { selected } from "../../platform/Columns.ts"
import { filterNames, usualPace } from "../../integrations/Replays.ts"
import { find } from "../../integrations/DeliveryList.ts"
import { render } from "../DeliveryList.ts"
import { action, badge, facts, html, input, select, table, time } from "../Html.ts"
import { notFound, projectPage, textOf } from "../Page.ts"

interface Row {
  readonly installationId: string
  readonly name: string
  readonly endpointUrl: string
  readonly eventTypes: ReadonlyArray<string>
  readonly enabled: boolean
  readonly disabledReason: string | null
  readonly version: number
  readonly inFlight: number
  readonly failures: number
  readonly suspect: boolean
  readonly parkedUntil: string | null
  readonly restingUntil: string | null
  readonly failingSince: string | null
  readonly lastSuccessAt: string | null
}

const columns = `installation_id AS "installationId", installations.name, endpoint_url AS "endpointUrl",
  event_types AS "eventTypes", enabled, disabled_reason AS "disabledReason", webhooks.version, in_flight AS "inFlight",
  failures, suspect, ${selected({
    parkedUntil: ["parked_until", "timestamptz"],
    restingUntil: ["resting_until", "timestamptz"],
    failingSince: ["failing_since", "timestamptz"],
    lastSuccessAt: ["last_success_at", "timestamptz"]
  })}`

/** Number of latest deliveries on the page. */
const latest = 10

export const webhook = projectPage(
  Effect.fnUntraced(function* ({ project, request, sql }) {
    const id = textOf(request, "installation")
    const rows = yield* sql<Row>`
    SELECT ${sql.literal(columns)} FROM webhooks JOIN endpoint_health USING (project_id, installation_id)
      JOIN installations ON installations.project_id = webhooks.project_id AND installations.id = installation_id
    WHERE webhooks.project_id = ${project.id} AND installation_id = ${id}::text`
    const row = rows[0] ?? (yield* notFound("webhook for installation", id))
    const secrets = yield* sql<{
      readonly version: number
      readonly createdAt: string | null
      readonly retiresAt: string | null
    }>`
    SELECT version, ${sql.literal(selected({ createdAt: ["created_at", "timestamptz"] }))},
      ${sql.literal(selected({ retiresAt: ["nullif(retires_at, 'infinity')", "timestamptz"] }))}
    FROM webhook_secrets
    WHERE project_id = ${project.id} AND installation_id = ${row.installationId} AND retires_at > now()
    ORDER BY version DESC`
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
          ["Since version", "Created", "Signs until"],
          secrets.map((secret) => [
            secret.version,
            secret.createdAt === null ? "not recorded" : time(secret.createdAt),
            secret.retiresAt === null ? "no end" : time(secret.retiresAt)
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
