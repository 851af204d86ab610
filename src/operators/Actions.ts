/** The actions of operators (contract §13). The commands and the console render the same entries of the table. */
import { Effect, Record, Schema, SchemaGetter } from "effect"
import { SqlClient } from "effect/sql"
import { eventTypes } from "../api/integrations/Events.ts"
import { replayFilters } from "../api/integrations/Replays.ts"
import { pendingMax } from "../api/integrations/WebhookHealth.ts"
import type { ProjectId } from "../api/schema/Ids.ts"
import { Instant } from "../api/schema/Fields.ts"
import {
  commandCampaign,
  type OperatorCommand,
  operatorCommands,
  retriedMax,
  showCampaign
} from "../campaigns/CampaignControl.ts"
import { retryDelivery } from "../webhooks/delivery/Deliveries.ts"
import { cancelReplay, showReplay, startReplay } from "../webhooks/Replays.ts"
import { webhookItemOf } from "../webhooks/WebhookList.ts"
import { sendTestEvent } from "../webhooks/TestEvents.ts"
import { disableWebhook, enableWebhook, showWebhook } from "../webhooks/WebhookControl.ts"
import { findMessage, openMessage, settleMessage } from "../messaging/MessageControl.ts"
import { noSuchRecord } from "../operating/Refusals.ts"
import { plural } from "../platform/Text.ts"
import { revokeKey } from "../http/auth/ApiKeys.ts"
import { type Action, action } from "./Action.ts"
import type { RecordKind } from "./History.ts"

/** An action on one record, which is its target. */
const on = <const Target extends RecordKind>(target: Target) => ({
  target,
  fields: Record.singleton(target, Schema.String),
  descriptions: Record.singleton(target, `The ${target}'s id`)
})

/** Event types, separated by commas; all of them if empty. */
const EventTypes = Schema.String.pipe(
  Schema.decodeTo(Schema.Array(Schema.String), {
    decode: SchemaGetter.transform((text) => text.split(",").filter((type) => type !== "")),
    encode: SchemaGetter.transform((types) => types.join(","))
  }),
  Schema.decodeTo(Schema.Array(Schema.Literals(eventTypes)))
)

/** `effect`: what happens to the recipients that have no final state yet. */
const campaignCommand = (operation: Exclude<OperatorCommand, "retry_failed">, effect: string) => {
  const label = operatorCommands[operation]
  return action({
    command: `campaigns ${operation}`,
    description: `${label}: its remaining recipients ${effect}`,
    ...on("campaign"),
    question: Effect.fnUntraced(function* ({ campaign, projectId }) {
      const { eligible, name, progress } = yield* showCampaign(projectId, campaign)
      const { failed, pending, recipients, sent, skipped } = progress
      const left = plural(recipients === 0 ? (eligible ?? 0) : pending, "recipient", "recipients")
      const message = `Of its recipients ${sent} were sent to, ${failed} failed and ${skipped} were skipped. The remaining ${left} ${effect}.`
      return { title: `${label} ${name}?`, message, label }
    }),
    run: Effect.fnUntraced(function* ({ campaign, once, projectId }) {
      yield* commandCampaign(projectId, campaign, operation, once)
      const { name, status } = yield* showCampaign(projectId, campaign)
      const message = `The campaign ${name} is ${status}.`
      return { title: `The campaign is ${status}`, message, document: { campaignId: campaign, status } }
    })
  })
}

/** Returns the name of a key of a project. */
const keyNamed = Effect.fnUntraced(function* (projectId: ProjectId, key: string) {
  const sql = yield* SqlClient.SqlClient
  const [found] = yield* sql<{ readonly name: string }>`
    SELECT name FROM api_keys WHERE project_id = ${projectId} AND key_id = ${key}`
  return found?.name ?? (yield* noSuchRecord(projectId, "key", key))
})

