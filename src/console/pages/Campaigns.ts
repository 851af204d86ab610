/** The campaigns of a project, with their progress. */
import { Effect } from "effect"
import type { CampaignStatus } from "../../api/campaigns/States.ts"
import { selected } from "../../platform/Columns.ts"
import { badge, html, nextPage, table, time } from "../Html.ts"
import { pageSize, projectPage, textOf } from "../Page.ts"

interface Row {
  readonly id: string
  readonly name: string
  readonly status: CampaignStatus
  readonly eligible: number | null
  /** Number of open recipients, at most `maxOpen`; null unless the campaign is running or paused. */
  readonly open: number | null
  readonly perMinute: number | null
  readonly scheduledFor: string | null
  readonly createdAt: string
}

/** Maximum number of open recipients that is counted. */
const maxOpen = 10_000

const columns = `campaigns.id, campaigns.name, campaigns.status, audiences.eligible_count AS eligible,
  sends_per_minute AS "perMinute", ${selected({
    scheduledFor: ["scheduled_for", "timestamptz"],
    createdAt: ["campaigns.created_at", "timestamptz"]
  })}`

export const campaigns = projectPage(
  Effect.fnUntraced(function* ({ project, request, sql }) {
    const rows = yield* sql<Row>`
    SELECT ${sql.literal(columns)}, CASE WHEN campaigns.status IN ('running', 'paused') THEN (
        SELECT count(*)::int FROM (
          SELECT FROM campaign_recipients recipient
          WHERE recipient.project_id = campaigns.project_id AND recipient.audience_id = campaigns.audience_id
            AND recipient.status IN ('pending', 'sending') LIMIT ${maxOpen}::int
        ) counted
      ) END AS open
    FROM campaigns LEFT JOIN audiences
      ON audiences.project_id = campaigns.project_id AND audiences.id = campaigns.audience_id
    WHERE campaigns.project_id = ${project.id} AND campaigns.id >= ${textOf(request, "from") ?? ""}
    ORDER BY campaigns.id LIMIT ${pageSize + 1}::int`
    const next = rows[pageSize]
    const head = ["Campaign", "Name", "State", "Progress", "Per minute", "Scheduled for", "Created"]
    const cells = rows
      .slice(0, pageSize)
      .map((row) => [
        row.id,
        row.name,
        badge(row.status),
        progress(row),
        row.perMinute,
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
const progress = ({ eligible, open, status }: Row) => {
  if (eligible === null) return "no audience yet"
  if (status === "completed") return `${eligible} of ${eligible}`
  if (open === null) return `0 of ${eligible}`
  if (open === maxOpen) return `more than ${maxOpen} of ${eligible} are left`
  const done = Math.max(0, eligible - open)
  return html`<progress max="${eligible}" value="${done}" aria-label="Settled recipients"></progress> ${done} of
    ${eligible}`
}
