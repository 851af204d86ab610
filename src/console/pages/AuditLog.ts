/** What operators did in a project. */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { Audit } from "../../platform/Audit.ts"
import { html, older, table, time } from "../Html.ts"
import { type Asked, type Content, pageSize, projectOf, textOf } from "../Page.ts"

export const auditLog = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, asked: Asked) {
  const project = yield* projectOf(sql, asked)
  const audit = yield* Audit
  const before = textOf(asked, "cursor") ?? undefined
  const entries = yield* Effect.orDie(audit.list(project.id, { before, limit: pageSize + 1 }))
  const shown = entries.slice(0, pageSize)
  const cells = shown.map(({ action, actor, at, detail, target }) => [
    time(at),
    actor,
    action,
    target,
    html`<code>${JSON.stringify(detail)}</code>`
  ])
  const content: Content = {
    title: `Audit of ${project.name}`,
    project: project.id,
    body: [
      table(
        "Actions of operators, the newest first",
        ["At", "Actor", "Action", "Target", "Detail"],
        cells,
        "No actions yet."
      ),
      ...(entries.length > pageSize ? [older("/console/audit", { project: project.id, cursor: shown.at(-1)?.id })] : [])
    ]
  }
  return content
})
