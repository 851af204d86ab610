/** The search for records by the beginning of an id. If only one is found, the browser is redirected to its page. */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { find, maxFound, maxProjects } from "../../project/IdSearch.ts"
import { html, link, table } from "../Html.ts"
import { type PageRequest, textOf } from "../Page.ts"
import { recordLink, recordPage } from "../Records.ts"

export const search = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, request: PageRequest) {
  const project = textOf(request, "project")
  const start = textOf(request, "q")?.trim() ?? ""
  const rows = start === "" ? [] : yield* find(sql, project, start)
  const [only, ...others] = rows
  const range = project === null ? `the first ${maxProjects} projects by id` : `the project ${project}`
  return {
    title: "Search",
    elsewhere: only !== undefined && others.length === 0 ? recordPage(only.kind, only) : undefined,
    body: [
      html`<p>Records of ${range} whose id begins with "${start}", at most ${maxFound} of a kind.</p>`,
      table(
        "Records found",
        {
          Kind: ({ kind }) => kind,
          Id: ({ id, kind, projectId }) => recordLink(kind, projectId, id),
          Name: ({ name }) => name,
          Project: ({ projectId: project }) => recordLink("project", project, project)
        },
        rows,
        "No record."
      ),
      ...(project === null ? [] : [link("/console/search", { q: start }, "Search all projects")])
    ]
  }
})
