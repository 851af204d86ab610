/** A delivery with its attempts and its event. */
import { Effect, Option } from "effect"
import type { EventId, InstallationId } from "../../api/Ids.ts"
import type { Attempt, State } from "../../integrations/Deliveries.ts"
import { selected } from "../../platform/Columns.ts"
import { Settings } from "../../platform/Settings.ts"
import { spanOf } from "../../platform/TraceContext.ts"
import { action, badge, facts, html, link, table, time } from "../Html.ts"
import { notFound, projectPage, textOf } from "../Page.ts"

/** An attempt with the endpoint that it called. Entries of lost leases, and those of earlier versions, have none. */
interface LoggedAttempt extends Attempt {
  readonly endpointUrl?: string
}

interface Row {
  readonly id: string
  readonly installationId: InstallationId
  readonly endpointUrl: string
  readonly status: State
  readonly deadCode: string | null
  readonly replayId: string | null
  readonly replayOf: string | null
  readonly nextAttemptAt: string | null
  readonly createdAt: string
  readonly finishedAt: string | null
  readonly log: ReadonlyArray<LoggedAttempt>
  readonly eventId: EventId
  readonly type: string
  readonly data: unknown
  readonly traceparent: string
  readonly occurredAt: string
}

const columns = `deliveries.id, deliveries.installation_id AS "installationId", endpoint_url AS "endpointUrl", status,
  dead_code AS "deadCode", replay_id AS "replayId", replay_of AS "replayOf", attempt_log AS log, event_id AS "eventId",
  type, data, traceparent, CASE WHEN status = 'pending' THEN available_at AT TIME ZONE 'UTC' END AS "nextAttemptAt",
  ${selected({
    createdAt: ["deliveries.created_at", "timestamptz"],
    finishedAt: ["finished_at", "timestamptz"],
    occurredAt: ["occurred_at", "timestamptz"]
  })}`

export const delivery = projectPage(
  Effect.fnUntraced(function* ({ project, request, sql }) {
    const { traceUrlTemplate } = yield* Settings
    const id = textOf(request, "id")
    const rows = yield* sql<Row>`
    SELECT ${sql.literal(columns)} FROM deliveries
      JOIN events ON events.project_id = deliveries.project_id AND events.id = event_id
      JOIN webhooks ON webhooks.project_id = deliveries.project_id
        AND webhooks.installation_id = deliveries.installation_id
    WHERE deliveries.project_id = ${project.id} AND deliveries.id = ${id}::text`
    const row = rows[0] ?? (yield* notFound("delivery", id))
    const trace = Option.flatMap(traceUrlTemplate, (template) =>
      Option.map(Option.fromUndefinedOr(spanOf(row.traceparent)), ({ traceId }) =>
        template.replaceAll("{traceId}", traceId)
      )
    )
    const of = { project: project.id, installation: row.installationId }
    return {
      title: `Delivery ${row.id}`,
      body: [
        facts([
          ["State", badge(row.status)],
          ["Reason without an attempt", row.deadCode],
          ["Installation", link("/console/webhook", of, row.installationId)],
          ["Endpoint, as configured now", row.endpointUrl],
          ["Created", time(row.createdAt)],
          ["Next attempt", time(row.nextAttemptAt)],
          ["Finished", time(row.finishedAt)],
          [
            "Replay of",
            row.replayOf && link("/console/delivery", { project: project.id, id: row.replayOf }, row.replayOf)
          ],
          [
            "Trace",
            Option.getOrNull(Option.map(trace, (url) => html`<a href="${url}" rel="noreferrer">Open the trace</a>`))
          ]
        ]),
        ...(row.status === "dead"
          ? [action("/console/retry", request.session.csrf, { project: project.id, id: row.id }, "Retry this delivery")]
          : []),
        html`<h2>Attempts</h2>`,
        table(
          "Attempts, oldest first",
          ["Attempt", "Started", "Endpoint", "Status", "Duration", "Error"],
          row.log.map(({ durationMs, endpointUrl = null, errorCode, number, startedAt, statusCode }) => [
            number,
            time(startedAt),
            endpointUrl,
            statusCode,
            durationMs === null ? null : `${durationMs} ms`,
            errorCode
          ]),
          "No attempt has ended yet."
        ),
        html`<h2>Event</h2>`,
        facts([
          ["Event", row.eventId],
          ["Type", row.type],
          ["Occurred", time(row.occurredAt)]
        ]),
        html`<pre tabindex="0" aria-label="Data of the event">${JSON.stringify(row.data, null, 2)}</pre>`
      ]
    }
  })
)
