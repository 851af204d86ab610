/** A delivery with its attempts and its event. */
import { Effect, Option } from "effect"
import { attemptsOf, details } from "../../integrations/DeliveryDetails.ts"
import { lookupOne } from "../../platform/Lookups.ts"
import { Settings } from "../../platform/Settings.ts"
import { spanOf } from "../../platform/TraceContext.ts"
import { action, badge, facts, html, link, table, time } from "../Html.ts"
import { notFound, projectPage, textOf } from "../Page.ts"

export const delivery = projectPage(
  Effect.fnUntraced(function* ({ project, request, sql }) {
    const { traceUrlTemplate } = yield* Settings
    const id = textOf(request, "id")
    const found = id === null ? undefined : yield* lookupOne(sql, details(sql), { projectId: project.id, id })
    const row = found ?? (yield* notFound("delivery", id))
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
          ["Attempt", "Started", "Endpoint", "Status", "Duration", "Error", "Answer"],
          attemptsOf(row).map(({ durationMs, endpointUrl, errorCode, number, responseBody, startedAt, statusCode }) => [
            number,
            time(startedAt),
            endpointUrl,
            statusCode,
            durationMs === null ? null : `${durationMs} ms`,
            errorCode,
            responseBody
          ]),
          "No attempt has ended yet."
        ),
        html`<h2>Event</h2>`,
        facts([
          ["Event", row.eventId],
          ["Type", row.eventType],
          ["Occurred", time(row.eventTime)]
        ]),
        html`<pre tabindex="0" aria-label="Data of the event">${JSON.stringify(row.eventData, null, 2)}</pre>`
      ]
    }
  })
)
