/**
 * The statement of mutations. It stores the idempotency keys of its commands, applies the changes, and returns a row per command.
 * A `Kind` is a mutation as SQL over a relation of commands, from which the texts of its statement are made, once.
 */
import type { Fiber } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import { CurrentRequest } from "../platform/CurrentRequest.ts"
import { ifMatchColumn, matches, type Problems } from "./Command.ts"
import { redactSecrets } from "../platform/Text.ts"
import { currentSpan } from "../telemetry/Telemetry.ts"
import type { EventType } from "../api/integrations/Events.ts"

/**
 * The parts of a statement that differ between its variants: for one command or for many, and waiting for locked records or
 * skipping them.
 */
export interface Form {
  /** What follows `FOR … UPDATE`: SKIP LOCKED, or nothing in the variant that waits. */
  readonly locked: Statement.Fragment
  /** What follows SELECT where several commands may give the same value: DISTINCT, or nothing for one command. */
  readonly distinct: Statement.Fragment
  /** A query of the distinct projects, in the order in which they are locked. `rows` is what follows FROM. */
  readonly projects: (rows: Statement.Fragment) => Statement.Fragment
  /** A query of `project_id` and the sum of `change` for each project. `changes` is a query of `project_id` and `change`. */
  readonly sums: (changes: Statement.Fragment) => Statement.Fragment
  /**
   * Whether `If-Match` of a command names `old_version`, the version of its record before the command; NULL without the header. If
   * it is false, the failure is `precondition_failed`, and `version` is `old_version`.
   */
  readonly holds: Statement.Fragment
  /** The commands, ordered by project and `id`. Their records are locked in this order. */
  readonly inOrder: Statement.Fragment
  /** The position of a command among the commands of its partition, from 1. */
  readonly rank: (partition: string) => Statement.Fragment
  /**
   * The failure of a command whose record was not found. In the variants that skip locked records, the command is undecided if
   * `record`, a query without locks, finds the record. Otherwise the failure is `code`.
   */
  readonly absent: (record: Statement.Fragment, code: string) => Statement.Fragment
  /**
   * The failure of a command that is refused only if other commands of its group are applied. In the variants that skip locked
   * records, the command is undecided. Otherwise the failure is `code`.
   */
  readonly crowded: (code: string) => Statement.Fragment
}

/** A mutation as SQL over many commands. `Args` has the arguments of a command, as plain JSON. */
export interface Kind<Args, Problem> {
  /** The SQL types of the arguments, which are columns of `command`. */
  readonly args: Readonly<Record<keyof Args & string, string>>
  /**
   * Returns the names of what a command takes, such as the id of the record that it changes. Commands that take the same are never
   * in one group.
   */
  readonly takes?: (args: Args) => ReadonlyArray<string>
  /**
   * Common table expressions over `command (ord, project_id, key, fingerprint, at, origin, contact_capacity, default_pipeline_id,
   * time_zone, …arguments)`, which lock the records and check the guards. The last one is named `decided`: it has the columns of
   * `command`, and `failure text`, `faults text[]`, `resource_id`, `changed`, `version` and the columns that the effect needs.
   */
  readonly decided: (form: Form) => Statement.Fragment
  /**
   * Common table expressions that apply the changes of the commands in `claim`: those that no guard refused and whose keys were
   * free. `claim` has the columns of `decided`.
   */
  readonly effect: (form: Form) => Statement.Fragment
  /** Their SQL is left out for a project without subscribers to their types, because PostgreSQL prepares it for each statement. */
  readonly events?: Events
  readonly problems: Problems<Problem>
}

/** The events of a change of many commands, as `eventsOf` makes them. */
interface Events {
  readonly types: ReadonlyArray<EventType>
  /** Common table expressions, after `effect`, that append the events and their deliveries. */
  readonly appended: Statement.Fragment
  /** An expression for the installations that got deliveries. Only the first run of a command returns them; they are not stored. */
  readonly installations: (distinct: Statement.Fragment) => Statement.Fragment
}

export interface Attempt<Returned> {
  readonly ord: number
  /** The code of the problem that a failed guard gives; null if no guard failed. */
  readonly failure: string | null
  /** What the problem is about, such as the references that are missing. */
  readonly faults: ReadonlyArray<string> | null
  readonly resourceId: string
  readonly changed: boolean
  readonly version: number | null
  /** True if `failure` is null and the key was free, so that the change was applied. */
  readonly claimed: boolean
  readonly returned: Returned
}

/** The parts of one statement, as in `Kind`. */
interface Parts {
  /** A query of the commands, with the columns `ord`, `project_id`, `key`, `fingerprint`, `at`, `origin` and the arguments. */
  readonly requested: Statement.Fragment
  readonly isOne: boolean
  /** A further condition on the project of a command, as `AND …`. */
  readonly entering?: Statement.Fragment | undefined
  readonly decided: Statement.Fragment
  readonly effect: Statement.Fragment
  readonly returning?: Statement.Fragment | undefined
}

