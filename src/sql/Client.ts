/**
 * The SQL client of a pool, for statements that need no session. How its connections run them is the mode of the pool (`platform/Pools.ts`):
 *
 * - `plain` and `pipelined` are connections to PostgreSQL itself. The session has the settings of the pool from its start. Statements
 *   are sent as they are.
 * - `pooled` are connections to a pooler in transaction mode, such as PgBouncer. The pooler may give each transaction another session,
 *   which has neither the settings of the pool nor its prepared statements, but has what other clients have left in it: `pg_dump`, for
 *   one, leaves an empty `search_path`. Each statement is therefore a transaction of four parts: BEGIN, the settings (`set_config` as
 *   SET LOCAL), the statement and COMMIT. The parts are written at once and cost one round trip. A connection runs one statement at a
 *   time, because nothing may come between the parts.
 *
 * A connection is replaced when it is old. If a standby refuses a statement, all connections of the process are replaced: the
 * address of the database led to the standby when they were opened, but leads to the primary sooner or later.
 */
import { PgClient, type PgConnection, PgPool } from "@effect/sql-pg"
import { Data, Duration, Effect, Latch, Layer, Predicate, Random, Result, Stream } from "effect"
import * as Reactivity from "effect/reactivity/Reactivity"
import { SqlClient, type SqlConnection, SqlError, type Statement } from "effect/sql"
import { clearedSettings, type Mode, type Pool } from "../platform/Pools.ts"

type Connection = PgConnection.PgConnection

const codeOf = ({ reason }: SqlError.SqlError): unknown =>
  Predicate.hasProperty(reason.cause, "code") ? reason.cause.code : undefined

/**
 * Time after which a connection is replaced, once its statements have ended. The time of each connection differs by up to a tenth,
 * so that a process does not replace all of its connections at once.
 */
const maxAge = Duration.minutes(10)

/**
 * Whether the pooler keeps prepared statements. PgBouncer 1.21 and later do, unless `max_prepared_statements` is 0. PgBouncer
 * renames each prepared statement at the server. This query is prepared too, so it looks for its own new name.
 */
const keepsStatements = (connection: Connection): Effect.Effect<boolean, SqlError.SqlError> =>
  Effect.map(
    connection.query("SELECT name FROM pg_prepared_statements WHERE statement LIKE '%FROM pg_prepared_statements%'"),
    ({ rows }) => rows.some((row) => String(row["name"]).startsWith("PGBOUNCER_"))
  )

/** Whether the prepared statement is missing (26000), or its result type has changed (0A000). */
const isStale = (error: SqlError.SqlError) => codeOf(error) === "26000" || codeOf(error) === "0A000"

/** With this option, each part is written before the answer to the previous part has arrived. */
const atOnce = { concurrency: "unbounded" } as const

const rolledBack = new SqlError.SqlError({
  reason: new SqlError.UnknownError({ cause: undefined, message: "The transaction was rolled back" })
})

type Run = <A>(
  wanted: boolean,
  statement: (prepare: boolean) => Effect.Effect<A, SqlError.SqlError>,
  sql: string
) => Effect.Effect<A, SqlError.SqlError>

/** Makes a connection for the SQL client. `wanted` tells `run` whether the caller allows a prepared statement; `run` decides. */
const connectionOf = (run: Run, connection: Connection): SqlConnection.Connection => {
  const result = (sql: string, params: ReadonlyArray<unknown>, wanted: boolean) =>
    run(wanted, (prepare) => connection.query(sql, params, prepare), sql)
  const rows = (sql: string, params: ReadonlyArray<unknown>, wanted: boolean) =>
    Effect.map(result(sql, params, wanted), ({ rows }) => rows)
  const values = (sql: string, params: ReadonlyArray<unknown>, wanted: boolean) =>
    run(wanted, (prepare) => connection.queryValues(sql, params, prepare), sql)
  return {
    execute: (sql, params) => rows(sql, params, true),
    executeRaw: (sql, params) => result(sql, params, true),
    executeValues: (sql, params) => values(sql, params, true),
    executeValuesUnprepared: (sql, params) => values(sql, params, false),
    executeUnprepared: (sql, params) => rows(sql, params, false),
    executeStream: (sql, params) => Stream.fromIterableEffect(rows(sql, params, true))
  }
}

