/** The list of projects; of one project, its move, charts and webhooks, and its API keys. */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { listProjects, maxWebhooks } from "../../project/Projects.ts"
import { pageOf } from "../../operating/Lists.ts"
import { badge, countOf, html, idOf, input, timeSince } from "../Html.ts"
import { listOf, type PageRequest, pageSize, projectPage, recordLink, textOf } from "../Page.ts"
import { type MoveState, moveTexts } from "../../platform/MoveState.ts"
import { attemptCharts } from "../Charts.ts"
import { scopes } from "../../api/Access.ts"
import { listKeys } from "../../http/auth/ApiKeys.ts"
import { list } from "../../webhooks/WebhookList.ts"

export const projects = Effect.fnUntraced(function* (_: SqlClient.SqlClient, request: PageRequest) {
  const from = textOf(request, "from") ?? ""
  const time = timeSince(request.session.now)
  return listOf(request, {
    title: "Projects",
    filter: [input("From the id", "from", from)],
    caption: "Projects by id",
    empty: "No projects.",
    found: yield* listProjects({ after: textOf(request, "cursor"), limit: pageSize }, from),
    columns: {
      Project: ({ projectId: id }) => recordLink("project", id, id),
      Name: ({ name }) => name,
      Webhooks: { number: ({ webhooks }) => countOf(webhooks, maxWebhooks) },
      Created: ({ createdAt }) => time(createdAt)
    }
  })
})

/** A project: its move to another cell (a database with its processes), the charts of its deliveries, and its webhooks. */
export const project = projectPage(
  Effect.fnUntraced(function* ({ project, range, request, sql, time }) {
    // Also of a project that another cell serves, which `listWebhooks` refuses.
    const rows = yield* list(sql, project.id, sql`webhooks.installation_id > ${range.after ?? ""}`, pageSize + 1)
    const webhooks = listOf(request, {
      title: project.name,
      caption: "Webhooks by installation",
      empty: "No installation has a webhook.",
      found: pageOf(rows, pageSize, ({ installationId }) => installationId),
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
    const [{ state } = { state: null }] = yield* sql<{ readonly state: MoveState | null }>`
      SELECT move_state AS state FROM projects WHERE project_id = ${project.id}`
    const move = state && html`<p class="busy">${moveTexts[state]}</p>`
    return { ...webhooks, body: [move, attempts, html`<h2>Webhooks</h2>`, webhooks.body] }
  })
)

export const keys = projectPage(
  Effect.fnUntraced(function* ({ project, range, request, submit, time }) {
    return listOf(request, {
      title: `API keys of ${project.name}`,
      caption: "Keys, newest first",
      empty: "No keys.",
      found: yield* listKeys(project.id, range),
      columns: {
        Key: ({ keyId, name }) => html`${name} ${recordLink("key", project.id, keyId)}`,
        State: ({ keyId: key, revokedAt, state }) =>
          html`${badge(state)} ${revokedAt === null ? submit("key.revoke", { key }, "Revoke") : ""}`,
        "Last used": ({ lastUsedAt }) => time(lastUsedAt) ?? "never",
        Expires: ({ expiresAt }) => time(expiresAt),
        Created: ({ createdAt }) => time(createdAt),
        Member: ({ memberId }) => idOf(memberId),
        Scopes: (key) => (key.scopes.length === scopes.length ? "all" : key.scopes.join(", "))
      }
    })
  })
)
