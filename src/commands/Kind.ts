/**
 * The statement of mutations. It stores the idempotency keys of its commands, applies their changes, and returns a row for each command.
 * A `Kind` is one mutation, as SQL over a relation of commands. The parts of the statement, in their order:
 *
 *   requested   the commands, which are the only parameters
 *   entered     takes the advisory lock of each project, and reads its row
 *   command     the commands whose project was entered
 *   decided     locks records and checks guards: the `failure` of each command, or NULL        Kind.decided
 *   new_key     inserts the keys of the commands without a failure
 *   applied     the commands whose key was new
 *   …           their changes, events and deliveries                                           Kind.effect, Kind.events
 *   rows        a `CommandRow` for each command
 *
 * Its text has three forms. The first two also exist without events, for projects without subscribers.
 *
 *   form      commands   a locked record is         sent for
 *   grouped   many       skipped (`undecided`)      a group
 *   single    one        skipped (`undecided`)      a group of one command
 *   waiting   one        waited for                 a command that its group left undecided, or whose group failed
 */
import type { SqlClient, Statement } from "effect/sql"
import { ifMatchColumn, matches, originColumn, originParts, type Problems } from "./Command.ts"
import type { EventType } from "../api/integrations/Events.ts"

/** What differs between the forms of a statement. */
export interface Form {
  /** Whether the statement has one command. */
  readonly isOne: boolean
  /** What follows `FOR … UPDATE`: SKIP LOCKED, or nothing in `waiting`. */
  readonly locked: Statement.Fragment
  /** What follows SELECT where several commands may give the same value: DISTINCT in `grouped`, otherwise nothing. */
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
   * The failure of a command whose record was not found: `code`. In the forms that skip, the command is undecided if `record`, a query
   * without locks, finds the record.
   */
  readonly absent: (record: Statement.Fragment, code: string) => Statement.Fragment
  /**
   * The failure of a command for which a capacity has no room: `code` in `waiting`. In the forms that skip, the command is undecided,
   * because the outcome depends on other commands.
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
  /** Common table expressions that make the changes of the commands in `applied`, which has the columns of `decided`. */
  readonly effect: (form: Form) => Statement.Fragment
  /**
   * The events of the changes. The texts for projects without subscribers leave their SQL out, because PostgreSQL prepares each part of a
   * statement for each execution, also one that then has no rows.
   */
  readonly events?: Events
  readonly problems: Problems<Problem>
}

/** The events of a kind, as `eventsOf` makes them. */
interface Events {
  readonly types: ReadonlyArray<EventType>
  /** Common table expressions, after `effect`, that append the events and their deliveries. */
  readonly appended: Statement.Fragment
  /** A condition on a row of `projects`: the project has no subscriber to the events. */
  readonly noSubscriber: Statement.Fragment
  /** An expression for the installations that got deliveries. Only the first run of a command returns them; they are not stored. */
  readonly installations: (distinct: Statement.Fragment) => Statement.Fragment
}

/** What the statement returns for a command. */
export interface CommandRow<Returned> {
  readonly ord: number
  /** The code of the problem that a failed guard gives; null if no guard failed. */
  readonly failure: string | null
  /** What the problem is about, such as the references that are missing. */
  readonly faults: ReadonlyArray<string> | null
  readonly resourceId: string
  readonly changed: boolean
  readonly version: number | null
  /** Whether `failure` is null and the key was new, so that the change was applied. */
  readonly applied: boolean
  readonly returned: Returned
}

