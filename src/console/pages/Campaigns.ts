/** The campaigns of a project, with their progress. */
import { Effect } from "effect"
import { list, type Listed } from "../../campaigns/CampaignList.ts"
import { badge, html, nextPage, table, time } from "../Html.ts"
import { pageSize, projectPage, textOf } from "../Page.ts"

export const campaigns = projectPage(
  Effect.fnUntraced(function* ({ project, request, sql }) {
    const rows = yield* list(
      sql,
      project.id,
      sql`AND campaigns.id >= ${textOf(request, "from") ?? ""} ORDER BY campaigns.id LIMIT ${pageSize + 1}::int`
    )
    const next = rows[pageSize]
    const head = ["Campaign", "Name", "State", "Progress", "Per minute", "Scheduled for", "Created"]
    const cells = rows
      .slice(0, pageSize)
      .map((row) => [
        row.id,
        row.name,
        badge(row.status),
        progressOf(row),
        row.sendsPerMinute,
        time(row.scheduledFor),
        time(row.createdAt)
      ])
    return {
      title: `Campaigns of ${project.name}`,
      body: [
        table("Campaigns by id", head, cells, "No campaigns."),
        nextPage("/console/campaigns", next && { project: project.id, from: next.id }, "More campaigns")
      ]
    }
  })
)

/** The number of settled recipients. */
const progressOf = ({ eligible, progress: { pending, recipients } }: Listed) => {
  if (eligible === null) return "no audience yet"
  if (recipients === 0) return `0 of ${eligible}`
  const done = recipients - pending
  return html`<progress max="${recipients}" value="${done}" aria-label="Settled recipients"></progress> ${done} of
    ${recipients}`
}
