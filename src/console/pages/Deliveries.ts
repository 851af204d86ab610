/** The deliveries of a project, filtered by state, event type, installation, last answer and time. */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { eventTypes } from "../../api/integrations/Events.ts"
import type { ProjectId } from "../../api/schema/Ids.ts"
import { states } from "../../integrations/deliveries/States.ts"
import { type Delivery, find } from "../../integrations/deliveries/DeliveryList.ts"
import { listProbes, type Probe } from "../../integrations/endpoints/WebhookList.ts"
import { badge, type Columns, html, input, link, select, type Time } from "../Html.ts"
import { choiceOf, listOf, projectPage, textOf } from "../Page.ts"
import { recordLink } from "../Records.ts"

const path = "/console/deliveries"

/** Says when a delivery is tried next. While its endpoint is parked, only the next probe is: the others wait for its success. */
export const nextAttempt = (
  { id, installationId, nextAttemptAt }: Pick<Delivery, "id" | "installationId" | "nextAttemptAt">,
  probes: ReadonlyArray<Probe>,
  time: Time
) => {
  const probe = probes.find((parked) => parked.installationId === installationId)
  if (nextAttemptAt === null || probe === undefined) return time(nextAttemptAt)
  return probe.deliveryId === id
    ? html`${time(nextAttemptAt)} as the probe of its endpoint`
    : html`waits until a probe of its endpoint succeeds, the next ${time(nextAttemptAt)}`
}

/** Reads the probes of the endpoints of deliveries. */
export const probesOf = (sql: SqlClient.SqlClient, project: ProjectId, deliveries: ReadonlyArray<Delivery>) => {
  const waiting = deliveries.filter(({ nextAttemptAt }) => nextAttemptAt !== null)
  return waiting.length === 0
    ? Effect.succeed([])
    : listProbes(
        sql,
        project,
        waiting.map(({ installationId }) => installationId)
      )
}

export const deliveryColumns = (project: ProjectId, time: Time, probes: ReadonlyArray<Probe>): Columns<Delivery> => ({
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