/** Makes the transactions in which a pool sends its statements to a pooler. */
const makeTransactions = (pool: Pool) => {
  const begin = "BEGIN ISOLATION LEVEL READ COMMITTED"
  const settings = [
    ...clearedSettings.map((name) => `set_config('${name}', NULL, true)`),
    ...Object.entries(pool.session).map(([name, value]) => `set_config('${name}', '${value}', true)`)
  ]
  const configure = `SELECT ${settings.join(", ")}`
  let prepares: boolean | undefined

  /**
   * Runs a statement in a transaction. The parts around the statement are never prepared: if the pooler had lost a prepared
   * part, the driver would send the part again, after the COMMIT.
   */
  const inTransaction = <A>(
    connection: Connection,
    statement: Effect.Effect<A, SqlError.SqlError>
  ): Effect.Effect<A, SqlError.SqlError> => {
    const part = (sql: string) => Effect.result(connection.query(sql, [], false))
    const parts = Effect.all(
      [Effect.forEach([begin, configure], part, atOnce), Effect.result(statement), part("COMMIT")],
      atOnce
    )
    return Effect.flatMap(parts, ([opened, answer, commit]) => {
      const failed = opened.find(Result.isFailure)
      if (failed !== undefined) return Effect.fail(failed.failure)
      if (Result.isFailure(answer)) return Effect.fail(answer.failure)
      if (Result.isFailure(commit)) return Effect.fail(commit.failure)
      return commit.success.command === "COMMIT" ? Effect.succeed(answer.success) : Effect.fail(rolledBack)
    })
  }

  const mayPrepare = (connection: Connection) =>
    prepares === undefined
      ? Effect.tap(keepsStatements(connection), (keeps) => Effect.sync(() => void (prepares = keeps)))
      : Effect.succeed(prepares)

  return (connection: Connection): Running => ({
    // Is not interrupted: if only some parts were sent, the transaction would stay open.
    run: (wanted, statement) =>
      Effect.uninterruptible(
        Effect.flatMap(mayPrepare(connection), (prepares) => {
          const unprepared = inTransaction(connection, statement(false))
          if (!wanted || !prepares) return unprepared
          return Effect.catchIf(inTransaction(connection, statement(true)), isStale, () => unprepared)
        })
      ),
    // Sends the settings after the BEGIN.
    runInOwn: (_, statement, sql) =>
      sql === "BEGIN" ? Effect.tap(statement(false), () => connection.query(configure, [], false)) : statement(false)
  })
}

interface Options extends PgPool.Config {
  readonly mode: Mode
  /** Called when a standby has refused a statement. */
  readonly onStandby: () => void
}

/**
 * Compiles each statement with another compiler. A compiler keeps the text and the parameters of its statements in a `WeakMap`. Once a
 * `WeakMap` is in the old generation, a minor collection keeps all values that were added to it since the one before, and promotes
 * the parameters of the statements that were then in flight.
 */
const compiler: Statement.Compiler = {
  dialect: "pg",
  compile: (statement, withoutTransform) => PgClient.makeCompiler().compile(statement, withoutTransform),
  get withoutTransform() {
    return compiler
  }
}

/** Number of statements after which a pipelined connection is left idle for a moment. It bounds what the driver keeps. */
const idleAfter = 16

/**
 * Runs the statements of a pipelined connection. The driver keeps each statement, with its parameters and rows, until none is in
 * flight. Under lasting load that would be never, so later statements wait for it now and then.
 */
const makePipeline = () => {
  const idle = Latch.makeUnsafe()
  let begun = 0
  let inFlight = 0
  const admitAll = () => {
    begun = 0
    idle.openUnsafe()
  }
  const end = Effect.sync(() => {
    if (--inFlight === 0) admitAll()
  })
  const count = <A>(statement: Effect.Effect<A, SqlError.SqlError>) =>
    Effect.uninterruptibleMask((restore) => {
      begun++
      inFlight++
      return Effect.ensuring(restore(statement), end)
    })
  const inTurn = <A>(statement: Effect.Effect<A, SqlError.SqlError>): Effect.Effect<A, SqlError.SqlError> =>
    Effect.suspend(() => {
      if (begun < idleAfter) return count(statement)
      idle.closeUnsafe()
      return Effect.andThen(idle.await, inTurn(statement))
    })
  const run: Run = (wanted, statement) => inTurn(statement(wanted))
  return { run, admitAll }
}

/** How a connection runs statements. */
interface Running {
  /** Runs a statement by itself. */
  readonly run: Run
  /** Runs a statement of a transaction that its caller begins. */
  readonly runInOwn: Run
  /** Lets the statements begin that wait until the connection is idle. */
  readonly admitAll?: () => void
}

