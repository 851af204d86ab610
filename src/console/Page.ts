/** The request and the content of pages, the transaction that reads the content, and the addresses of the pages of records. */
import { Data, Effect, Option, Schema } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import { Instant } from "../api/schema/Fields.ts"
import type { ProjectId } from "../api/schema/Ids.ts"
import { keyed } from "../platform/Pools.ts"
import { lookupOne, type LookupStatement } from "../sql/Lookups.ts"
import { type ProjectUnknown, Refused } from "../operating/Refusals.ts"
import { type Found, type RangeByAge, scanLimit } from "../operating/Lists.ts"
import { Settings } from "../platform/Settings.ts"
import type { Session } from "../http/auth/OperatorSessions.ts"
import {
  actionForm,
  type TableColumns,
  type Fragment,
  hiddenFields,
  href,
  html,
  type Html,
  idOf,
  instantOf,
  table,
  type Time,
  timeInput,
  timeSince
} from "./Html.ts"
import type { RecordKind } from "../operators/History.ts"

export const pageSize = 50

/** A parameter of the query is malformed. */
class Malformed extends Data.TaggedError("Malformed")<{ readonly message: string }> {}

/** Why a page can't be shown. `Refused`: a record that the query names does not exist. */
export type PageError = Malformed | ProjectUnknown | Refused

export const contentOf = ({ _tag, message }: PageError): Content => {
  const [status, title] = _tag === "Malformed" ? [400, "Bad request"] : [404, "Not found"]
  return { title, status, body: [html`<p>${message}</p>`] }
}

export interface Content {
  readonly title: string
  /** The project of the page. The header then has links to this project's pages. */
  readonly project?: ProjectId
  readonly body: ReadonlyArray<Fragment>
  readonly status?: number
  /** If present, the browser is redirected to this URL and the page is not shown. */
  readonly elsewhere?: string | undefined
}

export interface PageRequest {
  readonly path: string
  readonly query: URLSearchParams
  readonly session: Session
}

interface Project {
  readonly id: ProjectId
  readonly name: string
}

/** What the content of a page is made from. */
interface PageContext {
  readonly sql: SqlClient.SqlClient
  readonly request: PageRequest
  readonly project: Project
  readonly range: RangeByAge
  readonly time: Time
  /** Makes the form of an action of the project. */
  readonly submit: typeof actionForm
}

/** Makes a page for the project in the query. */
export const projectPage =
  <E, R>(content: (context: PageContext) => Effect.Effect<Content, E, R>) =>
  (sql: SqlClient.SqlClient, request: PageRequest): Effect.Effect<Content, E | PageError | SqlError.SqlError, R> =>
    Effect.gen(function* () {
      const id = textOf(request, "project")
      const rows = yield* sql<Project>`SELECT project_id AS id, name FROM projects WHERE project_id = ${id}::text`
      const project = rows[0] ?? (yield* notFound("project", id))
      const period = { since: yield* timeOf(request, "since"), until: yield* timeOf(request, "until") }
      const range = { after: textOf(request, "cursor"), limit: pageSize, ...period }
      const { csrf, now } = request.session
      const submit: PageContext["submit"] = (name, record, ...shown) =>
        actionForm(name, { project: project.id, ...record, csrf }, ...shown)
      const page = yield* content({ sql, request, project, range, submit, time: timeSince(now) })
      return { ...page, project: project.id }
    })

interface List<Row> {
  readonly title: string
  readonly caption: string
  readonly columns: TableColumns<Row>
  readonly found: Found<Row>
  readonly empty: string
  readonly filter?: ReadonlyArray<Html>
  readonly range?: RangeByAge
}

/** Makes the content of a list: the filter, the table, and a link to the next page with the same filter. */
export const listOf = <Row>(
  { path, query }: PageRequest,
  { caption, columns, empty, filter = [], found, range, title }: List<Row>
): Content => {
  const isFull = found.items.length === pageSize
  const next = href(path, { ...Object.fromEntries(query), cursor: found.next })
  const project = query.get("project")
  const times = range && [timeInput("Since", "since", range.since), timeInput("Until", "until", range.until)]
  const fields = [...filter, ...(times ?? [])]
  return {
    title,
    body: [
      fields.length === 0
        ? null
        : html`<form method="get" action="${path}" class="filters">
            ${hiddenFields(project === null ? {} : { project })} ${fields}
            <button>Filter</button>
          </form>`,
      table(caption, columns, found.items, empty),
      found.next !== null &&
        html`<p><a rel="next" href="${next}">${isFull ? "More" : `Search further: ${scanLimit} were read`}</a></p>`
    ]
  }
}

