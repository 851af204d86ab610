/** A project: its move to another cell (a database with its processes), the charts of its deliveries, and its webhooks. */
import { Effect } from "effect"
import { listWebhooks } from "../../integrations/WebhookControl.ts"
import { progressOf, type State } from "../../platform/Moves.ts"
import { attemptCharts } from "../Charts.ts"
import { badge, html } from "../Html.ts"
import { listOf, orNotFound, projectPage } from "../Page.ts"
import { recordLink } from "../Records.ts"

export const project = projectPage(
  Effect.fnUntraced(function* ({ project, range, request, sql, time }) {
    const webhooks = listOf(request, {
      title: project.name,
      caption: "Webhooks by installation",
      empty: "No installation has a webhook.",
      found: yield* orNotFound(listWebhooks(project.id, range)),
      columns: {
        Installation: ({ installationId: id }) => recordLink("installation", project.id, id),
        Name: ({ name }) => name,
        State: ({ condition, enabled }) => badge(enabled ? condition : "disabled"),
        "Failures in a row": ({ failures }) => failures,
        "Last success": ({ lastSuccessAt }) => time(lastSuccessAt),
        Endpoint: ({ endpointUrl }) => endpointUrl
      }
    })
    const attempts = yield* attemptCharts(sql, request, project.id)
    const [{ state } = { state: null }] = yield* sql<{ readonly state: State | null }>`
      SELECT move_state AS state FROM projects WHERE project_id = ${project.id}`
    const move = state === null ? html`` : html`<p class="busy">${progressOf[state]}</p>`
    return { ...webhooks, body: [move, ...attempts, html`<h2>Webhooks</h2>`, ...webhooks.body] }
  })
)
