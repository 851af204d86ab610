/** `messages` and `campaigns`: lists them and carries out the actions of operators. */
import { Effect, Struct } from "effect"
import { Command, Flag } from "effect/cli"
import { campaignStatuses } from "../../api/campaigns/Commands.ts"
import { messageStatuses } from "../../api/messaging/Messaging.ts"
import { listCampaigns } from "../../campaigns/CampaignControl.ts"
import { listMessages } from "../../messaging/Messages.ts"
import { actionCommand } from "../ActionCommand.ts"
import * as Flags from "../Flags.ts"
import { onMigratedDatabase } from "../OnDatabase.ts"
import { answerPage, cli } from "../Output.ts"

const list = Command.make(
  "list",
  {
    json: Flags.json,
    project: Flags.project,
    ...Flags.rangeByAge,
    status: Flags.filter(
      Flag.Literals("status", messageStatuses).pipe(Flag.withDescription("Only messages of this status"))
    ),
    error: Flags.filter(
      Flag.String("error").pipe(
        Flag.withMetavar("CODE"),
        Flag.withDescription("Only messages whose last attempt has this error code: http_403")
      )
    ),
    campaignId: Flags.filter(Flags.id("campaign", "Only messages of this campaign")),
    channelId: Flags.filter(Flags.id("channel", "Only messages on this channel"))
  },
  Effect.fn(function* ({ campaignId, channelId, error, json, project, status, ...range }) {
    const filter = { campaignId, channelId, error, status }
    const found = yield* listMessages(yield* Flags.projectId(project), filter, range)
    const items = found.items.map(Struct.pick(["messageId", "conversationId", "deliveryStatus", "createdAt"]))
    yield* answerPage(json, { items, next: found.next }, "messages")
  }, onMigratedDatabase)
).pipe(
  Command.withDescription("List the messages of a project, the newest first"),
  Command.withExamples([
    { command: `${cli} messages list --project demo --status unknown`, description: "Messages that wait to be settled" }
  ])
)

const settle = actionCommand("settle", "message.settle", {
  description: "Record the outcome of a message whose outcome is unknown, after checking at the provider",
  example: "messages settle --project demo --message msg_0193f0cd92c37d5e8b2c3d4e5f607182 --as sent"
})

const show = actionCommand("show", "message.show", {
  description: "Show the address and the text of a message, to look for it at the provider. The audit records it",
  example: "messages show --project demo --message msg_0193f0cd92c37d5e8b2c3d4e5f607182"
})

export const messages = Command.make("messages").pipe(
  Command.withDescription("List and show messages, and settle those whose outcome is unknown"),
  Command.withSubcommands([list, show, settle])
)

const listOfCampaigns = Command.make(
  "list",
  {
    json: Flags.json,
    project: Flags.project,
    ...Flags.rangeByAge,
    status: Flags.filter(
      Flag.Literals("status", campaignStatuses).pipe(Flag.withDescription("Only campaigns of this status"))
    )
  },
  Effect.fn(function* ({ json, project, ...range }) {
    const found = yield* listCampaigns(yield* Flags.projectId(project), range)
    const items = found.items.map(({ createdAt, id, name, progress, status }) => {
      const { failed, pending, recipients, sent, skipped, unknown } = progress
      return { campaignId: id, name, status, recipients, pending, sent, failed, unknown, skipped, createdAt }
    })
    yield* answerPage(json, { items, next: found.next }, "campaigns")
  }, onMigratedDatabase)
).pipe(
  Command.withDescription("List the campaigns of a project with their progress, the newest first"),
  Command.withExamples([{ command: `${cli} campaigns list --project demo --status running` }])
)

const [pause, resume, cancel, retryFailed] = [
  actionCommand("pause", "campaign.pause", {
    description: "Pause a campaign: its remaining recipients wait until it is resumed",
    example: "campaigns pause --project demo --campaign cmp_spring"
  }),
  actionCommand("resume", "campaign.resume", {
    description: "Resume a paused campaign",
    example: "campaigns resume --project demo --campaign cmp_spring"
  }),
  actionCommand("cancel", "campaign.cancel", {
    description: "Cancel a campaign: its remaining recipients do not get the message",
    example: "campaigns cancel --project demo --campaign cmp_spring"
  }),
  actionCommand("retry-failed", "campaign.retry_failed", {
    description:
      "Send the message of a campaign again to the recipients that failed, never to those of unknown outcome",
    example: "campaigns retry-failed --project demo --campaign cmp_spring"
  })
] as const

export const campaigns = Command.make("campaigns").pipe(
  Command.withDescription("List, pause, resume, cancel and retry the campaigns of a project"),
  Command.withSubcommands([listOfCampaigns, pause, resume, cancel, retryFailed])
)