export const recordOf = Effect.fnUntraced(function* <Row extends { readonly id: string }>(
  { project, request, sql }: PageContext,
  details: (sql: SqlClient.SqlClient) => LookupStatement<Row>,
  kind: string,
  parameter = "id"
) {
  const id = textOf(request, parameter)
  const row = id === null ? undefined : yield* lookupOne(sql, details(sql), { projectId: project.id, id })
  return row ?? (yield* notFound(kind, id))
})

/** A function that links to a trace; undefined without a trace, or without `TRACE_URL_TEMPLATE`. */
export const traceLinks = Effect.map(Settings, ({ traceUrlTemplate }) => (traceId: string | undefined) => {
  const template = Option.getOrUndefined(traceUrlTemplate)
  if (template === undefined || traceId === undefined) return undefined
  return html`<a href="${template.replaceAll("{traceId}", traceId)}" rel="noreferrer">Open the trace</a>`
})

export const textOf = ({ query }: PageRequest, name: string): string | null => query.get(name) || null

export const choiceOf = <Choice extends string>(request: PageRequest, name: string, choices: ReadonlyArray<Choice>) => {
  const text = textOf(request, name)
  const choice = choices.find((known) => known === text)
  return text !== null && choice === undefined
    ? Effect.fail(new Malformed({ message: `"${name}" is one of ${choices.join(", ")}.` }))
    : Effect.succeed(choice ?? null)
}

const instant = Schema.decodeUnknownEffect(Instant)

const timeOf = (request: PageRequest, name: string) => {
  const text = textOf(request, name)
  return text === null
    ? Effect.succeed(null)
    : Effect.mapBoth(instant(instantOf(text)), {
        onSuccess: (at) => new Date(at),
        onFailure: () => new Malformed({ message: `"${name}" is a time such as 2026-11-20T10:00:00Z.` })
      })
}

export const notFound = (kind: string, id: string | null) =>
  new Refused({ message: `There is no ${kind} "${id ?? ""}".` })

/** Settings of the transaction that reads a page by look-ups, on a connection of the pool for reports. */
export const pageSettings = { ...keyed, enable_nestloop: "on", statement_timeout: "1s" }

/** Reads a page in one read-only transaction. Each statement may take one second. */
export const inReadTransaction = <A, E, R>(sql: SqlClient.SqlClient, effect: Effect.Effect<A, E, R>) =>
  sql.withTransaction(
    Effect.andThen(
      sql`
        SELECT ${sql.csv(Object.entries(pageSettings).map(([name, value]) => sql`set_config(${name}, ${value}, true)`))},
          set_config('transaction_read_only', 'on', true)`,
      effect
    )
  )

interface RecordName {
  readonly id: string
  readonly projectId: string
}

const pages: Readonly<Partial<{ readonly [K in RecordKind]: (record: RecordName) => string }>> = {
  project: ({ id }) => href("/console/project", { project: id }),
  delivery: ({ id, projectId: project }) => href("/console/delivery", { project, id }),
  message: ({ id, projectId: project }) => href("/console/message", { project, id }),
  campaign: ({ id, projectId: project }) => href("/console/campaign", { project, id }),
  installation: ({ id, projectId: project }) => href("/console/webhook", { project, installation: id }),
  replay: ({ projectId: project }) => href("/console/replays", { project })
}

/** Returns the page that shows a record: that of its kind, otherwise its history. */
export const recordPage = (kind: RecordKind, record: RecordName) => pages[kind]?.(record) ?? historyPage(kind, record)

export const historyPage = (kind: RecordKind, { id, projectId: project }: RecordName) =>
  href("/console/history", { project, kind, id })

/** The id of a record, or its name, as a link to its page. */
export const recordLink = (kind: RecordKind, projectId: string, id: string | null, name = idOf(id)) =>
  id === null ? null : html`<a href="${recordPage(kind, { projectId, id })}">${name}</a>`

export const historyLink = (kind: RecordKind, record: RecordName) =>
  html`<a href="${historyPage(kind, record)}">Commands and actions</a>`