/** What a statement is made of: `decided` and `effect` as in `Kind`. */
interface Clauses {
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
 * project and id. So statements do not deadlock. OFFSET 0 and the materialized `applied` force look-ups by key. Otherwise the
 * planner could choose a scan while a table is small, and PostgreSQL would keep the plan when the table has grown.
 */
export const commandStatement = <Returned>(
  sql: SqlClient.SqlClient,
  { requested, decided, effect, entering = sql.literal(""), isOne, returning }: Clauses
) =>
  sql<CommandRow<Returned>>`
    WITH ${isOne ? enterOne(sql, requested, entering) : enterMany(sql, requested, entering)},
    ${decided},
    new_key AS (
      INSERT INTO idempotency_keys (project_id, key, fingerprint, resource_id, changed, version, created_at,
        request_id, trace_id, key_id, operation)
      SELECT project_id, key, fingerprint, resource_id, changed, version, at, ${sql.literal(originParts)}
      FROM decided WHERE failure IS NULL
      ${sql.literal(isOne ? "" : "ORDER BY project_id, key")}
      ON CONFLICT (project_id, key) DO NOTHING
      RETURNING project_id, key
    ),
    applied AS MATERIALIZED (SELECT decided.* FROM new_key JOIN decided USING (project_id, key)),
    ${effect}
    SELECT ord, failure, faults, resource_id AS "resourceId", changed, version,
           ${sql.literal(isOne ? "EXISTS (SELECT FROM new_key)" : "ord = ANY(ARRAY(SELECT ord FROM applied))")} AS applied,
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

/** The failure of a command that is to run alone. */
export const undecided = "undecided"

const formsOf = (sql: SqlClient.SqlClient) => {
  const code = (text: string) => sql.literal(`'${text}'`)
  const grouped: Form = {
    isOne: false,
    locked: sql.literal("SKIP LOCKED"),
    distinct: sql.literal("DISTINCT"),
    projects: (rows) => sql`SELECT DISTINCT project_id FROM ${rows} ORDER BY project_id`,
    sums: (changes) =>
      sql`SELECT project_id, sum(change)::int AS change FROM (${changes}) AS changes GROUP BY project_id`,
    holds: sql.literal(matches("old_version")),
    inOrder: sql.literal("(SELECT * FROM command ORDER BY project_id, id) AS command"),
    rank: (partition) => sql.literal(`row_number() OVER (PARTITION BY ${partition} ORDER BY command.ord)`),
    // This is not an EXISTS, because the plan of an EXISTS could read all records.
    absent: (record, otherwise) => sql`
      coalesce((SELECT ${code(undecided)} FROM (${record}) AS stored LIMIT 1), ${code(otherwise)})`,
    crowded: () => code(undecided)
  }
  const single: Form = {
    ...grouped,
    isOne: true,
    distinct: sql.literal(""),
    projects: (rows) => sql`SELECT project_id FROM ${rows}`,
    sums: (changes) => changes,
    inOrder: sql.literal("command"),
    rank: () => sql.literal("1")
  }
  const waiting: Form = { ...single, locked: sql.literal(""), absent: (_, text) => code(text), crowded: code }
  return { grouped, single, waiting }
}

/**
 * Returns the texts of a kind's statement, by their forms. A text without events gives no row for a command whose project has a
 * subscriber in the database: the command then runs alone, with its events.
 */
export const textsOf = <Args, Problem>(
  sql: SqlClient.SqlClient,
  { args, decided, effect, events }: Kind<Args, Problem>
) => {
  const columns = { ...args, ...ifMatchColumn, ...originColumn }
  const { grouped, single, waiting } = formsOf(sql)
  const textOf = (form: Form, appending?: Events, entering?: Statement.Fragment) => {
    const [text] = commandStatement(sql, {
      requested: sql.literal(form.isOne ? requestedOne(columns) : requestedMany(columns)),
      isOne: form.isOne,
      entering,
      decided: decided(form),
      effect: appending === undefined ? effect(form) : sql`${effect(form)}, ${appending.appended}`,
      returning: appending?.installations(form.distinct)
    }).compile()
    return text
  }
  const entering = events && sql`AND ${events.noSubscriber}`
  return {
    withEvents: { grouped: textOf(grouped, events), single: textOf(single, events) },
    withoutEvents: events && {
      grouped: textOf(grouped, undefined, entering),
      single: textOf(single, undefined, entering)
    },
    waiting: textOf(waiting, events)
  }
}

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
