/** The deliveries of a project, filtered by state, event type, installation, last answer and time. */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { eventTypes } from "../../api/integrations/Events.ts"
import type { ProjectId } from "../../api/schema/Ids.ts"
import { states } from "../../webhooks/delivery/States.ts"
import { attemptsOf, type Delivery, details, type Details, find } from "../../webhooks/delivery/DeliveryList.ts"
import { listProbes, type Probe } from "../../webhooks/WebhookList.ts"
import { badge, block, type TableColumns, facts, html, input, link, select, table, type Time } from "../Html.ts"
import { choiceOf, historyLink, listOf, projectPage, recordLink, recordOf, textOf, traceLinks } from "../Page.ts"
import { spanOf } from "../../telemetry/Telemetry.ts"
import { headersOf } from "../../webhooks/delivery/Attempt.ts"

const path = "/console/deliveries"

/** Says when a delivery is tried next. While its endpoint is parked, only the next probe is: the others wait for its success. */
const nextAttempt = ({ id, installationId, nextAttemptAt }: Delivery, probes: ReadonlyArray<Probe>, time: Time) => {
  const probe = probes.find((parked) => parked.installationId === installationId)
  if (nextAttemptAt === null || probe === undefined) return time(nextAttemptAt)
  return probe.deliveryId === id
    ? html`${time(nextAttemptAt)} as the probe of its endpoint`
    : html`waits until a probe of its endpoint succeeds, the next ${time(nextAttemptAt)}`
}

export const probesOf = (sql: SqlClient.SqlClient, project: ProjectId, deliveries: ReadonlyArray<Delivery>) => {
  const waiting = deliveries.filter((row) => row.nextAttemptAt !== null).map((row) => row.installationId)
  return waiting.length === 0 ? Effect.succeed([]) : listProbes(sql, project, waiting)
}

export const deliveryColumns = (
  project: ProjectId,
  time: Time,
  probes: ReadonlyArray<Probe>
): TableColumns<Delivery> => ({
  Delivery: ({ id }) => recordLink("delivery", project, id),
  Created: ({ createdAt }) => time(createdAt),
  Installation: ({ installationId: id }) => recordLink("installation", project, id),
  Event: ({ eventType: type }) => link(path, { project, type }, type),
  State: ({ replayOf, status }) =>
    html`${link(path, { project, status }, badge(status))}${replayOf === null ? "" : " (replay)"}`,
  Attempts: ({ attempts }) => attempts,
  "Last answer": ({ lastErrorCode, lastStatusCode }) => {
    const answer = lastErrorCode ?? lastStatusCode?.toString()
    return answer === undefined ? null : link(path, { project, answer }, answer)
  },
  "Next attempt": (row) => nextAttempt(row, probes, time)
})

export const deliveries = projectPage(
  Effect.fnUntraced(function* ({ project, range, request, sql, time }) {
    const filter = {
      installationId: textOf(request, "installation"),
      status: yield* choiceOf(request, "status", states),
      type: yield* choiceOf(request, "type", eventTypes),
      answer: textOf(request, "answer")
    }
    const { answer, installationId: installation, status, type } = filter
    const found = yield* find(sql, project.id, filter, range)
    return listOf(request, {
      range,
      title: `Deliveries of ${project.name}`,
      filter: [
        select("State", "status", states, status),
        select("Event", "type", eventTypes, type),
        input("Installation", "installation", installation),
        input("Last answer", "answer", answer, "timeout or 500")
      ],
      caption: "Deliveries, newest first",
      empty: "No deliveries.",
      found,
      columns: deliveryColumns(project.id, time, yield* probesOf(sql, project.id, found.items))
    })
  })
)

export const delivery = projectPage(
  Effect.fnUntraced(function* (context) {
    const { project, sql, submit, time } = context
    const row = yield* recordOf(context, details, "delivery")
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
          Trace: (yield* traceLinks)(spanOf(row.traceparent)?.traceId)
        }),
        row.status === "dead" && submit("delivery.retry", { delivery: row.id }, "Retry this delivery"),
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
        last && [
          html`<h2>Request</h2>`,
          block(
            `Headers of attempt ${last.number}. The signature and the span of the attempt are cut, and headers that a caller has added are left out.`,
            headersAt(row, last.startedAt)
          )
        ],
        html`<h2>Event</h2>`,
        facts({
          Event: recordLink("event", project.id, row.eventId),
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
