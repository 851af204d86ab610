/** The messages of a project, filtered by state, error, campaign, channel and time, and the page of a message. */
import { Effect } from "effect"
import { details, find, messageFilters } from "../../messaging/MessageControl.ts"
import { scanLimit } from "../../operating/Lists.ts"
import { spanOf } from "../../telemetry/Telemetry.ts"
import { badge, facts, html, idOf, input, link, select, table } from "../Html.ts"
import { choiceOf, historyLink, listOf, projectPage, recordLink, recordOf, textOf, traceLinks } from "../Page.ts"

const path = "/console/messages"

export const messages = projectPage(
  Effect.fnUntraced(function* ({ project, range, request, sql, time }) {
    const filter = {
      status: yield* choiceOf(request, "status", messageFilters),
      error: textOf(request, "error"),
      campaignId: textOf(request, "campaign"),
      channelId: textOf(request, "channel")
    }
    const { campaignId: campaign, channelId: channel, error, status } = filter
    const of = { project: project.id }
    return listOf(request, {
      title: `Messages of ${project.name}`,
      range,
      filter: [
        select("State", "status", messageFilters, status),
        input("Error", "error", error, "http_403"),
        input("Campaign", "campaign", campaign),
        input("Channel", "channel", channel)
      ],
      caption: "Messages, newest first",
      empty: `No messages among the latest ${scanLimit}.`,
      found: yield* find(sql, project.id, filter, range),
      columns: {
        Message: ({ id }) => recordLink("message", project.id, id),
        Created: ({ createdAt }) => time(createdAt),
        Client: ({ client }) => client && recordLink("client", project.id, client.id, client.name),
        Channel: ({ channel }) => channel,
        Conversation: ({ conversationId }) => recordLink("conversation", project.id, conversationId),
        State: ({ deliveryStatus: status }) => link(path, { ...of, status }, badge(status)),
        Attempts: ({ attempts }) => attempts,
        Error: ({ lastErrorCode: error }) => (error === null ? null : link(path, { ...of, error }, error))
      }
    })
  })
)

const meanings = {
  pending: "An attempt is under way.",
  retrying: "The provider has not accepted it; it is tried again.",
  unknown:
    "The provider may have accepted it. Look for its address and text there, and settle it if no attempt is left.",
  sent: "The provider has accepted it.",
  failed: "It was not sent. Its caller may send it again."
}

/** Nobody sends the message of a campaign again but the campaign. */
const failedOfCampaign = (project: string, campaign: string) =>
  html`It was not sent. The page of its ${link("/console/campaign", { project, id: campaign }, "campaign")} has the
  reasons, and retries the recipients that failed.`

export const message = projectPage(
  Effect.fnUntraced(function* (context) {
    const { project, submit, time } = context
    const row = yield* recordOf(context, details, "message")
    const settle = (as: "sent" | "failed") => submit("message.settle", { message: row.id, as }, `Settle as ${as}`)
    return {
      title: `Message ${row.id}`,
      body: [
        facts({
          State: link(path, { project: project.id, status: row.deliveryStatus }, badge(row.deliveryStatus)),
          Client: row.client && recordLink("client", project.id, row.client.id, row.client.name),
          Channel: row.channel,
          Conversation: recordLink("conversation", project.id, row.conversationId) ?? undefined,
          Campaign: recordLink("campaign", project.id, row.campaignId) ?? undefined,
          Created: time(row.createdAt),
          Changed: time(row.updatedAt),
          History: historyLink("message", { projectId: project.id, id: row.id }),
          Trace: (yield* traceLinks)(spanOf(row.traceparent)?.traceId)
        }),
        html`<p>
          ${
            row.deliveryStatus === "failed" && row.campaignId !== null
              ? failedOfCampaign(project.id, row.campaignId)
              : meanings[row.deliveryStatus]
          }
        </p>`,
        html`<div class="actions">
          ${submit("message.show", { message: row.id }, "Show address and text")}
          ${row.deliveryStatus === "unknown" ? html`${settle("sent")} ${settle("failed")}` : ""}
        </div>`,
        html`<h2>Attempts</h2>`,
        table(
          "Attempts, oldest first",
          {
            Attempt: ({ number }) => number,
            Outcome: ({ status }) => badge(status),
            Started: ({ startedAt }) => time(startedAt),
            Ended: ({ finishedAt }) => time(finishedAt),
            Error: ({ errorCode }) => errorCode,
            "The provider's words": ({ reason }) => reason ?? null,
            "Id at the provider": ({ providerMessageId }) => idOf(providerMessageId),
            "Next attempt": ({ nextAttemptAt }) => time(nextAttemptAt)
          },
          row.log,
          "No attempt was made."
        )
      ]
    }
  })
)
