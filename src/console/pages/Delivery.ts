/** A delivery with its attempts, its last request and its event. */
import { Effect } from "effect"
import { headersOf } from "../../integrations/deliveries/Attempt.ts"
import { attemptsOf, type Details, details } from "../../integrations/deliveries/DeliveryList.ts"
import { action, badge, block, facts, html, idOf, link, table, traceLink } from "../Html.ts"
import { projectPage, recordOf, traceUrlOf } from "../Page.ts"
import { historyLink, recordLink } from "../Records.ts"
import { nextAttempt, probesOf } from "./Deliveries.ts"

export const delivery = projectPage(
  Effect.fnUntraced(function* (parts) {
    const { project, request, sql, time } = parts
    const row = yield* recordOf(parts, details, "delivery")
    const probes = yield* probesOf(sql, project.id, [row])
    const attempts = attemptsOf(row)
    const last = attempts.at(-1)
    const of = { project: project.id }
    return {
      title: `Delivery ${row.id}`,
      body: [
        facts({
          State: link("/console/deliveries", { ...of, status: row.status }, badge(row.status)),
          "Reason without an attempt": row.deadCode ?? undefined,
          Installation: recordLink("installation", project.id, row.installationId),
          Created: time(row.createdAt),
          "Next attempt": nextAttempt(row, probes, time) ?? undefined,
          Finished: time(row.finishedAt) ?? undefined,
          "Replayed by": recordLink("delivery", project.id, row.replayedBy) ?? undefined,
          "Replay of": recordLink("delivery", project.id, row.replayOf) ?? undefined,
          History: historyLink("delivery", { projectId: project.id, id: row.id }),
          Trace: traceLink(yield* traceUrlOf(row.traceparent))
        }),
        ...(row.status === "dead"
          ? [action("delivery.retry", request.session.csrf, { ...of, delivery: row.id }, "Retry this delivery")]
          : []),
        html`<h2>Attempts</h2>`,
        table(
          "Attempts, oldest first",
          {
            Attempt: ({ number }) => number,
            Started: ({ startedAt }) => time(startedAt),
            Endpoint: ({ endpointUrl }) => endpointUrl,
            Status: ({ statusCode }) => statusCode,
            Duration: { number: ({ durationMs }) => (durationMs === null ? null : `${durationMs} ms`) },
            Error: ({ errorCode }) => errorCode,
            Answer: ({ responseBody }) => responseBody
          },
          attempts,
          "No attempt has ended yet."
        ),
        ...(last === undefined
          ? []
          : [
              html`<h2>Request</h2>`,
              block(
                `Headers of attempt ${last.number}. The signature and the span of the attempt are cut, and headers that a caller has added are left out.`,
                headersAt(row, last.startedAt)
              )
            ]),
        html`<h2>Event</h2>`,
        facts({
          Event: idOf(row.eventId),
          Type: link("/console/deliveries", { ...of, type: row.eventType }, row.eventType),
          Occurred: time(row.eventTime)
        }),
        block("Data of the event", JSON.stringify(row.eventData, null, 2))
      ]
    }
  })
)

/** Returns the headers of an attempt. `…` stands for the signature and the span, because they are not stored. */
const headersAt = ({ id, replayOf, traceparent }: Details, startedAt: string) => {
  const parts = { webhookId: replayOf ?? id, now: Date.parse(startedAt), body: "", traceparent }
  const { headers: sent } = headersOf({ secrets: [], headers: undefined }, parts)
  const trace = traceparent.split("-")[1] ?? ""
  return Object.entries({ ...sent, "webhook-signature": "v1,…", traceparent: `00-${trace}-…` })
    .map(([name, value]) => `${name}: ${value}`)
    .join("\n")
}
