/** The actions of operators in a project. */
import { Effect } from "effect"
import { Audit } from "../../platform/Audit.ts"
import { html, nextPage, table, time } from "../Html.ts"
import { pageSize, projectPage, textOf } from "../Page.ts"

export const auditLog = projectPage(
  Effect.fnUntraced(function* ({ project, request }) {
    const audit = yield* Audit
    const range = { after: textOf(request, "cursor"), limit: pageSize }
    const { items, next } = yield* Effect.orDie(audit.list(project.id, range))
    const cells = items.map(({ action, actor, at, detail, target }) => [
      time(at),
      actor,
      action,
      target,
      html`<code>${JSON.stringify(detail)}</code>`
    ])
    return {
      title: `Audit of ${project.name}`,
      body: [
        table(
          "Actions of operators, newest first",
          ["At", "Actor", "Action", "Target", "Detail"],
          cells,
          "No actions yet."
        ),
        nextPage("/console/audit", next === null ? undefined : { project: project.id, cursor: next })
      ]
    }
  })
)
