/** A project: the charts of its deliveries, and its webhooks. */
import { Effect } from "effect"
import { list } from "../../integrations/WebhookList.ts"
import { attemptsOf, charts } from "../Charts.ts"
import { badge, html, link, nextPage, table, time } from "../Html.ts"
import { pageSize, projectPage, textOf } from "../Page.ts"

export const project = projectPage(
  Effect.fnUntraced(function* ({ project, request, sql }) {
    const from = sql`webhooks.installation_id >= ${textOf(request, "from") ?? ""}`
    const rows = yield* list(sql, project.id, from, pageSize + 1)
    const cells = rows
      .slice(0, pageSize)
      .map((row) => [
        link("/console/webhook", { project: project.id, installation: row.installationId }, row.installationId),
        row.name,
        badge(row.enabled ? row.state : "disabled"),
        row.failures,
        time(row.lastSuccessAt),
        row.endpointUrl
      ])
    const next = rows[pageSize]
    const head = ["Installation", "Name", "State", "Failures in a row", "Last success", "Endpoint"]
    return {
      title: project.name,
      body: [
        charts(yield* attemptsOf(sql, request, project.id)),
        html`<h2>Webhooks</h2>`,
        table("Webhooks by installation", head, cells, "No installation has a webhook."),
        nextPage("/console/project", next && { project: project.id, from: next.installationId }, "More webhooks")
      ]
    }
  })
)
