/** `deliveries` and `webhooks`: list, send again and steer what is sent to endpoints (contract §13). */
import { Effect, Struct } from "effect"
import { Command, Flag } from "effect/cli"
import { eventTypes } from "../../api/integrations/Events.ts"
import { listDeliveries, showDelivery } from "../../integrations/deliveries/Deliveries.ts"
import { attemptsOf, type Delivery } from "../../integrations/deliveries/DeliveryList.ts"
import { listReplays } from "../../integrations/deliveries/Replays.ts"
import { states } from "../../integrations/deliveries/States.ts"
import { actionCommand } from "../ActionCommand.ts"
import * as Flags from "../Flags.ts"
import { onMigratedDatabase } from "../OnDatabase.ts"
import { answer, answerPage, cli, tableOf } from "../Output.ts"
import { itemOf as webhookOf } from "../../integrations/endpoints/WebhookList.ts"
import { listWebhooks } from "../../integrations/WebhookControl.ts"

const list = Command.make(
  "list",
  {
    json: Flags.json,
    project: Flags.project,
    ...Flags.rangeByAge,
    installationId: Flags.filter(Flags.id("installation", "Only deliveries to this installation")),
    status: Flags.filter(Flag.Literals("status", states).pipe(Flag.withDescription("Only deliveries in this state"))),
    type: Flags.filter(
      Flag.Literals("type", eventTypes).pipe(
        Flag.withMetavar("TYPE"),
        Flag.withDescription("Only deliveries of events of this type")
      )
    ),
    answer: Flags.filter(
      Flag.String("answer").pipe(
        Flag.withMetavar("CODE"),
        Flag.withDescription("Only deliveries with this error code or status as their last answer: timeout, 500")
      )
    )
  },
  Effect.fn(function* ({ answer, installationId, json, project, status, type, ...range }) {
    const filter = { installationId, status, type, answer }
    const page = yield* listDeliveries(yield* Flags.projectId(project), filter, range)
    yield* answerPage(json, { items: page.items.map(itemOf), next: page.next }, "deliveries")
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
    const attempts = attemptsOf(found).map((attempt) =>
      Struct.pick(attempt, ["number", "startedAt", "finishedAt", "statusCode", "errorCode", "durationMs"])
    )
    const item = { ...itemOf(found), ...Struct.pick(found, ["replayOf", "replayedBy"]) }
    const log = attempts.length === 0 ? "No attempts yet" : tableOf(attempts)
    yield* answer(json, { ...item, attemptLog: attempts }, `${tableOf([item])}\n\n${log}`)
  }, onMigratedDatabase)
).pipe(
  Command.withDescription("Show a delivery and its attempts"),
  Command.withExamples([
    { command: `${cli} deliveries show --project demo --delivery dlv_0193f0cbd4e57f70819203a4b5c6d7e8` }
  ])
)

const retry = actionCommand("retry", "delivery.retry", {
  description: "Return a dead delivery to the queue, with a new retry schedule",
  example: "deliveries retry --project demo --delivery dlv_0193f0cbd4e57f70819203a4b5c6d7e8"
})

const replay = actionCommand("replay", "replay.start", {
  description: "Send stored events of a period to a webhook again, the oldest first",
  example:
    "deliveries replay --project demo --installation ins_shop --since 2026-11-20T00:00:00Z --until 2026-11-21T00:00:00Z --status all"
})

const cancelReplay = actionCommand("cancel-replay", "replay.cancel", {
  description: "Cancel a replay: it makes no more deliveries",
  example: "deliveries cancel-replay --project demo --replay rpl_0193f0cbd4e57f70819203a4b5c6d7e8"
})

const replays = Command.make(
  "replays",
  {
    json: Flags.json,
    project: Flags.project,
    ...Flags.rangeByAge,
    installationId: Flags.filter(Flags.id("installation", "Only replays to this installation"))
  },
  Effect.fn(function* ({ json, project, ...range }) {
    const page = yield* listReplays(yield* Flags.projectId(project), range)
    yield* answerPage(json, page, "replays")
  }, onMigratedDatabase)
).pipe(
  Command.withDescription("List the replays of a project, the newest first"),
  Command.withExamples([{ command: `${cli} deliveries replays --project demo` }])
)

export const deliveries = Command.make("deliveries").pipe(
  Command.withDescription("List, show, retry and replay the deliveries of a project"),
  Command.withSubcommands([list, show, retry, replay, replays, cancelReplay])
)

/** A delivery as `--json` shows it. */
export const itemOf = (delivery: Delivery) => ({
  deliveryId: delivery.id,
  ...Struct.pick(delivery, ["installationId", "eventType", "status", "attempts"]),
  nextAttemptAt: delivery.status === "pending" ? delivery.nextAttemptAt : null,
  ...Struct.pick(delivery, ["lastStatusCode", "lastErrorCode", "createdAt"])
})

const listOfWebhooks = Command.make(
  "list",
  { json: Flags.json, project: Flags.project, ...Flags.rangeById },
  Effect.fn(function* ({ json, project, ...range }) {
    const { items, next } = yield* listWebhooks(yield* Flags.projectId(project), range)
    yield* answerPage(json, { items: items.map(webhookOf), next }, "webhooks", { flag: "--after" })
  }, onMigratedDatabase)
).pipe(
  Command.withDescription("List the webhooks of a project with their health"),
  Command.withExamples([{ command: `${cli} webhooks list --project demo` }])
)

const test = actionCommand("test", "webhook.test", {
  description: "Send a signed webhook.test.v1 event to a webhook now, enabled or not, and show the answer",
  example: "webhooks test --project demo --installation ins_shop"
})

const enable = actionCommand("enable", "webhook.enable", {
  description: "Enable a webhook; its endpoint is tried at once",
  example: "webhooks enable --project demo --installation ins_shop"
})

const disable = actionCommand("disable", "webhook.disable", {
  description: "Disable a webhook: its pending deliveries are dead-lettered",
  example: "webhooks disable --project demo --installation ins_shop"
})

export const webhooks = Command.make("webhooks").pipe(
  Command.withDescription("List, test, enable and disable the webhooks of a project"),
  Command.withSubcommands([listOfWebhooks, test, enable, disable])
)
