/** The history of a record, an event, a command, a request or a trace: who has changed what, and which events were sent to whom. */
import { Effect, Option } from "effect"
import { SqlClient } from "effect/sql"
import { type Command, type Event, historyOf, maxShown } from "../../project/History.ts"
import { find, kindNames } from "../../project/IdSearch.ts"
import { Settings } from "../../platform/Settings.ts"
import { block, type Cell, type Columns, facts, html, idOf, link, table, traceLink } from "../Html.ts"
import { choiceOf, notFound, projectPage, textOf } from "../Page.ts"
import { recordLink } from "../Records.ts"
import { actionColumns } from "./AuditLog.ts"
import { deliveryColumns, probesOf } from "./Deliveries.ts"

export const history = projectPage(
  Effect.fnUntraced(function* ({ project: { id: project }, request, sql, time }) {
    const kind = yield* choiceOf(request, "kind", kindNames)
    const id = textOf(request, "id") ?? ""
    const record = (yield* find(sql, project, id)).find((found) => found.kind === kind && found.id === id)
    if (kind === null || record === undefined) return yield* notFound(kind ?? "record", id)
    const { traceUrlTemplate } = yield* Settings
    const { actions, commands, deliveries, events } = yield* Effect.provideService(
      historyOf(project, { kind, id }),
      SqlClient.SqlClient,
      sql
    )
    const commandColumns: Columns<Command> = {
      At: ({ at }) => time(at),
      Operation: ({ operation }) => operation,
      Record: ({ resourceId }) => link("/console/search", { project, q: resourceId }, idOf(resourceId)),
      Version: ({ changed, version }): Cell => (changed ? version : "unchanged"),
      "API key": ({ keyId, keyName }) => (keyId === null ? null : html`${keyName} ${idOf(keyId)}`),
      "Idempotency key": ({ idempotencyKey }) => recordLink("command", project, idempotencyKey),
      Request: ({ requestId }) => recordLink("request", project, requestId),
      Trace: ({ traceId }) =>
        traceId === null
          ? null
          : (traceLink(Option.getOrUndefined(traceUrlTemplate)?.replaceAll("{traceId}", traceId)) ?? idOf(traceId))
    }
    const eventColumns: Columns<Event> = {
      Event: ({ id }) => recordLink("event", project, id),
      Type: ({ type }) => type,
      Occurred: ({ occurredAt }) => time(occurredAt)
    }
    const newest = `newest first, at most ${maxShown}`
    return {
      title: `${kind.charAt(0).toUpperCase()}${kind.slice(1)} ${id}`,
      body: [
        facts({ Id: idOf(id), Name: record.name }),
        html`<h2>Commands</h2>`,
        table(
          `Commands of the API, ${newest}`,
          commandColumns,
          commands,
          "No command is stored: it was none, or its time has passed."
        ),
        ...(actions.length === 0 ? [] : [table(`Actions of operators, ${newest}`, actionColumns(time), actions, "")]),
        html`<h2>Events</h2>`,
        table(`Events, ${newest}`, eventColumns, events, "No event is stored."),
        ...events.flatMap(({ data }) =>
          data === null ? [] : [block("Data of the event", JSON.stringify(JSON.parse(data), null, 2))]
        ),
        html`<h2>Deliveries</h2>`,
        table(
          `Deliveries of these events, ${newest}`,
          deliveryColumns(project, time, yield* probesOf(sql, project, deliveries)),
          deliveries,
          "No deliveries."
        )
      ]
    }
  })
)
