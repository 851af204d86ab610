/** The search for records by the beginning of an id. If only one is found, the browser is redirected to its page. */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { find, type Found, maxFound, maxProjects } from "../../project/IdSearch.ts"
import { html, idLink, idOf, link, table } from "../Html.ts"
import { type PageRequest, textOf } from "../Page.ts"
import { recordPage } from "../Records.ts"

const pageOf = (found: Found) => recordPage(found.kind, found)

export const search = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, request: PageRequest) {
  const project = textOf(request, "project")
  const start = textOf(request, "q")?.trim() ?? ""
  const rows = start === "" ? [] : yield* find(sql, project, start)
  const [only, ...others] = rows
  const range = project === null ? `the first ${maxProjects} projects by id` : `the project ${project}`
  return {
    title: "Search",
    elsewhere: only !== undefined && others.length === 0 ? pageOf(only) : undefined,
    body: [
      html`<p>Records of ${range} whose id begins with "${start}", at most ${maxFound} of a kind.</p>`,
      table(
        "Records found",
        {
          Kind: ({ kind }) => kind,
          Id: (row) => html`<a href="${pageOf(row)}">${idOf(row.id)}</a>`,
          Name: ({ name }) => name,
          Project: ({ projectId: project }) => idLink("/console/project", { project }, project)
        },
        rows,
        "No record."
      ),
      ...(project === null ? [] : [link("/console/search", { q: start }, "Search all projects")])
    ]
  }
})