export const actions = {
  "delivery.retry": action({
    command: "deliveries retry",
    description: "Return a dead delivery to the queue, with a new retry schedule",
    ...on("delivery"),
    run: ({ delivery, once, projectId }) =>
      Effect.as(retryDelivery(projectId, delivery, once), {
        title: "The delivery is retried",
        message: `Delivery ${delivery} is pending again. It is sent as soon as its endpoint may get one.`,
        document: { deliveryId: delivery, status: "pending" }
      })
  }),
  "webhook.test": action({
    command: "webhooks test",
    description: "Send a signed webhook.test.v1 event to a webhook now, enabled or not, and show the answer",
    ...on("installation"),
    run: Effect.fnUntraced(function* ({ installation, projectId }) {
      const answer = yield* sendTestEvent(projectId, installation)
      const { durationMs, errorCode, status } = answer
      const isFailure = status === null || status < 200 || status > 299
      const title = `The test event was ${isFailure ? "not " : ""}delivered`
      const result =
        status === null ? `There was no answer: ${errorCode}` : `The endpoint answered with status ${status}`
      return { title, message: `${result}, after ${durationMs} ms.`, document: answer, isFailure }
    })
  }),
  "webhook.enable": action({
    command: "webhooks enable",
    description: "Enable a webhook; its endpoint is tried at once",
    ...on("installation"),
    run: ({ installation, projectId }) =>
      Effect.map(enableWebhook(projectId, installation), ({ webhook }) => ({
        title: "The webhook is enabled",
        message: `Its endpoint ${webhook.endpointUrl} is tried at once. Replay the time in which the webhook was disabled to send what it missed.`,
        document: webhookItemOf(webhook)
      }))
  }),
  "webhook.disable": action({
    command: "webhooks disable",
    description: "Disable a webhook: its pending deliveries are dead-lettered",
    ...on("installation"),
    question: Effect.fnUntraced(function* ({ installation, projectId }) {
      const { endpointUrl, pending } = yield* showWebhook(projectId, installation)
      const count = `${pending < pendingMax ? "" : "at least "}${plural(pending, "pending delivery", "pending deliveries")}`
      const message = `Nothing more is sent to ${endpointUrl}, ${count} will be dead-lettered, and events that occur while it is disabled are sent only by a replay of that time.`
      return { title: `Disable the webhook of ${installation}?`, message, label: "Disable the webhook" }
    }),
    run: ({ installation, projectId }) =>
      Effect.map(disableWebhook(projectId, installation), ({ deadLettered, webhook }) => ({
        title: "The webhook is disabled",
        message: `${plural(deadLettered, "pending delivery is", "pending deliveries are")} dead-lettered in the background: what is left when it is enabled is sent. Events that occur until then are sent only by a replay of that time.`,
        document: { ...webhookItemOf(webhook), deadLettered }
      }))
  }),
  "message.show": action({
    command: "messages show",
    description: "Show the address and the text of a message, to look for it at the provider. The audit records it",
    ...on("message"),
    run: ({ message, projectId }) =>
      Effect.map(openMessage(projectId, message), ({ address, text }) => ({
        title: `Address and text of the message ${message}`,
        message: "The audit has that they were shown",
        texts: { Address: address, Text: text },
        document: { messageId: message, address, text }
      }))
  }),
  "message.settle": action({
    command: "messages settle",
    description: "Record the outcome of a message whose outcome is unknown, after checking at the provider",
    target: "message",
    fields: { message: Schema.String, as: Schema.Literals(["sent", "failed"]) },
    descriptions: { message: "The message's id", as: "The outcome of the message: sent or failed" },
    question: Effect.fnUntraced(function* ({ as, message, projectId }) {
      const { campaignId, channel, client } = yield* findMessage(projectId, message)
      const seen = campaignId === null ? "its callers see this state" : `the campaign ${campaignId} counts it so`
      const again =
        campaignId === null || as === "sent"
          ? "is not sent again"
          : "is sent again only if the campaign retries its failed recipients"
      const warning = `This is final: the message to ${client?.name ?? "a client that is no more"} over ${channel} ${again}, and ${seen}.`
      return { title: `Settle the message ${message} as ${as}?`, message: warning, label: `Settle as ${as}` }
    }),
    run: ({ as, message, projectId }) =>
      Effect.as(settleMessage(projectId, message, as), {
        title: `The message is settled as ${as}`,
        message: `Callers see the message ${message} as ${as} now.`,
        document: { messageId: message, deliveryStatus: as }
      })
  }),
  "campaign.pause": campaignCommand("pause", "wait until it is resumed; attempts that were begun go on"),
  "campaign.resume": campaignCommand("resume", "get the message, at its pace"),
  "campaign.cancel": campaignCommand("cancel", "do not get the message, and it cannot be resumed"),
  "campaign.retry_failed": action({
    command: "campaigns retry-failed",
    description:
      "Send the message of a campaign again to the recipients that failed, never to those of unknown outcome",
    ...on("campaign"),
    question: Effect.fnUntraced(function* ({ campaign, projectId }) {
      const { name, progress, sendsPerMinute, status } = yield* showCampaign(projectId, campaign)
      const { failed, failures, unknown } = progress
      const reasons = failures.map(({ count, errorCode }) => `${count} × ${errorCode}`).join(", ")
      const label = operatorCommands.retry_failed
      return {
        title: `${label} of the campaign ${name}?`,
        message: [
          `${plural(failed, "recipient", "recipients")} of ${name} failed${reasons === "" ? "" : ` (${reasons})`}.`,
          `Each gets another message, at ${sendsPerMinute} a minute${status === "completed" ? ", and the campaign runs again until they are settled" : ""}.`,
          `Those that were sent to, were skipped or have an unknown outcome (${unknown}) get none.`,
          ...(failed > retriedMax ? [`One command retries ${retriedMax}: repeat it for the others.`] : [])
        ].join(" "),
        label
      }
    }),
    run: Effect.fnUntraced(function* ({ campaign, once, projectId }) {
      const retried = yield* commandCampaign(projectId, campaign, "retry_failed", once)
      const { name, status } = yield* showCampaign(projectId, campaign)
      const message = `${retried === null ? "The failed recipients" : plural(retried, "recipient", "recipients")} of the campaign ${name} get another message. It is ${status}.`
      const title = retried === 0 ? "There is no recipient to retry" : "The failed recipients are retried"
      return { title, message, document: { campaignId: campaign, status, retried } }
    })
  }),
  "replay.start": action({
    command: "deliveries replay",
    description: "Send stored events of a period to a webhook again, the oldest first",
    target: "installation",
    fields: {
      installation: Schema.String,
      since: Instant,
      until: Instant,
      type: EventTypes,
      status: Schema.Literals(replayFilters)
    },
    descriptions: {
      installation: "The installation's id",
      since: "Only events of this time or later, such as 2026-12-01T09:00:00Z",
      until: "Only events before this time",
      type: "Only events of this type: repeat the flag for each type; all types if not given",
      status: `Only events whose deliveries are in this state: ${replayFilters.join(", ")}`
    },
    defaults: { type: "", status: "dead" },
    question: Effect.fnUntraced(function* ({ installation, projectId, since, status, type, until }) {
      const { enabled, endpointUrl, eventTypes, state } = yield* showWebhook(projectId, installation)
      const types = eventTypes.filter((known) => type.length === 0 || type.includes(known))
      const which = {
        dead: "whose deliveries are dead, and those that occurred while the webhook was disabled,",
        delivered: "that were delivered",
        all: "that were delivered or not, also those that occurred while the webhook was disabled,"
      }[status]
      const paused = state === "parked" || state === "resting" ? ` Its endpoint is ${state}, so they wait.` : ""
      const held = enabled ? paused : " The webhook is disabled: enable it first."
      const message = `The events since ${since} and before ${until} ${which} are sent again to ${endpointUrl}, the oldest first: ${types.join(", ") || "none, as the webhook subscribes to no such type"}.${held}`
      return { title: `Replay ${status} events to ${installation}?`, message, label: "Start the replay" }
    }),
    run: Effect.fnUntraced(function* ({ installation, once, projectId, since, status, type, until }) {
      const asked = { since, until, status, ...(type.length === 0 ? {} : { eventTypes: type }) }
      const replayId = yield* startReplay({ projectId, installationId: installation, once, asked })
      const { until: end } = yield* showReplay(projectId, replayId)
      const message = `Events since ${since} and before ${end} (${status}) are sent again to ${installation}. The list of replays shows the progress of ${replayId}.`
      return { title: "The replay is started", message, document: { replayId } }
    })
  }),
  "key.revoke": action({
    ...on("key"),
    question: Effect.fnUntraced(function* ({ key, projectId }) {
      const name = yield* keyNamed(projectId, key)
      const message = `Every request with the token of ${key} is refused from the next second on. A key that is revoked stays so.`
      return { title: `Revoke the key ${name}?`, message, label: "Revoke the key" }
    }),
    run: Effect.fnUntraced(function* ({ key, projectId }) {
      const message = `Requests with the token of ${yield* keyNamed(projectId, key)} (${key}) are refused.`
      return { title: "The key is revoked", message, document: yield* revokeKey(key) }
    })
  }),
  "replay.cancel": action({
    command: "deliveries cancel-replay",
    description: "Cancel a replay: it makes no more deliveries",
    ...on("replay"),
    question: Effect.fnUntraced(function* ({ projectId, replay }) {
      const { installationId, made, since, until } = yield* showReplay(projectId, replay)
      const message = `It makes no more deliveries of the events since ${since} and before ${until}; the ${made} that it has made are sent. A cancelled replay cannot be resumed.`
      return { title: `Cancel the replay ${replay} to ${installationId}?`, message, label: "Cancel the replay" }
    }),
    run: Effect.fnUntraced(function* ({ projectId, replay }) {
      const cancelled = yield* cancelReplay(projectId, replay)
      const message = `Replay ${replay} has made ${plural(cancelled.made, "delivery", "deliveries")}.`
      return { title: "The replay is cancelled", message, document: cancelled }
    })
  })
} as const satisfies Readonly<Record<string, Action>>

export type ActionName = keyof typeof actions
