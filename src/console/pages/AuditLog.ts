import { Effect } from "effect"
import { type Entry, listActions } from "../../operators/Audit.ts"
import { type Columns, html, idOf, type Time } from "../Html.ts"
import { listOf, orNotFound, projectPage } from "../Page.ts"

export const actionColumns = (time: Time): Columns<Entry> => ({
  At: ({ at }) => time(at),
  Actor: ({ actor }) => actor,
  Action: ({ action }) => action,
  Target: ({ target }) => idOf(target),
  Detail: ({ detail }) =>
    html`${Object.entries(detail).map(([name, value]) => html`<code>${name}: ${JSON.stringify(value)}</code> `)}`
})

export const auditLog = projectPage(
  Effect.fnUntraced(function* ({ project, range, request, time }) {
    return listOf(request, {
      range,
      title: `Audit of ${project.name}`,
      caption: "Actions of operators, newest first",
      empty: "No actions yet.",
      found: yield* orNotFound(listActions(project.id, range)),
      columns: actionColumns(time)
    })
  })
)
