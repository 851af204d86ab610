import { Context, Effect, Layer, type Redacted, Schedule, type Scope } from "effect"
import * as Cluster from "./EmbeddedPostgres/Cluster.ts"
import * as Postmaster from "./EmbeddedPostgres/Postmaster.ts"
import { EmbeddedPostgresError, untilEnded } from "./EmbeddedPostgres/Processes.ts"
import * as Session from "./EmbeddedPostgres/Session.ts"

/**
 * The embedded PostgreSQL of an npm package. Processes with the same data directory share the server: the first one
 * starts it, each of them restarts it when it dies, and the last one stops it.
 */
export class EmbeddedPostgres extends Context.Service<
  EmbeddedPostgres,
  {
    /** `postgres://…@127.0.0.1:PORT/developer_api`. It stays valid when the server is restarted. */
    readonly url: Redacted.Redacted
  }
>()("developer-api/platform/EmbeddedPostgres") {
  static readonly layer = (options: Cluster.Options): Layer.Layer<EmbeddedPostgres, EmbeddedPostgresError> =>
    Layer.effect(
      EmbeddedPostgres,
      Effect.gen(function* () {
        const cluster = yield* Cluster.open(options)
        yield* Effect.addFinalizer(() => stopIfUnused(cluster))
        const server = yield* findOrStart(cluster)
        yield* Effect.forkScoped(supervise(cluster, server))
        return { url: Session.url(cluster, server) }
      })
    )
}

/** Finds or starts the server, and keeps a session open that shows other processes that this one uses it. */
const findOrStart = (
  cluster: Cluster.Cluster,
  port?: number
): Effect.Effect<Session.Server, EmbeddedPostgresError, Scope.Scope> =>
  Effect.gen(function* () {
    const server = yield* Postmaster.serve(cluster, port)
    if (port !== undefined && server.port !== port) {
      return yield* new EmbeddedPostgresError({
        reason: "Busy",
        message: `PostgreSQL was started on port ${server.port}, while it is expected here on ${port}`
      })
    }
    const session = yield* Session.join(cluster, server)
    yield* Session.createDatabase(session)
    return server
  }).pipe(
    // Another process may be starting or stopping the server, or its lock file may still exist.
    Effect.retry({
      while: ({ reason }) => reason === "Busy",
      schedule: Schedule.spaced("200 millis"),
      times: 100
    })
  )

/** Restarts the server when it has died, on the same port, so that clients keep their URL. */
const supervise = Effect.fnUntraced(function* (cluster: Cluster.Cluster, first: Session.Server) {
  const died = Effect.fnUntraced(function* ({ pid }: Session.Server) {
    yield* untilEnded(pid, "250 millis")
    yield* Effect.logWarning(`PostgreSQL (process ${pid}) has died and is started again; its log is ${cluster.log}`)
  })
  const comeBack = findOrStart(cluster, first.port).pipe(
    Effect.tapError(({ message }) => Effect.logWarning(message)),
    Effect.retry(Schedule.min([Schedule.exponential("500 millis"), Schedule.spaced("10 seconds")])),
    Effect.tap(({ pid, port }) => Effect.logInfo(`PostgreSQL is back on port ${port} (process ${pid})`))
  )
  yield* died(first)
  return yield* Effect.forever(Effect.scoped(Effect.flatMap(comeBack, died)))
})

/** Stops the server if no other process uses it. */
const stopIfUnused = (cluster: Cluster.Cluster): Effect.Effect<void> =>
  Effect.gen(function* () {
    const server = yield* Postmaster.running(cluster)
    if (server === undefined || (yield* Session.isUsedByOthers(cluster, server))) return
    yield* Postmaster.stop(server.pid)
  }).pipe(
    // Another process may be stopping it at this moment.
    Effect.retry({
      while: ({ reason }) => reason === "Busy",
      schedule: Schedule.spaced("200 millis"),
      times: 25
    }),
    Effect.catch(({ message }) => Effect.logWarning(`PostgreSQL may be left running: ${message}`))
  )
