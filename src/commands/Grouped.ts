/**
 * Group commit: concurrent commands of one kind run as one statement, which costs PostgreSQL little more than one command. A
 * kind is written once, as SQL over a relation of commands. A single command is a group of one.
 *
 * Each command of a group has its own project, key, guards (conditions of its change), outcome and problem. A group never waits
 * for a record. If the record of a command is locked, or if its outcome depends on other commands of the group, the command is
 * undecided. An undecided command runs alone, in a statement that waits. If the statement of a group fails although the database
 * answers, all its commands run alone.
 */
import { Cause, Effect, Exit } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import type { IdempotencyKeyReused, ServiceUnavailable } from "../api/Problems.ts"
import { type Call, makeBatches } from "../sql/Batches.ts"
import { Contended, once, statement } from "../sql/Database.ts"
import { FairQueue } from "./FairQueue.ts"
import { hashOf } from "../platform/NameHash.ts"
import { type Attempt, attempt, type Origin, originColumn, originOf } from "./Attempt.ts"
import type { Command, Outcome, Problems } from "./Idempotency.ts"
import type { MutationClient } from "./Mutations.ts"
import { outcomeOf, replayOrRun } from "./Outcomes.ts"
import { ifMatchColumn, matches } from "./Preconditions.ts"

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
   * Common table expressions that lock the records and check the guards. The last one is named `decided`: it has the columns
   * of `command`, and `failure`, `faults`, `resource_id`, `changed`, `version` and the columns that the effect needs.
   */
  readonly decided: (form: Form) => Statement.Fragment
  /**
   * Common table expressions that apply the changes of the commands in `claim`: those that no guard refused and whose keys were
   * free. `claim` has the columns of `decided`.
   */
  readonly effect: (form: Form) => Statement.Fragment
  readonly returning?: (form: Form) => Statement.Fragment
  readonly problems: Problems<Problem>
}

const undecided = "undecided"

const maxGroup = 32
/** Maximum number of groups of a kind in flight. More groups would wait for each other in the database. */
const maxGroups = 2

export const makeGrouped = <Args, Problem, Returned = null>(
  client: MutationClient,
  kind: Kind<Args, Problem>
): ((
  command: Command,
  at: Date,
  args: Args
) => Effect.Effect<Outcome<Returned>, Problem | IdempotencyKeyReused | ServiceUnavailable>) => {
  const { permits, sql } = client
  const texts = textsOf(sql, kind)

  const alone = (request: Request<Args>): Effect.Effect<Attempt<Returned>, ServiceUnavailable> =>
    sql.unsafe<Attempt<Returned>>(texts.waiting, parametersOfOne(request)).pipe(
      Effect.flatMap(([row]) => (row === undefined ? Effect.fail(new Contended()) : Effect.succeed(row))),
      permits.withPermit(request.command.projectId),
      statement
    )

  const queue = makeBatches({
    line: new FairQueue<Call<Request<Args>, Attempt<Returned>, ServiceUnavailable>>(),
    maxBatch: maxGroup,
    maxInFlight: maxGroups,
    isEager: false,
    run: (requests: ReadonlyArray<Request<Args>>) =>
      Effect.map(
        once(
          requests.length === 1
            ? sql.unsafe<Attempt<Returned>>(texts.one, requests.flatMap(parametersOfOne))
            : sql.unsafe<Attempt<Returned>>(texts.many, parameters(requests))
        ),
        (rows) => {
          const decided = new Map(rows.map((row) => [row.ord, row]))
          return requests.map((_, index) => decided.get(index + 1))
        }
      ),
    settle: (request, answer) => {
      if (Exit.isFailure(answer)) {
        const failure = unavailableIn(answer.cause)
        return failure === undefined ? alone(request) : Effect.fail(failure)
      }
      const row = answer.value
      return row === undefined || row.failure === undecided ? alone(request) : Effect.succeed(row)
    }
  })

  return (command, at, args) => {
    const { key, projectId } = command
    const taken = kind.takes?.(args) ?? []
    const names = [hashOf("key", projectId, key), ...taken.map((name) => hashOf("taken", projectId, name))]
    const run = Effect.withFiber((fiber) =>
      queue({ projectId, names, command, at, args, origin: originOf(fiber, command.operation) })
    )
    return replayOrRun(client, command, outcomeOf(client, command, kind.problems, run))
  }
}

/** Returns the failure of a group if the database did not answer. The requests would then also fail if each ran alone. */
const unavailableIn = (cause: Cause.Cause<Contended | ServiceUnavailable>): ServiceUnavailable | undefined =>
  cause.reasons
    .filter(Cause.isFailReason)
    .map(({ error }) => error)
    .find((error) => error._tag !== "Contended")

interface Request<Args> {
  readonly projectId: string
  readonly names: ReadonlyArray<number>
  readonly command: Command
  readonly at: Date
  readonly args: Args
  readonly origin: Origin
}

const parametersOfOne = <Args>(request: Request<Args>) => {
  const { at, command } = request
  return [command.projectId, command.key, command.fingerprint, at, JSON.stringify(argumentsOf(request))]
}

const parameters = <Args>(requests: ReadonlyArray<Request<Args>>) => [
  requests.map(({ command }) => command.projectId),
  requests.map(({ command }) => command.key),
  requests.map(({ command }) => command.fingerprint),
  requests.map(({ at }) => at),
  JSON.stringify(requests.map(argumentsOf))
]

const argumentsOf = <Args>({ args, command: { ifMatch }, origin }: Request<Args>) => ({ ...args, ifMatch, origin })

/**
 * Returns the texts of a kind's statement: for many commands, for one command, and for one command that waits for locked
 * records. The only parameters are the commands.
 */
const textsOf = <Args, Problem>(sql: SqlClient.SqlClient, kind: Kind<Args, Problem>) => {
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
  return {
    many: textOf(sql, kind, requested(requestedMany), {
      ...skipping,
      distinct: sql.literal("DISTINCT"),
      projects: (rows) => sql`SELECT DISTINCT project_id FROM ${rows} ORDER BY project_id`,
      sums: (changes) =>
        sql`SELECT project_id, sum(change)::int AS change FROM (${changes}) AS changes GROUP BY project_id`,
      holds,
      inOrder: sql.literal("(SELECT * FROM command ORDER BY project_id, id) AS command"),
      rank: (partition) => sql.literal(`row_number() OVER (PARTITION BY ${partition} ORDER BY command.ord)`)
    }),
    one: textOf(sql, kind, requested(requestedOne), { ...skipping, ...one }),
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
  { decided, effect, returning }: Kind<Args, Problem>,
  requested: Statement.Fragment,
  form: Form & { readonly isOne?: true }
): string => {
  const [text] = attempt(sql, {
    requested,
    isOne: form.isOne === true,
    decided: decided(form),
    effect: effect(form),
    returning: returning?.(form)
  }).compile()
  return text
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
