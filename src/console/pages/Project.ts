/** A project: the charts of its deliveries, and its webhooks. */
import { Effect } from "effect"
import { selected } from "../../platform/Columns.ts"
import { charts, sample } from "../Charts.ts"
import { badge, html, link, nextPage, table, time } from "../Html.ts"
import { pageSize, projectPage, textOf } from "../Page.ts"

interface Row {
  readonly installationId: string
  readonly name: string
  readonly endpointUrl: string
  readonly enabled: boolean
  readonly isParked: boolean
  readonly failures: number
  readonly lastSuccessAt: string | null
}

export const project = projectPage(
  Effect.fnUntraced(function* ({ project, request, sql }) {
    const rows = yield* sql<Row>`
    SELECT installation_id AS "installationId", installations.name, endpoint_url AS "endpointUrl", enabled,
      coalesce(parked_until > now(), false) AS "isParked", failures,
      ${sql.literal(selected({ lastSuccessAt: ["last_success_at", "timestamptz"] }))}
    FROM webhooks JOIN endpoint_health USING (project_id, installation_id)
      JOIN installations ON installations.project_id = webhooks.project_id AND installations.id = installation_id
    WHERE webhooks.project_id = ${project.id} AND installation_id >= ${textOf(request, "from") ?? ""}
    ORDER BY installation_id LIMIT ${pageSize + 1}::int`
    const cells = rows
      .slice(0, pageSize)
      .map((row) => [
        link("/console/webhook", { project: project.id, installation: row.installationId }, row.installationId),
        row.name,
        badge(!row.enabled ? "disabled" : row.isParked ? "parked" : "enabled"),
        row.failures,
        time(row.lastSuccessAt),
        row.endpointUrl
      ])
    const next = rows[pageSize]
    const head = ["Installation", "Name", "State", "Failures in a row", "Last success", "Endpoint"]
    return {
      title: project.name,
      body: [
        charts(yield* sample(sql, project.id)),
        html`<h2>Webhooks</h2>`,
        table("Webhooks by installation", head, cells, "No installation has a webhook."),
        nextPage("/console/project", next && { project: project.id, from: next.installationId }, "More webhooks")
      ]
    }
  })
)
