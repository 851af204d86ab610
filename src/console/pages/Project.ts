/** A project: its move to another cell, the charts of its deliveries, and its webhooks. */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { ProjectId } from "../../api/schema/Ids.ts"
import { list } from "../../integrations/endpoints/WebhookList.ts"
import type { State } from "../../platform/Moves.ts"
import { pageOf } from "../../platform/operators/Search.ts"
import { attemptCharts } from "../Charts.ts"
import { badge, type Html, html, idLink } from "../Html.ts"
import { listOf, pageSize, projectPage } from "../Page.ts"

/** How far the move of a project is, by the state of the move (contract §18). */
const sentences: Readonly<Record<State, string>> = {
  copying: "This project is being moved to another cell, which copies its rows.",
  resting: "This project is being moved to another cell. Nothing is sent for it until what is in flight has ended.",
  fenced: "This project is being moved to another cell. Its mutations are refused while both sides are compared.",
  switching: "This project is being moved to another cell, which takes over.",
  switched: "Another cell serves this project. Once the router leads there, run project move again.",
  aborting: "The move of this project to another cell is being aborted.",
  arriving: "This project is being moved to this cell. The other cell serves it until then."
}

const moveOf = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, projectId: ProjectId) {
  const [row] = yield* Effect.orDie(sql<{ readonly state: State | null }>`
    SELECT move_state AS state FROM projects WHERE project_id = ${projectId}`)
  const none: ReadonlyArray<Html> = []
  return row === undefined || row.state === null ? none : [html`<p class="busy">${sentences[row.state]}</p>`]
})

export const project = projectPage(
  Effect.fnUntraced(function* ({ project, range, request, sql, time }) {
    const rows = yield* list(sql, project.id, sql`webhooks.installation_id > ${range.after ?? ""}`, pageSize + 1)
    const webhooks = listOf(request, {
      title: project.name,
      caption: "Webhooks by installation",
      empty: "No installation has a webhook.",
      found: pageOf(rows, pageSize, ({ installationId }) => installationId),
      columns: {
        Installation: ({ installationId: id }) =>
          idLink("/console/webhook", { project: project.id, installation: id }, id),
        Name: ({ name }) => name,
        State: ({ enabled, state }) => badge(enabled ? state : "disabled"),
        "Failures in a row": ({ failures }) => failures,
        "Last success": ({ lastSuccessAt }) => time(lastSuccessAt),
        Endpoint: ({ endpointUrl }) => endpointUrl
      }
    })
    const attempts = yield* attemptCharts(sql, request, project.id)
    const move = yield* moveOf(sql, project.id)
    return { ...webhooks, body: [...move, ...attempts, html`<h2>Webhooks</h2>`, ...webhooks.body] }
  })
)
