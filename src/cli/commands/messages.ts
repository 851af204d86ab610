/** `messages` and `campaigns`: lists them and carries out the actions of operators. */
import { Effect } from "effect"
import { Command } from "effect/cli"
import type { Campaign } from "../../api/campaigns/Campaign.ts"
import { campaignStatuses } from "../../api/campaigns/Commands.ts"
import { messageStatuses } from "../../api/messaging/Messaging.ts"
import { listCampaigns } from "../../campaigns/CampaignControl.ts"
import { listMessages } from "../../messaging/Messages.ts"
import { actionCommands } from "../ActionCommand.ts"
import * as Flags from "../Flags.ts"
import { onMigratedDatabase } from "../OnDatabase.ts"
import { answerPage, described } from "../Output.ts"

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
    const page = yield* listMessages(yield* Flags.projectId(project), filter)
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

const itemOf = ({ createdAt, id, name, progress, status }: Campaign) => {
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
    yield* answerPage(json, yield* listCampaigns(yield* Flags.projectId(project), filter), "campaigns", { itemOf })
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
