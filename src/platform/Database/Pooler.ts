/**
 * A client of a pooler in transaction mode, such as PgBouncer. A session of it lasts for one transaction: settings of a
 * session are refused or lost, and statements that were prepared by name may not be there the next time.
 *
 * So each statement is a transaction that begins with its settings (`set_config` as SET LOCAL). Its four parts are written
 * at once and cost one round trip. A connection serves one statement at a time, as nothing may come between the parts.
 */
import { PgClient, type PgConnection, PgPool } from "@effect/sql-pg"
import { Duration, Effect, Layer, Predicate, Result, Stream } from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlClient, type SqlConnection, SqlError } from "effect/sql"
import type { Pool } from "./Pools.ts"

type Connection = PgConnection.PgConnection

/** PgBouncer keeps named statements from 1.21 on (`max_prepared_statements`), and gives them names of its own. */
const keepsStatements = (connection: Connection): Effect.Effect<boolean, SqlError.SqlError> =>
  Effect.map(
    connection.query("SELECT name FROM pg_prepared_statements WHERE statement LIKE '%FROM pg_prepared_statements%'"),
    ({ rows }) => rows.some((row) => String(row["name"]).startsWith("PGBOUNCER_"))
  )

/** The prepared statement is not there, or no longer returns what it returned. */
const isStale = ({ reason }: SqlError.SqlError) =>
  Predicate.hasProperty(reason.cause, "code") && (reason.cause.code === "26000" || reason.cause.code === "0A000")

/** In one flight: each is written before the answer to the one before has come. */
const together = { concurrency: "unbounded" } as const

const rolledBack = new SqlError.SqlError({
  reason: new SqlError.UnknownError({ cause: undefined, message: "The transaction was rolled back" })
})

type Run = <A>(
  wanted: boolean,
  statement: (prepare: boolean) => Effect.Effect<A, SqlError.SqlError>,
  sql: string
) => Effect.Effect<A, SqlError.SqlError>

/** A connection whose statements are run by `run`, prepared where that is `wanted` and possible. */
const connected = (run: Run, connection: Connection): SqlConnection.Connection => {
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

const make = Effect.fnUntraced(function* (pool: Pool, options: PgPool.Config) {
  const connections = yield* PgPool.make({ ...options, multiplex: true, multiplexConcurrency: 1 })
  const begin = pool.readOnly === true ? "BEGIN READ ONLY" : "BEGIN"
  const settings = Object.entries(pool.session ?? {}).map(([name, value]) => `set_config('${name}', '${value}', true)`)
  const configure = settings.length === 0 ? undefined : `SELECT ${settings.join(", ")}`
  let prepares: boolean | undefined

  const before = [begin, ...(configure === undefined ? [] : [configure])]

  /**
   * Runs a statement in its transaction. Its other parts are never prepared: the driver would send one again that the
   * pooler has lost, behind the COMMIT.
   */
  const inTransaction = <A>(
    connection: Connection,
    statement: Effect.Effect<A, SqlError.SqlError>
  ): Effect.Effect<A, SqlError.SqlError> => {
    const part = (sql: string) => Effect.result(connection.query(sql, [], false))
    const parts = Effect.all(
      [Effect.forEach(before, part, together), Effect.result(statement), part("COMMIT")],
      together
    )
    return Effect.flatMap(parts, ([opened, answer, commit]) => {
      const failed = opened.find(Result.isFailure)
      if (failed !== undefined) return Effect.fail(failed.failure)
      if (Result.isFailure(answer)) return Effect.fail(answer.failure)
      if (Result.isFailure(commit)) return Effect.fail(commit.failure)
      return commit.success.command === "COMMIT" ? Effect.succeed(answer.success) : Effect.fail(rolledBack)
    })
  }

  const preparing = (connection: Connection) =>
    prepares === undefined
      ? Effect.tap(keepsStatements(connection), (keeps) => Effect.sync(() => void (prepares = keeps)))
      : Effect.succeed(prepares)

  /** Uninterruptible, as some of the parts without the others would leave the transaction open. */
  const run = <A>(
    connection: Connection,
    wanted: boolean,
    statement: (prepare: boolean) => Effect.Effect<A, SqlError.SqlError>
  ): Effect.Effect<A, SqlError.SqlError> =>
    Effect.uninterruptible(
      Effect.flatMap(preparing(connection), (prepares) => {
        const unprepared = inTransaction(connection, statement(false))
        if (!wanted || !prepares) return unprepared
        return Effect.catchIf(inTransaction(connection, statement(true)), isStale, () => unprepared)
      })
    )

  const alone = (connection: Connection) =>
    connected((wanted, statement) => run(connection, wanted, statement), connection)

  /** For transactions of several statements: the settings follow their BEGIN. */
  const reserved = (connection: Connection) =>
    connected(
      (_, statement, sql) =>
        sql === "BEGIN" && configure !== undefined
          ? Effect.tap(statement(false), () => connection.query(configure, [], false))
          : statement(false),
      connection
    )

  return yield* SqlClient.make({
    acquirer: Effect.map(connections.get, alone),
    borrower: (use) => connections.use((connection) => use(alone(connection))),
    transactionAcquirer: Effect.map(connections.reserve, reserved),
    compiler: PgClient.makeCompiler(),
    driver: "pg",
    spanAttributes: [
      ["db.system.name", "postgresql"],
      ["db.namespace", options.database ?? "postgres"],
      ["server.address", options.host ?? "localhost"],
      ["server.port", options.port ?? 5432]
    ]
  })
})

/** The client of a pool through the pooler. `options` say where that is. */
export const layer = (pool: Pool, connections: number, options: PgPool.Config) =>
  Layer.effect(
    SqlClient.SqlClient,
    make(pool, {
      ...options,
      // The pooler changes it on a session of PostgreSQL whose last client had another: so it is the same for all.
      applicationName: "developer-api",
      maxConnections: connections,
      idleTimeout: Duration.minutes(1)
    })
  ).pipe(Layer.provide(Reactivity.layer))