/**
 * Returns a row for each command, except a command whose project is locked by a project file or by a move to another database,
 * or was changed by one of them since the statement began. `enter_project` takes the advisory lock of the project in shared
 * mode, and returns the current revision of the project. If the snapshot of the statement has another revision, all its reads
 * may be outdated. Project files and moves take the same lock exclusively. The statement never waits for this lock: while
 * another session holds it or waits for it exclusively, the command has no row.
 *
 * Every statement takes its locks in one order: records, the row of the project (if a capacity is counted), keys; each kind by
 * project and id. So statements do not deadlock. OFFSET 0 and the materialized `claim` force look-ups by key. Otherwise the
 * planner could choose a scan while a table is small, and PostgreSQL would keep the plan when the table has grown.
 */
export const attempt = <Returned>(
  sql: SqlClient.SqlClient,
  { requested, decided, effect, entering = sql.literal(""), isOne, returning }: Parts
) =>
  sql<Attempt<Returned>>`
    WITH ${isOne ? enterOne(sql, requested, entering) : enterMany(sql, requested, entering)},
    ${decided},
    claimed AS (
      INSERT INTO idempotency_keys (project_id, key, fingerprint, resource_id, changed, version, created_at,
        request_id, trace_id, key_id, operation)
      SELECT project_id, key, fingerprint, resource_id, changed, version, at, ${sql.literal(originParts)}
      FROM decided WHERE failure IS NULL
      ${sql.literal(isOne ? "" : "ORDER BY project_id, key")}
      ON CONFLICT (project_id, key) DO NOTHING
      RETURNING project_id, key
    ),
    claim AS MATERIALIZED (SELECT decided.* FROM claimed JOIN decided USING (project_id, key)),
    ${effect}
    SELECT ord, failure, faults, resource_id AS "resourceId", changed, version,
           ${sql.literal(isOne ? "EXISTS (SELECT FROM claimed)" : "ord = ANY(ARRAY(SELECT ord FROM claim))")} AS claimed,
           ${returning ?? sql.literal("NULL")} AS returned
    FROM decided`

const project = (sql: SqlClient.SqlClient, id: string, revision: string, entering: Statement.Fragment) => sql`LATERAL (
  SELECT contact_capacity, default_pipeline_id, time_zone FROM projects
  WHERE projects.project_id = ${sql.literal(id)} AND projects.revision = ${sql.literal(revision)} ${entering}
  OFFSET 0
) AS project`

const enterOne = (
  sql: SqlClient.SqlClient,
  requested: Statement.Fragment,
  entering: Statement.Fragment
) => sql`command AS MATERIALIZED (
    SELECT requested.*, project.*
    FROM (${requested}) AS requested, ${project(sql, "requested.project_id", "enter_project(requested.project_id)", entering)}
  )`

const enterMany = (
  sql: SqlClient.SqlClient,
  requested: Statement.Fragment,
  entering: Statement.Fragment
) => sql`requested AS MATERIALIZED (${requested}),
  entered AS MATERIALIZED (
    SELECT entered.project_id, project.*
    FROM (
      SELECT project_id, enter_project(project_id) AS revision FROM (SELECT DISTINCT project_id FROM requested) AS id
    ) AS entered, ${project(sql, "entered.project_id", "entered.revision", entering)}
  ),
  command AS MATERIALIZED (
    SELECT requested.*, contact_capacity, default_pipeline_id, time_zone FROM requested JOIN entered USING (project_id)
  )`

/** The ids of the request, of its trace and of its key, and the operation. An operator's command has no request. */
export type Origin = readonly [
  requestId: string | null,
  traceId: string | null,
  keyId: string | null,
  operation: string
]

/** The column of `command` with the origin, and its parts in the order of the columns of `idempotency_keys`. */
const originColumn = { origin: "text[]" }
const originParts = "origin[1], origin[2], origin[3], origin[4]"

export const originOf = (fiber: Fiber.Fiber<unknown, unknown>, operation: string): Origin => {
  const { caller, id } = fiber.getRef(CurrentRequest)
  if (id === "") return [null, null, null, operation]
  return [redactSecrets(id), currentSpan(fiber.context)?.traceId ?? null, caller?.keyId ?? null, operation]
}

/** Whether the caller's project has no subscriber to events of `types`, as far as its credential tells. */
export const isUnsubscribed = (fiber: Fiber.Fiber<unknown, unknown>, types: ReadonlyArray<EventType> = []): boolean => {
  const { caller } = fiber.getRef(CurrentRequest)
  return caller !== undefined && !types.some((type) => caller.eventTypes.includes(type))
}

/** The failure of a command that is to run alone. */
export const undecided = "undecided"

