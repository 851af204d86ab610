import { Effect, Option } from "effect"
import { Command, Flag } from "effect/cli"
import type { DeliveryAttempt } from "../../api/integrations/Deliveries.ts"
import { eventTypes } from "../../api/integrations/Events.ts"
import { listDeliveries, retryDelivery, showDelivery } from "../../integrations/deliveries/Deliveries.ts"
import { attemptsOf } from "../../integrations/deliveries/DeliveryDetails.ts"
import type { Delivery } from "../../integrations/deliveries/DeliveryList.ts"
import { states } from "../../integrations/deliveries/States.ts"
import * as Flags from "../Flags.ts"
import { onMigratedDatabase } from "../OnDatabase.ts"
import { answer, answerPage, cli, table } from "../Output.ts"
import * as Replays from "./deliveries/replays.ts"

const list = Command.make(
  "list",
  {
    json: Flags.json,
    project: Flags.project,
    ...Flags.range,
    installationId: Flags.id("installation", "Only deliveries to this installation").pipe(Flag.optional),
    status: Flag.Literals("status", states).pipe(Flag.withDescription("Only deliveries in this state"), Flag.optional),
    type: Flag.Literals("type", eventTypes).pipe(
      Flag.withMetavar("TYPE"),
      Flag.withDescription("Only deliveries of events of this type"),
      Flag.optional
    ),
    since: Flags.time("since", "Only deliveries that were created at this time or later").pipe(Flag.optional),
    until: Flags.time("until", "Only deliveries that were created before this time").pipe(Flag.optional)
  },
  Effect.fn(function* ({ after, installationId, json, limit, project, since, status, type, until }) {
    const filter = {
      installationId: Option.getOrNull(installationId),
      status: Option.getOrNull(status),
      type: Option.getOrNull(type),
      since: Option.getOrNull(since),
      until: Option.getOrNull(until)
    }
    const page = yield* listDeliveries(yield* Flags.projectId(project), filter, { after, limit })
    const text = page.items.length === 0 ? "No deliveries" : table([head, ...page.items.map(row)])
    yield* answerPage(json, { items: page.items.map(itemOf), next: page.next }, text)
  }, onMigratedDatabase)
).pipe(
  Command.withDescription("List the deliveries of a project, the newest first"),
  Command.withExamples([
    { command: `${cli} deliveries list --project demo --status dead`, description: "Dead deliveries" }
  ])
)

const delivery = Flags.id("delivery", "The delivery's id (required)")

const show = Command.make(
  "show",
  { json: Flags.json, project: Flags.project, delivery },
  Effect.fn(function* ({ delivery, json, project }) {
    const found = yield* showDelivery(yield* Flags.projectId(project), delivery)
    const attempts = attemptsOf(found)
    const lines = attempts.map(({ durationMs, errorCode, number, startedAt, statusCode }) => [
      String(number),
      startedAt,
      String(statusCode ?? "-"),
      errorCode ?? "-",
      durationMs === null ? "-" : `${durationMs} ms`
    ])
    const log = table([["ATTEMPT", "STARTED", "STATUS", "ERROR", "TOOK"], ...lines])
    const replay = found.replayOf === null ? "" : `\nReplay of ${found.replayOf}`
    yield* answer(
      json,
      { ...itemOf(found), replayOf: found.replayOf, attemptLog: attempts.map(entryOf) },
      `${table([head, row(found)])}${replay}\n\n${attempts.length === 0 ? "No attempts yet" : log}`
    )
  }, onMigratedDatabase)
).pipe(
  Command.withDescription("Show a delivery and its attempts"),
  Command.withExamples([
    { command: `${cli} deliveries show --project demo --delivery dlv_0193f0cbd4e57f70819203a4b5c6d7e8` }
  ])
)

const retry = Command.make(
  "retry",
  { json: Flags.json, project: Flags.project, delivery },
  Effect.fn(function* ({ delivery, json, project }) {
    yield* retryDelivery(yield* Flags.projectId(project), delivery)
    yield* answer(json, { deliveryId: delivery, status: "pending" }, `Delivery ${delivery} is pending again`)
  }, onMigratedDatabase)
).pipe(
  Command.withDescription("Return a dead delivery to the queue, with a new retry schedule"),
  Command.withExamples([
    { command: `${cli} deliveries retry --project demo --delivery dlv_0193f0cbd4e57f70819203a4b5c6d7e8` }
  ])
)

export const deliveries = Command.make("deliveries").pipe(
  Command.withDescription("List, show, retry and replay the deliveries of a project"),
  Command.withSubcommands([list, show, retry, Replays.replay, Replays.list, Replays.cancel])
)

const head = ["DELIVERY", "INSTALLATION", "EVENT", "STATUS", "ATTEMPTS", "NEXT", "LAST", "CREATED"]

/** A delivery as `--json` shows it. */
const itemOf = (delivery: Delivery) => ({
  deliveryId: delivery.id,
  installationId: delivery.installationId,
  eventType: delivery.eventType,
  status: delivery.status,
  attempts: delivery.attempts,
  nextAttemptAt: delivery.status === "pending" ? delivery.nextAttemptAt : null,
  lastStatusCode: delivery.lastStatusCode,
  lastErrorCode: delivery.lastErrorCode,
  createdAt: delivery.createdAt
})

/** An attempt as `--json` shows it. */
const entryOf = ({ durationMs, errorCode, finishedAt, number, startedAt, statusCode }: DeliveryAttempt) => ({
  number,
  startedAt,
  finishedAt,
  statusCode,
  errorCode,
  durationMs
})

const row = (delivery: Delivery) => [
  delivery.id,
  delivery.installationId,
  delivery.eventType,
  delivery.status,
  String(delivery.attempts),
  itemOf(delivery).nextAttemptAt ?? "-",
  String(delivery.lastStatusCode ?? delivery.lastErrorCode ?? "-"),
  delivery.createdAt
]