const asIs: Run = (wanted, statement) => statement(wanted)

const modes: Readonly<Record<Mode, (pool: Pool) => (connection: Connection) => Running>> = {
  plain: () => () => ({ run: asIs, runInOwn: asIs }),
  pipelined: () => () => ({ ...makePipeline(), runInOwn: asIs }),
  pooled: makeTransactions
}

interface Known {
  /** Runs each statement by itself. */
  readonly connection: SqlConnection.Connection
  readonly admitAll: (() => void) | undefined
  retiresAt: number
}

/** A connection is to be replaced, and has run no statement. */
class Old extends Data.TaggedError("Old")<{ readonly connection: Connection }> {}

const make = Effect.fnUntraced(function* (pool: Pool, { mode, onStandby, ...options }: Options) {
  const connections = yield* PgPool.make(options)
  const random = yield* Random.Random
  const running = modes[mode](pool)

  /** Asks the server that has refused a write whether it is a standby. It is not if a setting makes the session read-only. */
  const reportStandby = (connection: Connection) =>
    connection.query("SELECT pg_is_in_recovery() AS standby", [], false).pipe(
      Effect.tap(({ rows }) => Effect.sync(() => void (rows[0]?.["standby"] === true && onStandby()))),
      Effect.ignore
    )

  const isRefused = (error: SqlError.SqlError) => codeOf(error) === "25006"
  const watched =
    (connection: Connection, run: Run): Run =>
    (wanted, statement, sql) =>
      Effect.catchIf(run(wanted, statement, sql), isRefused, (error) =>
        Effect.andThen(reportStandby(connection), Effect.fail(error))
      )

  const known = new WeakMap<Connection, Known>()
  const knownOf = (connection: Connection) => {
    const found = known.get(connection)
    if (found !== undefined) return found
    const { admitAll, run } = running(connection)
    const age = Duration.toMillis(maxAge) * (1 - random.nextDoubleUnsafe() / 10)
    const made: Known = {
      connection: connectionOf(watched(connection, run), connection),
      admitAll,
      retiresAt: performance.now() + age
    }
    known.set(connection, made)
    return made
  }

  /**
   * Runs statements on a connection of the pool. An old connection is replaced first: its other statements end, no new one begins, and
   * it is given back, because the pool closes only a connection that is not in use before it opens another one.
   */
  const borrow = <A, E, R>(
    use: (connection: SqlConnection.Connection) => Effect.Effect<A, E, R>
  ): Effect.Effect<A, E | SqlError.SqlError, R> =>
    Effect.catchIf(
      connections.use((connection): Effect.Effect<A, E | Old, R> => {
        const own = knownOf(connection)
        if (performance.now() < own.retiresAt) return use(own.connection)
        own.retiresAt = Infinity
        own.admitAll?.()
        return Effect.andThen(connection.pin, Effect.yieldNow).pipe(
          Effect.scoped,
          Effect.onInterrupt(() => Effect.sync(() => void (own.retiresAt = 0))),
          Effect.andThen(Effect.fail(new Old({ connection })))
        )
      }),
      (error): error is Old => error instanceof Old,
      ({ connection }) => Effect.andThen(connections.invalidate(connection), borrow(use))
    )

  return yield* SqlClient.make({
    acquirer: Effect.map(connections.get, (connection) => knownOf(connection).connection),
    borrower: borrow,
    transactionAcquirer: Effect.map(connections.reserve, (connection) =>
      connectionOf(watched(connection, running(connection).runInOwn), connection)
    ),
    // PostgreSQL answers the COMMIT of a failed transaction with ROLLBACK, which is no error.
    commit: (connection) =>
      Effect.flatMap(connection.executeRaw("COMMIT", []), (result) =>
        Predicate.hasProperty(result, "command") && result.command === "ROLLBACK"
          ? Effect.fail(rolledBack)
          : Effect.void
      ),
    compiler,
    driver: "pg",
    spanAttributes: [
      ["db.system.name", "postgresql"],
      ["db.namespace", options.database ?? "postgres"],
      ["server.address", options.host ?? "localhost"],
      ["server.port", options.port ?? 5432]
    ]
  })
})

export const layer = (pool: Pool, options: Options) =>
  Layer.effect(SqlClient.SqlClient, make(pool, options)).pipe(Layer.provide(Reactivity.layer))