/**
 * Returns the texts of a kind's statement: for many commands, for one command, and for one command that waits for locked
 * records. The first two also exist without events: if a project has a subscriber in the database, its command has no row, and runs
 * alone, with its events. The only parameters are the commands.
 */
export const textsOf = <Args, Problem>(sql: SqlClient.SqlClient, kind: Kind<Args, Problem>) => {
  const code = (text: string) => sql.literal(`'${text}'`)
  const holds = sql.literal(matches("old_version"))
  const one = {
    isOne: true,
    distinct: sql.literal(""),
    projects: (rows: Statement.Fragment) => sql`SELECT project_id FROM ${rows}`,
    sums: (changes: Statement.Fragment) => changes,
    inOrder: sql.literal("command"),
    holds,
    rank: () => sql.literal("1")
  } as const
  const skipping = {
    locked: sql.literal("SKIP LOCKED"),
    // This is not an EXISTS, because the plan of an EXISTS could read all records.
    absent: (record: Statement.Fragment, otherwise: string) => sql`
      coalesce((SELECT ${code(undecided)} FROM (${record}) AS stored LIMIT 1), ${code(otherwise)})`,
    crowded: () => code(undecided)
  }
  const columns = { ...kind.args, ...ifMatchColumn, ...originColumn }
  const requested = (query: (args: typeof columns) => string) => sql.literal(query(columns))
  const many: Form = {
    ...skipping,
    distinct: sql.literal("DISTINCT"),
    projects: (rows) => sql`SELECT DISTINCT project_id FROM ${rows} ORDER BY project_id`,
    sums: (changes) =>
      sql`SELECT project_id, sum(change)::int AS change FROM (${changes}) AS changes GROUP BY project_id`,
    holds,
    inOrder: sql.literal("(SELECT * FROM command ORDER BY project_id, id) AS command"),
    rank: (partition) => sql.literal(`row_number() OVER (PARTITION BY ${partition} ORDER BY command.ord)`)
  }
  const skippingTexts = (kind: Kind<Args, Problem>, entering?: Statement.Fragment) => ({
    many: textOf(sql, kind, requested(requestedMany), many, entering),
    one: textOf(sql, kind, requested(requestedOne), { ...skipping, ...one }, entering)
  })
  const { events, ...unsubscribed } = kind
  return {
    subscribed: skippingTexts(kind),
    unsubscribed: events && skippingTexts(unsubscribed, withoutSubscribers(sql, events.types)),
    waiting: textOf(sql, kind, requested(requestedOne), {
      ...one,
      locked: sql.literal(""),
      absent: (_, text) => code(text),
      crowded: code
    })
  }
}

const textOf = <Args, Problem>(
  sql: SqlClient.SqlClient,
  { decided, effect, events }: Kind<Args, Problem>,
  requested: Statement.Fragment,
  form: Form & { readonly isOne?: true },
  entering?: Statement.Fragment
): string => {
  const [text] = attempt(sql, {
    requested,
    isOne: form.isOne === true,
    entering,
    decided: decided(form),
    effect: events === undefined ? effect(form) : sql`${effect(form)}, ${events.appended}`,
    returning: events?.installations(form.distinct)
  }).compile()
  return text
}

/** This is not an EXISTS, because the plan of an EXISTS could read all webhooks. */
const withoutSubscribers = (sql: SqlClient.SqlClient, types: ReadonlyArray<EventType>) =>
  sql.literal(`
  AND (
    SELECT bool_or(event_types && '{${types.join()}}') FROM webhooks WHERE webhooks.project_id = projects.project_id
  ) IS NOT TRUE`)

type Args = Readonly<Record<string, string>>

const requestedOne = (args: Args) => `
  SELECT 1 AS ord, $1::text COLLATE "C" AS project_id, $2::text COLLATE "C" AS key, $3::bytea AS fingerprint,
         $4::timestamptz AS at, args.*
  FROM json_to_record($5::json) AS args (${declared(args)})`

/**
 * The condition on `ordinality` is always true. Its default selectivity makes the planner expect one command, so it plans
 * look-ups by key, even while the tables are small.
 */
const requestedMany = (args: Args) => `
  SELECT ordinality::int AS ord, project_id COLLATE "C" AS project_id, key COLLATE "C" AS key, fingerprint, at,
         ${Object.keys(args).map(quoted).join(", ")}
  FROM ROWS FROM (
    unnest($1::text[], $2::text[], $3::bytea[], $4::timestamptz[]), json_to_recordset($5::json) AS (${declared(args)})
  ) WITH ORDINALITY AS requested (project_id, key, fingerprint, at)
  WHERE ordinality + 0 = ordinality`

const declared = (args: Args) =>
  Object.entries(args)
    .map(([name, type]) => `${quoted(name)} ${type}`)
    .join(", ")

const quoted = (name: string) => `"${name}"`
