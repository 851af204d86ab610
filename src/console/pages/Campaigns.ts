/** The campaigns of a project, filtered by state, and the page of a campaign. */
import { Effect } from "effect"
import { campaignStatuses } from "../../api/campaigns/Commands.ts"
import { listCampaigns, operatorCommands, operatorCommandsOn } from "../../campaigns/CampaignControl.ts"
import { details, type Listed, listFailed } from "../../campaigns/CampaignList.ts"
import { plural } from "../../platform/Text.ts"
import { badge, facts, html, idOf, input, link, progress, select, table } from "../Html.ts"
import { choiceOf, historyLink, listOf, projectPage, recordLink, recordOf, textOf } from "../Page.ts"

const path = "/console/campaigns"
const failedPath = "/console/failed-recipients"

export const campaigns = projectPage(
  Effect.fnUntraced(function* ({ project, range, request, time }) {
    const status = yield* choiceOf(request, "status", campaignStatuses)
    const of = { project: project.id }
    return listOf(request, {
      range,
      title: `Campaigns of ${project.name}`,
      filter: [select("State", "status", campaignStatuses, status)],
      caption: "Campaigns, newest first",
      empty: "No campaigns.",
      found: yield* listCampaigns(project.id, { ...range, status }),
      columns: {
        Campaign: ({ id }) => recordLink("campaign", project.id, id),
        Name: ({ name }) => name,
        State: (row) => link(path, { ...of, status: row.status }, badge(stateOf(row))),
        Progress: progressOf,
        "Per minute": ({ sendsPerMinute }) => sendsPerMinute,
        "Scheduled for": ({ scheduledAt }) => time(scheduledAt),
        Created: ({ createdAt }) => time(createdAt)
      }
    })
  })
)

/** A campaign that is completed although recipients failed is no success. */
const stateOf = ({ progress: { failed }, status }: Listed) =>
  status === "completed" && failed > 0 ? "completed with failures" : status

/** Shows how many recipients have a final state. Before the campaign runs, shows the size of its frozen audience, if any. */
const progressOf = ({ eligible, progress: { pending, recipients } }: Listed) => {
  if (eligible === null) return "no audience yet"
  return recipients === 0
    ? `${eligible} frozen, none sent to`
    : progress(recipients - pending, recipients, "Settled recipients")
}

const routeOf = (route: Listed["primaryRoute"]) =>
  route === null ? null : html`${route.templateId} in version ${route.templateVersion} by ${route.channelId}`

export const campaign = projectPage(
  Effect.fnUntraced(function* (context) {
    const { project, submit, time } = context
    const row = yield* recordOf(context, details, "campaign")
    const { failed, pending, recipients, sent, skipped, unknown } = row.progress
    const of = { project: project.id, campaign: row.id }
    return {
      title: `Campaign ${row.name}`,
      body: [
        facts({
          State: link(path, { project: project.id, status: row.status }, badge(stateOf(row))),
          Campaign: idOf(row.id),
          "Sends per minute": row.sendsPerMinute,
          "Scheduled for": time(row.scheduledAt) ?? undefined,
          "Scheduled as": row.scheduledForLocal === null ? undefined : `${row.scheduledForLocal} ${row.timeZone}`,
          Started: time(row.startedAt) ?? undefined,
          Ended: time(row.endedAt) ?? undefined,
          History: historyLink("campaign", { projectId: project.id, id: row.id }),
          Messages: link("/console/messages", of, "Messages of the campaign"),
          "Primary route": routeOf(row.primaryRoute),
          "Fallback route": routeOf(row.fallbackRoute)
        }),
        html`<div class="actions">
          ${operatorCommandsOn(row).map((operation) => submit(`campaign.${operation}`, of, operatorCommands[operation]))}
        </div>`,
        html`<h2>Recipients</h2>`,
        html`<p>${progressOf(row)}</p>`,
        recipients > 0 &&
          facts({
            Recipients: recipients,
            "Not settled": pending,
            Sent: sent,
            Failed: failed,
            "Of unknown outcome": link("/console/messages", { ...of, status: "unknown" }, String(unknown)),
            Skipped: skipped
          }),
        failed > 0 && [
          html`<h2>Failures</h2>`,
          table(
            `The most frequent reasons for which ${plural(failed, "recipient", "recipients")} failed`,
            {
              Reason: ({ errorCode: reason }) => link(failedPath, { ...of, reason }, reason),
              Recipients: ({ count }) => count
            },
            row.progress.failures,
            "The reasons were not recorded."
          ),
          html`<p>${link(failedPath, of, "All failed recipients")}</p>`
        ]
      ]
    }
  })
)

export const failedRecipients = projectPage(
  Effect.fnUntraced(function* (context) {
    const { project, range, request, sql } = context
    const row = yield* recordOf(context, details, "campaign", "campaign")
    const reason = textOf(request, "reason")
    const of = { project: project.id, campaign: row.id }
    return listOf(request, {
      title: `Failed recipients of ${row.name}`,
      filter: [html`<input type="hidden" name="campaign" value="${row.id}" />`, input("Reason", "reason", reason)],
      caption: "Failed recipients, by reason",
      empty: "No failed recipients.",
      found: yield* listFailed(sql, project.id, row.id, reason, range),
      columns: {
        Client: ({ client, clientId }) => recordLink("client", project.id, clientId, client ?? undefined),
        Reason: ({ errorCode: reason }) => link(failedPath, { ...of, reason }, reason),
        Message: ({ messageId }) => recordLink("message", project.id, messageId),
        Retries: ({ retries }) => retries
      }
    })
  })
)
