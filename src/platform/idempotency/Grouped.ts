/**
 * Group commit: the commands of one kind that come together run as one statement, which costs PostgreSQL little more than
 * one of them alone. A kind is written once, as SQL over a relation of commands; one command alone is a group of one.
 *
 * Each command of a group has its own project, key, guards, outcome and problem. A group never waits for a record: where
 * one is locked, or where the outcome depends on what becomes of the command's neighbours, the command is undecided, and
 * runs alone in a statement that waits. So do all commands of a group that fails as a whole.
 */
import { Effect } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import type { IdempotencyKeyReused, ServiceUnavailable } from "../../api/Problems.ts"
import { Contended, once, statement } from "../Database.ts"
import { type Attempt, attempt } from "./Attempt.ts"
import { groups } from "./Groups.ts"
import type { Command, Outcome, Problems } from "./Idempotency.ts"
import type { MutationClient } from "./Mutations.ts"
import { repeated, settled } from "./Outcomes.ts"

/** How a statement treats the records that it changes. */
export interface Form {
  /** Follows `FOR … UPDATE`. */
  readonly locked: Statement.Fragment
  /** The failure of a command whose record could not be locked; `record` is the query of it. */
  readonly absent: (record: Statement.Fragment, code: string) => Statement.Fragment
  /** The failure of a command that is refused only if its neighbours are not. */
  readonly crowded: (code: string) => Statement.Fragment
}

/** A mutation as SQL over many commands. `Args` are plain JSON, and carry what a command needs to know beside its key. */
export interface Kind<Args, Problem> {
  /** The types of `Args`, which are columns of `command`. */
  readonly args: Readonly<Record<keyof Args & string, string>>
  /** The record that a command changes: no two commands of a group change the same. */
  readonly record?: (args: Args) => string
  /**
   * Common table expressions that lock what the changes rest on, in the order of project and id, and end in
   * `verdict (ord, failure, resource_id, changed, version)` with one row for each row of
   * `command (ord, project_id, key, at, contact_capacity, default_pipeline_id, time_zone, …args)`.
   */
  readonly verdict: (form: Form) => Statement.Fragment
  /** Common table expressions that apply the changes from `claim (ord, changed)`. */
  readonly effect: Statement.Fragment
  readonly returning?: Statement.Fragment
  readonly problems: Problems<Problem>
}

/** The failure of a command that a group can't decide. */
export const undecided = "undecided"

/** Makes the function that runs the commands of a kind. */
export const grouped = <Args, Problem, Returned = null>(
  client: MutationClient,
  kind: Kind<Args, Problem>
): ((
  command: Command,
  at: Date,
  args: Args
) => Effect.Effect<Outcome<Returned>, Problem | IdempotencyKeyReused | ServiceUnavailable>) => {
  const { permits, sql } = client
  const inGroup = textOf(sql, kind, {
    locked: sql.literal("SKIP LOCKED"),
    absent: (record, code) => sql`
      CASE WHEN EXISTS (${record}) THEN ${sql.literal(`'${undecided}'`)} ELSE ${sql.literal(`'${code}'`)} END`,
    crowded: () => sql.literal(`'${undecided}'`)
  })
  const alone = textOf(sql, kind, {
    locked: sql.literal(""),
    absent: (_, code) => sql.literal(`'${code}'`),
    crowded: (code) => sql.literal(`'${code}'`)
  })

  const queue = groups<Request<Args>, Attempt<Returned>>({
    group: (requests) =>
      Effect.map(once(sql.unsafe<Attempt<Returned>>(inGroup, parameters(requests))), (rows) => {
        const decided = new Map(rows.map((row) => [row.ord, row]))
        return requests.map((_, index) => {
          const row = decided.get(index + 1)
          return row?.failure === undecided ? undefined : row
        })
      }),
    alone: (request) =>
      sql.unsafe<Attempt<Returned>>(alone, parameters([request])).pipe(
        Effect.flatMap(([row]) => (row === undefined ? Effect.fail(new Contended()) : Effect.succeed(row))),
        permits.withPermit(request.command.projectId),
        statement
      )
  })

  return (command, at, args) => {
    const record = kind.record?.(args)
    const { key, projectId } = command
    const names = [`key ${projectId} ${key}`, ...(record === undefined ? [] : [`record ${projectId} ${record}`])]
    const run = queue({ projectId, names, command, at, args })
    return repeated(client, command, settled(client, command, kind.problems, run))
  }
}

interface Request<Args> {
  readonly projectId: string
  readonly names: ReadonlyArray<string>
  readonly command: Command
  readonly at: Date
  readonly args: Args
}

const parameters = <Args>(requests: ReadonlyArray<Request<Args>>) => [
  requests.map(({ command }) => command.projectId),
  requests.map(({ command }) => command.key),
  requests.map(({ command }) => command.fingerprint),
  requests.map(({ at }) => at),
  JSON.stringify(requests.map(({ args }) => args))
]

/** The text of a kind's statement. It is made once, and has no parameters but the commands. */
const textOf = <Args, Problem>(
  sql: SqlClient.SqlClient,
  { args, effect, returning, verdict }: Kind<Args, Problem>,
  form: Form
): string => {
  const [text] = attempt(sql, {
    asked: sql.literal(`
      SELECT ordinality::int AS ord, project_id COLLATE "C" AS project_id, key COLLATE "C" AS key, fingerprint, at,
             ${Object.keys(args).map(quoted).join(", ")}
      FROM ROWS FROM (
        unnest($1::text[], $2::text[], $3::bytea[], $4::timestamptz[]),
        json_to_recordset($5::json) AS (${Object.entries(args)
          .map(([name, type]) => `${quoted(name)} ${type}`)
          .join(", ")})
      ) WITH ORDINALITY AS asked (project_id, key, fingerprint, at)`),
    verdict: verdict(form),
    joined: sql`verdict.ord = command.ord`,
    effect,
    returning
  }).compile()
  return text
}

const quoted = (name: string) => `"${name}"`
