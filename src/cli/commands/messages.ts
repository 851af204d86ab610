import { Effect, Option } from "effect"
import { Command, Flag } from "effect/cli"
import { messageStatuses } from "../../api/messaging/Messaging.ts"
import { listMessages, settleMessage } from "../../messaging/Messages.ts"
import * as Flags from "../Flags.ts"
import { onMigratedDatabase } from "../OnDatabase.ts"
import { answer, answerPage, cli, table } from "../Output.ts"

const list = Command.make(
  "list",
  {
    json: Flags.json,
    project: Flags.project,
    ...Flags.range,
    status: Flag.Literals("status", messageStatuses).pipe(
      Flag.withDescription("Only messages of this status"),
      Flag.optional
    )
  },
  Effect.fn(function* ({ json, project, status, ...range }) {
    const found = yield* listMessages(yield* Flags.projectId(project), Option.getOrNull(status), range)
    const items = found.items.map(({ conversationId, createdAt, deliveryStatus, messageId }) => ({
      messageId,
      conversationId,
      deliveryStatus,
      createdAt
    }))
    const rows = items.map((item) => [item.messageId, item.conversationId ?? "-", item.deliveryStatus, item.createdAt])
    yield* answerPage(json, { items, next: found.next }, items.length === 0 ? "No messages" : table([head, ...rows]))
  }, onMigratedDatabase)
).pipe(
  Command.withDescription("List the messages of a project, the newest first"),
  Command.withExamples([
    { command: `${cli} messages list --project demo --status unknown`, description: "Messages that wait to be settled" }
  ])
)

const settle = Command.make(
  "settle",
  {
    json: Flags.json,
    project: Flags.project,
    message: Flags.id("message", "The message's id (required)"),
    as: Flag.Literals("as", ["sent", "failed"]).pipe(Flag.withDescription("The outcome of the message (required)"))
  },
  Effect.fn(function* ({ as, json, message, project }) {
    yield* settleMessage(yield* Flags.projectId(project), message, as)
    yield* answer(json, { messageId: message, deliveryStatus: as }, `Message ${message} is ${as}`)
  }, onMigratedDatabase)
).pipe(
  Command.withDescription("Record the outcome of a message whose outcome is unknown, after checking at the provider"),
  Command.withExamples([
    { command: `${cli} messages settle --project demo --message msg_0193f0cd92c37d5e8b2c3d4e5f607182 --as sent` }
  ])
)

export const messages = Command.make("messages").pipe(
  Command.withDescription("List messages, and settle those whose outcome is unknown"),
  Command.withSubcommands([list, settle])
)

const head = ["MESSAGE", "CONVERSATION", "STATUS", "CREATED"]
