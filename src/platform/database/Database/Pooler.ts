/**
 * A client of a pooler in transaction mode, such as PgBouncer. The pooler may give each transaction another session. So session
 * settings are refused or lost, and a prepared statement may be missing at its next use.
 *
 * Each statement is therefore a transaction of four parts: BEGIN, the settings (`set_config` as SET LOCAL), the statement and
 * COMMIT. The parts are written at once and cost one round trip. A connection runs one statement at a time, because nothing may
 * come between the parts.
 */
import { PgClient, type PgConnection, PgPool } from "@effect/sql-pg"
import { Duration, Effect, Layer, Predicate, Result, Stream } from "effect"
import * as Reactivity from "effect/reactivity/Reactivity"
import { SqlClient, type SqlConnection, SqlError } from "effect/sql"
import type { Pool } from "../../Pools.ts"

type Connection = PgConnection.PgConnection

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
const isStale = ({ reason }: SqlError.SqlError) =>
  Predicate.hasProperty(reason.cause, "code") && (reason.cause.code === "26000" || reason.cause.code === "0A000")

/** With this option, each part is written before the answer to the previous part has arrived. */
const pipelined = { concurrency: "unbounded" } as const

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

const make = Effect.fnUntraced(function* (pool: Pool, options: PgPool.Config) {
  const connections = yield* PgPool.make({ ...options, multiplex: true, multiplexConcurrency: 1 })
  const begin = pool.readOnly === true ? "BEGIN READ ONLY" : "BEGIN"
  const settings = Object.entries(pool.session ?? {}).map(([name, value]) => `set_config('${name}', '${value}', true)`)
  const configure = settings.length === 0 ? undefined : `SELECT ${settings.join(", ")}`
  let prepares: boolean | undefined

  const before = [begin, ...(configure === undefined ? [] : [configure])]

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
      [Effect.forEach(before, part, pipelined), Effect.result(statement), part("COMMIT")],
      pipelined
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

  /** Runs a statement uninterruptibly: if only some parts were sent, the transaction would stay open. */
  const run = <A>(
    connection: Connection,
    wanted: boolean,
    statement: (prepare: boolean) => Effect.Effect<A, SqlError.SqlError>
  ): Effect.Effect<A, SqlError.SqlError> =>
    Effect.uninterruptible(
      Effect.flatMap(mayPrepare(connection), (prepares) => {
        const unprepared = inTransaction(connection, statement(false))
        if (!wanted || !prepares) return unprepared
        return Effect.catchIf(inTransaction(connection, statement(true)), isStale, () => unprepared)
      })
    )

  const alone = (connection: Connection) =>
    connectionOf((wanted, statement) => run(connection, wanted, statement), connection)

  /** Makes a connection for a transaction of several statements. The settings are sent after the BEGIN. */
  const reservedConnection = (connection: Connection) =>
    connectionOf(
      (_, statement, sql) =>
        sql === "BEGIN" && configure !== undefined
          ? Effect.tap(statement(false), () => connection.query(configure, [], false))
          : statement(false),
      connection
    )

  return yield* SqlClient.make({
    acquirer: Effect.map(connections.get, alone),
    borrower: (use) => connections.use((connection) => use(alone(connection))),
    transactionAcquirer: Effect.map(connections.reserve, reservedConnection),
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

/** `options` has the address of the pooler. */
export const layer = (pool: Pool, connections: number, options: PgPool.Config) =>
  Layer.effect(
    SqlClient.SqlClient,
    make(pool, {
      ...options,
      // At a pooler, all pools have the same application name. Otherwise the pooler would set the name each time it gives a
      // session to a client of another pool.
      applicationName: "developer-api",
      maxConnections: connections,
      idleTimeout: Duration.minutes(1)
    })
  ).pipe(Layer.provide(Reactivity.layer))
