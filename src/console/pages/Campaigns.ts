/** The campaigns of a project, filtered by state, and the page of a campaign. */
import { Effect } from "effect"
import { campaignStatuses } from "../../api/campaigns/States.ts"
import { listCampaigns, operationLabels, operationsIn } from "../../campaigns/CampaignControl.ts"
import { details, type Listed } from "../../campaigns/CampaignList.ts"
import { action, badge, facts, html, idLink, idOf, link, progress, select } from "../Html.ts"
import { choiceOf, listOf, orNotFound, projectPage, recordOf } from "../Page.ts"
import { historyPage } from "../Records.ts"

const path = "/console/campaigns"

export const campaigns = projectPage(
  Effect.fnUntraced(function* ({ project, range, request, time }) {
    const status = yield* choiceOf(request, "status", campaignStatuses)
    const of = { project: project.id }
    return listOf(request, {
      title: `Campaigns of ${project.name}`,
      filter: [select("State", "status", campaignStatuses, status)],
      caption: "Campaigns, newest first",
      empty: "No campaigns.",
      found: yield* orNotFound(listCampaigns(project.id, status, range)),
      columns: {
        Campaign: ({ id }) => idLink("/console/campaign", { ...of, id }, id),
        Name: ({ name }) => name,
        State: ({ status }) => link(path, { ...of, status }, badge(status)),
        Progress: progressOf,
        "Per minute": ({ sendsPerMinute }) => sendsPerMinute,
        "Scheduled for": ({ scheduledFor }) => time(scheduledFor),
        Created: ({ createdAt }) => time(createdAt)
      }
    })
  })
)

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
  Effect.fnUntraced(function* (parts) {
    const { project, request, time } = parts
    const row = yield* recordOf(parts, details, "campaign")
    const { failed, pending, recipients, sent, skipped, unknown } = row.progress
    const of = { project: project.id, campaign: row.id }
    return {
      title: `Campaign ${row.name}`,
      body: [
        facts({
          State: link(path, { project: project.id, status: row.status }, badge(row.status)),
          Campaign: idOf(row.id),
          "Sends per minute": row.sendsPerMinute,
          "Scheduled for": time(row.scheduledFor) ?? undefined,
          Started: time(row.startedAt) ?? undefined,
          Ended: time(row.endedAt) ?? undefined,
          History: html`<a href="${historyPage("campaign", { projectId: project.id, id: row.id })}"
            >Commands and actions</a
          >`,
          "Primary route": routeOf(row.primaryRoute),
          "Fallback route": routeOf(row.fallbackRoute)
        }),
        html`<div class="actions">
          ${operationsIn(row.status).map((operation) =>
            action(`campaign.${operation}`, request.session.csrf, of, operationLabels[operation])
          )}
        </div>`,
        html`<h2>Recipients</h2>`,
        html`<p>${progressOf(row)}</p>`,
        recipients === 0
          ? html``
          : facts({
              Recipients: recipients,
              "Not settled": pending,
              Sent: sent,
              Failed: failed,
              "Of unknown outcome": unknown,
              Skipped: skipped
            })
      ]
    }
  })
)
