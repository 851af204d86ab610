/** `deliveries`, `webhooks`, `messages` and `campaigns`: lists of what is sent, and the actions of operators on it (contract §13). */
import { Effect, Struct } from "effect"
import { Command } from "effect/cli"
import { eventTypes } from "../../api/integrations/Events.ts"
import { listDeliveries, showDelivery } from "../../webhooks/delivery/Deliveries.ts"
import { attemptsOf, type Delivery } from "../../webhooks/delivery/DeliveryList.ts"
import { listReplays } from "../../webhooks/Replays.ts"
import { states } from "../../webhooks/delivery/States.ts"
import { actionCommands } from "../ActionCommand.ts"
import { decodeProjectId } from "../../operating/Refusals.ts"
import * as Flags from "../Flags.ts"
import { onMigratedDatabase } from "../OnDatabase.ts"
import { answer, answerPage, described, tableOf } from "../Output.ts"
import { webhookItemOf } from "../../webhooks/WebhookList.ts"
import { listWebhooks } from "../../webhooks/WebhookControl.ts"
import type { Campaign } from "../../api/campaigns/Campaign.ts"
import { campaignStatuses } from "../../api/campaigns/Commands.ts"
import { messageStatuses } from "../../api/messaging/Messaging.ts"
import { listCampaigns } from "../../campaigns/CampaignControl.ts"
import { listMessages } from "../../messaging/MessageControl.ts"

/** A delivery as `--json` shows it. */
export const deliveryItemOf = (delivery: Delivery) => ({
  deliveryId: delivery.id,
  ...Struct.pick(delivery, ["installationId", "eventType", "status", "attempts"]),
  nextAttemptAt: delivery.status === "pending" ? delivery.nextAttemptAt : null,
  ...Struct.pick(delivery, ["lastStatusCode", "lastErrorCode", "createdAt"])
})

const list = Command.make(
  "list",
  {
    ...Flags.ofProject,
    ...Flags.rangeByAge,
    installationId: Flags.filter(Flags.id("installation", "Only deliveries to this installation")),
    status: Flags.choice("status", states, "Only deliveries in this state"),
    type: Flags.choice("type", eventTypes, "Only deliveries of events of this type"),
    answer: Flags.code("answer", "Only deliveries with this error code or status as their last answer: timeout, 500")
  },
  Effect.fn(function* ({ json, project, ...filter }) {
    yield* answerPage(json, yield* listDeliveries(yield* decodeProjectId(project), filter), "deliveries", {
      itemOf: deliveryItemOf
    })
  }, onMigratedDatabase)
).pipe(
  described("List the deliveries of a project, the newest first", { "--project demo --status dead": "Dead deliveries" })
)

const delivery = Flags.id("delivery", "The delivery's id (required)")

const show = Command.make(
  "show",
  { ...Flags.ofProject, delivery },
  Effect.fn(function* ({ delivery, json, project }) {
    const found = yield* showDelivery(yield* decodeProjectId(project), delivery)
    const attempts = attemptsOf(found).map((attempt) =>
      Struct.pick(attempt, ["number", "startedAt", "finishedAt", "statusCode", "errorCode", "durationMs"])
    )
    const item = { ...deliveryItemOf(found), ...Struct.pick(found, ["replayOf", "replayedBy"]) }
    const log = attempts.length === 0 ? "No attempts yet" : tableOf(attempts)
    yield* answer(json, { ...item, attemptLog: attempts }, `${tableOf([item])}\n\n${log}`)
  }, onMigratedDatabase)
).pipe(
  described("Show a delivery and its attempts", {
    "--project demo --delivery dlv_0193f0cbd4e57f70819203a4b5c6d7e8": ""
  })
)

const replays = Command.make(
  "replays",
  {
    ...Flags.ofProject,
    ...Flags.rangeByAge,
    installationId: Flags.filter(Flags.id("installation", "Only replays to this installation"))
  },
  Effect.fn(function* ({ json, project, ...filter }) {
    const page = yield* listReplays(yield* decodeProjectId(project), filter)
    yield* answerPage(json, page, "replays", { itemOf: ({ id, ...replay }) => ({ replayId: id, ...replay }) })
  }, onMigratedDatabase)
).pipe(described("List the replays of a project, the newest first", { "--project demo": "" }))

export const deliveries = Command.make("deliveries").pipe(
  Command.withDescription("List, show, retry and replay the deliveries of a project"),
  Command.withSubcommands([list, show, replays, ...actionCommands("deliveries")])
)

const listOfWebhooks = Command.make(
  "list",
  { ...Flags.ofProject, ...Flags.rangeById },
  Effect.fn(function* ({ json, project, ...filter }) {
    const page = yield* listWebhooks(yield* decodeProjectId(project), filter)
    yield* answerPage(json, page, "webhooks", { itemOf: webhookItemOf, flag: "--after" })
  }, onMigratedDatabase)
).pipe(described("List the webhooks of a project with their health", { "--project demo": "" }))

export const webhooks = Command.make("webhooks").pipe(
  Command.withDescription("List, test, enable and disable the webhooks of a project"),
  Command.withSubcommands([listOfWebhooks, ...actionCommands("webhooks")])
)

const listOfMessages = Command.make(
  "list",
  {
    ...Flags.ofProject,
    ...Flags.rangeByAge,
    status: Flags.choice("status", messageStatuses, "Only messages of this status"),
    error: Flags.code("error", "Only messages whose last attempt has this error code: http_403"),
    campaignId: Flags.filter(Flags.id("campaign", "Only messages of this campaign")),
    channelId: Flags.filter(Flags.id("channel", "Only messages on this channel"))
  },
  Effect.fn(function* ({ json, project, ...filter }) {
    const page = yield* listMessages(yield* decodeProjectId(project), filter)
    yield* answerPage(json, page, "messages", {
      itemOf: ({ conversationId, createdAt, deliveryStatus, id }) => ({
        messageId: id,
        conversationId,
        deliveryStatus,
        createdAt
      })
    })
  }, onMigratedDatabase)
).pipe(
  described("List the messages of a project, the newest first", {
    "--project demo --status unknown": "Messages that wait to be settled"
  })
)

export const messages = Command.make("messages").pipe(
  Command.withDescription("List and show messages, and settle those whose outcome is unknown"),
  Command.withSubcommands([listOfMessages, ...actionCommands("messages")])
)

const campaignItemOf = ({ createdAt, id, name, progress, status }: Campaign) => {
  const { failed, pending, recipients, sent, skipped, unknown } = progress
  return { campaignId: id, name, status, recipients, pending, sent, failed, unknown, skipped, createdAt }
}

const listOfCampaigns = Command.make(
  "list",
  {
    ...Flags.ofProject,
    ...Flags.rangeByAge,
    status: Flags.choice("status", campaignStatuses, "Only campaigns of this status")
  },
  Effect.fn(function* ({ json, project, ...filter }) {
    yield* answerPage(json, yield* listCampaigns(yield* decodeProjectId(project), filter), "campaigns", {
      itemOf: campaignItemOf
    })
  }, onMigratedDatabase)
).pipe(
  described("List the campaigns of a project with their progress, the newest first", {
    "--project demo --status running": ""
  })
)

export const campaigns = Command.make("campaigns").pipe(
  Command.withDescription("List, pause, resume, cancel and retry the campaigns of a project"),
  Command.withSubcommands([listOfCampaigns, ...actionCommands("campaigns")])
)
