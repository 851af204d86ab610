/**
 * The audit of a project, the search for records, and the history of a record, an event, a command, a request or a trace: who has
 * changed what, and which events were sent to whom.
 */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import {
  findRecords,
  historyOf,
  kindNames,
  maxFound,
  maxSearchedProjects,
  maxShown,
  type StoredCommand
} from "../../operators/History.ts"
import { block, type Cell, type TableColumns, facts, html, idOf, link, table, type Time } from "../Html.ts"
import {
  choiceOf,
  listOf,
  notFound,
  type PageRequest,
  projectPage,
  recordLink,
  recordPage,
  textOf,
  traceLinks
} from "../Page.ts"
import { deliveryColumns, probesOf } from "./Deliveries.ts"
import { scanLimit } from "../../operating/Lists.ts"
import { type Entry, listActions } from "../../operating/Audit.ts"

export const history = projectPage(
  Effect.fnUntraced(function* ({ project: { id: project }, request, sql, submit, time }) {
    const kind = yield* choiceOf(request, "kind", kindNames)
    const id = textOf(request, "id") ?? ""
    const record = (yield* findRecords(sql, project, id)).find((found) => found.kind === kind && found.id === id)
    if (kind === null || record === undefined) return yield* notFound(kind ?? "record", id)
    const traceLink = yield* traceLinks
    const { actions, commands, deliveries, events } = yield* historyOf(project, { kind, id })
    const isRevoked = actions.some(({ action }) => action === "key.revoke")
    const newest = `newest first, at most ${maxShown}`
    const commandColumns: TableColumns<StoredCommand> = {
      At: ({ at }) => time(at),
      Operation: ({ operation }) => operation,
      Record: ({ resourceId }) => link("/console/search", { project, q: resourceId }, idOf(resourceId)),
      Version: ({ changed, version }): Cell => (changed ? version : "unchanged"),
      "API key": ({ keyId, keyName }) => keyId && html`${keyName} ${recordLink("key", project, keyId)}`,
      "Idempotency key": ({ idempotencyKey }) => recordLink("command", project, idempotencyKey),
      Request: ({ requestId }) => recordLink("request", project, requestId),
      Trace: ({ traceId }) => traceLink(traceId ?? undefined) ?? idOf(traceId)
    }
    return {
      title: `${kind.charAt(0).toUpperCase()}${kind.slice(1)} ${id}`,
      body: [
        facts({ Id: idOf(id), Name: record.name }),
        kind === "key" && !isRevoked && submit("key.revoke", { key: id }, "Revoke the key"),
        html`<h2>Commands</h2>`,
        table(
          `Commands of the API, ${kind === "key" ? `if among the newest ${scanLimit} of the project, ` : ""}${newest}`,
          commandColumns,
          commands,
          "No command is stored: it was none, or its time has passed."
        ),
        actions.length > 0 && table(`Actions of operators, ${newest}`, entryColumns(project, time), actions),
        html`<h2>Events</h2>`,
        table(
          `Events, ${newest}`,
          {
            Event: ({ id }) => recordLink("event", project, id),
            Type: ({ type }) => type,
            Occurred: ({ occurredAt }) => time(occurredAt)
          },
          events,
          "No event is stored."
        ),
        events.map(({ data }) => data && block("Data of the event", JSON.stringify(JSON.parse(data), null, 2))),
        html`<h2>Deliveries of these events</h2>`,
        table(
          `Deliveries of these events, ${newest}`,
          deliveryColumns(project, time, yield* probesOf(sql, project, deliveries)),
          deliveries,
          "No delivery of these events is stored."
        )
      ]
    }
  })
)

const entryColumns = (project: string, time: Time): TableColumns<Entry> => ({
  At: ({ at }) => time(at),
  Actor: ({ actor }) => actor,
  Action: ({ action }) => action,
  Target: ({ target }) => link("/console/search", { project, q: target }, idOf(target)),
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
      found: yield* listActions(project.id, range),
      columns: entryColumns(project.id, time)
    })
  })
)

/** Searches for records by the beginning of an id. If only one is found, the browser is redirected to its page. */
export const search = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, request: PageRequest) {
  const project = textOf(request, "project")
  const start = textOf(request, "q")?.trim() ?? ""
  const rows = yield* findRecords(sql, project, start)
  const [only, ...others] = rows
  const range = project === null ? `the first ${maxSearchedProjects} projects by id` : `the project ${project}`
  return {
    title: "Search",
    elsewhere: only !== undefined && others.length === 0 ? recordPage(only.kind, only) : undefined,
    body: [
      html`<p>Records of ${range} whose id or external id begins with "${start}", at most ${maxFound} of a kind.</p>`,
      table(
        "Records found",
        {
          Kind: ({ kind }) => kind,
          Id: ({ id, kind, projectId }) => recordLink(kind, projectId, id),
          Name: ({ name }) => name,
          Project: ({ projectId: project }) => recordLink("project", project, project)
        },
        rows,
        "No record. A request that changed nothing is not stored: the log may have it."
      ),
      project !== null && link("/console/search", { q: start }, "Search all projects")
    ]
  }
})
