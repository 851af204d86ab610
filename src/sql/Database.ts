/** Provides the URL of PostgreSQL and the clients of the pools (`platform/Pools.ts`), and runs the statements of requests. */
import { PgClient } from "@effect/sql-pg"
import { Context, Data, Duration, Effect, Exit, Fiber, Layer, Option, Predicate, Redacted, Schedule } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import { unescape } from "node:querystring"
import { ServiceUnavailable } from "../api/Problems.ts"
import { CurrentRequest } from "../platform/CurrentRequest.ts"
import * as DatabaseMetrics from "./Database/Metrics.ts"
import { makeSockets, type Sockets, watchedSocket } from "./Database/Socket.ts"
import { EmbeddedPostgres } from "./embedded/EmbeddedPostgres.ts"
import * as Client from "./Database/Client.ts"
import {
  defaultConnections,
  optionsOf,
  pooledOptions,
  type Pool,
  type PoolId,
  pools,
  sizesOf
} from "../platform/Pools.ts"
import { monotonicMillis } from "../platform/MonotonicTime.ts"
import { Settings } from "../platform/Settings.ts"

/** Settings of the connections in addition to `DatabaseUrl`. */
const Connections = Context.Reference<{
  /** The URL of PostgreSQL itself, if `DatabaseUrl` is a pooler. */
  readonly directUrl: Option.Option<Redacted.Redacted>
  /** Maximum number of connections, over all pools. */
  readonly max: number
  readonly sockets: Sockets
}>("developer-api/sql/Database/Connections", {
  defaultValue: () => ({ directUrl: Option.none(), max: defaultConnections, sockets: makeSockets() })
})

/** The URL of the database: `DATABASE_URL`, or the URL of the embedded PostgreSQL. The layers also provide `Connections`. */
export class DatabaseUrl extends Context.Service<DatabaseUrl, Redacted.Redacted>()(
  "developer-api/platform/DatabaseUrl"
) {
  /** Provides a database other than the one in the settings. */
  static readonly at = (url: Redacted.Redacted) =>
    Layer.merge(
      Layer.succeed(DatabaseUrl, url),
      Layer.sync(Connections, () => ({ directUrl: Option.none(), max: defaultConnections, sockets: makeSockets() }))
    )

  /** Without `mayCreate` an embedded database has to exist. */
  static readonly layer = (usedBy: "service" | "command", mayCreate = true) =>
    Layer.unwrap(
      Effect.map(Settings, ({ dataDir, databaseDirectUrl, databaseMaxConnections, databaseUrl }) =>
        Option.match(databaseUrl, {
          onSome: (url) => Layer.succeed(DatabaseUrl, url),
          onNone: () =>
            Layer.effect(
              DatabaseUrl,
              Effect.map(EmbeddedPostgres, ({ url }) => url)
            ).pipe(Layer.provide(EmbeddedPostgres.layer({ directory: dataDir, usedBy, mayCreate })))
        }).pipe(
          Layer.merge(
            Layer.sync(Connections, () => ({
              directUrl: databaseDirectUrl,
              max: databaseMaxConnections,
              sockets: makeSockets()
            }))
          )
        )
      )
    )
}

/**
 * Maximum time that a request waits for the database: in queues, for connections and for statements, all together. A request
 * that fails has to be answered within 5 s (contract §15).
 */
const requestTimeout = Duration.seconds(4)

/** Maximum time that a caller waits for statements. Long-running mutations have a longer time (`longRunningTimeout`). */
export const StatementTimeout = Context.Reference<Duration.Duration>("developer-api/sql/Database/StatementTimeout", {
  defaultValue: () => requestTimeout
})

/**
 * Returns how long a caller still waits, in milliseconds. In a request, the `StatementTimeout` counts from the arrival of the
 * request. Outside a request, each statement has the whole time.
 */
export const timeLeft = (context: Context.Context<never>): number => {
  const timeout = Duration.toMillis(Context.get(context, StatementTimeout))
  const { arrivedAt } = Context.get(context, CurrentRequest)
  return arrivedAt === undefined ? timeout : Math.max(0, timeout - (performance.now() - arrivedAt))
}

/**
 * Time without an answer after which a connection counts as dead, for pools that set no time of their own. It is longer than the
 * `statement_timeout` of those pools.
 */
const deadAfter = Duration.seconds(5)

/**
 * Returns the driver's options for a pool: the address, and over TCP a `stream` that counts connections, ends dead ones, and can
 * end all of them.
 */
const addressOf = Effect.fnUntraced(function* (url: Redacted.Redacted, id: PoolId, limit: Duration.Duration | null) {
  const { hostname, pathname, port, searchParams } = new URL(Redacted.value(url))
  const server = { host: hostname.replace(/^\[(.*)\]$/, "$1"), port: Number(port || 5432) }
  const { max, sockets } = yield* Connections
  const counted = yield* DatabaseMetrics.countConnections(pools[id].name, sizesOf(max)[id])
  return {
    url,
    connectTimeout: requestTimeout,
    // The URL also contains the database, but the driver copies only separate options into the spans of statements.
    database: searchParams.get("dbname") ?? (unescape(pathname.slice(1)) || undefined),
    // A URL without a host names a Unix socket. It needs no watching, because its server is on this machine.
    ...(hostname === ""
      ? {}
      : { ...server, stream: () => sockets.add(counted(watchedSocket(server.host, server.port, limit))) })
  }
})

/**
 * Provides a client with one connection of the pool `direct`, which counts as dead after `deadAfter` without an answer (null:
 * never). The client connects to PostgreSQL itself even if there is a pooler.
 */
const direct = (deadAfter: Duration.Duration | null) =>
  Layer.unwrap(
    Effect.gen(function* () {
      const { directUrl } = yield* Connections
      const pooled = yield* DatabaseUrl
      const address = yield* addressOf(
        Option.getOrElse(directUrl, () => pooled),
        "direct",
        deadAfter
      )
      return PgClient.layer({ ...address, ...optionsOf(pools.direct, 1) })
    })
  )

/** Provides the client of a pool whose statements need no session. The client connects to the pooler if there is one. */
const client = (id: Exclude<PoolId, "direct">): Layer.Layer<SqlClient.SqlClient, SqlError.SqlError, DatabaseUrl> =>
  Layer.unwrap(
    Effect.gen(function* () {
      const { directUrl, max, sockets } = yield* Connections
      const [pool, connections]: [Pool, number] = [pools[id], sizesOf(max)[id]]
      const address = yield* addressOf(yield* DatabaseUrl, id, pool.deadAfter ?? deadAfter)
      const isPooled = Option.isSome(directUrl)
      const options = isPooled ? pooledOptions(connections) : optionsOf(pool, connections)
      return Client.layer(pool, { ...address, ...options, isPooled, onStandby: sockets.replace })
    })
  )

/** Returns the maximum number of statements that a pool has in flight. */
export const capacityOf = (id: PoolId): Effect.Effect<number> =>
  Effect.map(Connections, ({ directUrl, max }) => {
    const pool: Pool = pools[id]
    return sizesOf(max)[id] * (Option.isNone(directUrl) ? (pool.pipelined ?? 1) : 1)
  })

export const clients = {
  reads: client("reads"),
  mutations: client("mutations"),
  workers: client("workers"),
  reports: client("reports"),
  // PostgreSQL answers the statements of the listener at once. While a connection only listens, no answer is due.
  listener: direct(Duration.seconds(2)),
  worker: direct(deadAfter),
  operator: direct(null)
}

export const longRunningTimeout = Duration.seconds(30)

/**
 * Whether a later attempt may succeed, as in these cases: the connection failed; the statement timed out; PostgreSQL has ended
 * the session or is starting up (57P01 to 57P05), is out of resources (class 53), or is no longer the primary (25006).
 */
export const isUnavailable = ({ reason }: SqlError.SqlError) =>
  reason._tag === "ConnectionError" ||
  reason._tag === "StatementTimeoutError" ||
  /^(57P0[1-5]|53...|25006)$/.test(codeOf(reason))

const codeOf = ({ cause }: SqlError.SqlError["reason"]) =>
  Predicate.hasProperty(cause, "code") ? String(cause.code) : ""

export const unavailable = () => new ServiceUnavailable()

/** A statement changed nothing because of concurrent statements, or because its project is locked. A retry may succeed. */
export class Contended extends Data.TaggedError("Contended") {}

const isContended = (error: SqlError.SqlError | Contended): boolean =>
  error._tag === "Contended" || contentions.has(error.reason._tag) || codeOf(error.reason) === foreignKeyViolation

/**
 * Errors that concurrent statements cause. After a unique violation, the retry finds the record that was created concurrently. After
 * a violation of a foreign key, it finds that the client was erased, or the reference to the client that is being erased.
 */
const contentions = new Set<string>(["LockTimeoutError", "DeadlockError", "SerializationError", "UniqueViolation"])

const foreignKeyViolation = "23503"

/** Maximum time that a mutation waits while its project is locked. The mutation has to be answered within 2 s (contract §12). */
const projectFileTimeout = Duration.millis(1_750)

/**
 * A project file is being applied, or the project is being moved to another database. Nothing was changed, and no provider was
 * called.
 */
export class ProjectLocked extends ServiceUnavailable {}

const projectLocked = () =>
  new ProjectLocked({
    detail: "The project is locked while a project file is applied or it is moved. Send the request again."
  })

const contentionSchedule = Schedule.spaced(Duration.millis(25)).pipe(Schedule.jittered)

/**
 * Runs a statement of a request. Fails with `ServiceUnavailable` if the database is unavailable or does not answer in time, or
 * if the project is locked. Any other failure of SQL is a defect.
 *
 * A connection runs pipelined statements one after the other. A statement that waits for a lock would hold up those behind it.
 * It therefore fails soon (`lock_timeout`), and is sent again behind them, until the request has no time left.
 */
export const statement = <A, R>(
  effect: Effect.Effect<A, SqlError.SqlError | Contended, R>
): Effect.Effect<A, ServiceUnavailable, R> => withTimeout(retryContended(effect))

/** Like `statement`, but without a timeout: for background work, and for statements that `startWithTimeout` limits. */
export const retryContended = <A, R>(
  effect: Effect.Effect<A, SqlError.SqlError | Contended, R>
): Effect.Effect<A, ServiceUnavailable, R> =>
  effect.pipe(
    // Most statements succeed at once, so the schedule is made only after a failure.
    Effect.catchIf(isContended, () => Effect.delay(retryWhileContended(effect), 25)),
    Effect.catchTags({
      Contended: () => Effect.fail(projectLocked()),
      SqlError: failOrDie
    })
  )

/**
 * Fails with `ServiceUnavailable` if a later attempt may succeed, or if no connection can be opened (for example, because the
 * password has changed). Any other failure is a defect. In a request, the access log has the reason. Outside a request, this
 * function logs the reason.
 */
const failOrDie = (error: SqlError.SqlError): Effect.Effect<never, ServiceUnavailable> =>
  isUnavailable(error) || error.reason.operation === "connect"
    ? Effect.flatMap(CurrentRequest, (current) => {
        const failed = Effect.fail(unavailable())
        if (current.arrivedAt === undefined) {
          return Effect.andThen(Effect.logWarning("The database can't be used", error), failed)
        }
        current.outage = error
        return failed
      })
    : Effect.die(error)

/**
 * Repeats a statement while it fails because of concurrent statements (errors of SQL), or because its project is locked
 * (`Contended`). A locked project is waited for at most `projectFileTimeout`. Errors of SQL have no limit of their own.
 */
const retryWhileContended = <A, R>(effect: Effect.Effect<A, SqlError.SqlError | Contended, R>) =>
  Effect.clockWith((clock) => {
    const end = monotonicMillis(clock) + Duration.toMillis(projectFileTimeout)
    const isWaiting = (error: SqlError.SqlError | Contended) =>
      isContended(error) && (error._tag !== "Contended" || monotonicMillis(clock) < end)
    return Effect.retry(effect, { while: isWaiting, schedule: contentionSchedule })
  })

/** Like `retryContended`, but without a retry: errors that concurrent statements cause become `Contended`. */
export const once = <A, R>(
  effect: Effect.Effect<A, SqlError.SqlError, R>
): Effect.Effect<A, Contended | ServiceUnavailable, R> =>
  Effect.catch(effect, (error): Effect.Effect<never, Contended | ServiceUnavailable> =>
    isContended(error) ? Effect.fail(new Contended()) : failOrDie(error)
  )

/** Ends a statement when its context has no time left. Costs less than `Effect.timeoutOrElse`, which races two fibers. */
export const withTimeout = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E | ServiceUnavailable, R> =>
  Effect.contextWith((context: Context.Context<R>) =>
    Effect.callback<A, E | ServiceUnavailable>((resume) => Effect.suspend(startWithTimeout(effect, context, resume)))
  )

/**
 * Starts a statement in a new fiber, and interrupts it when its context has no time left. Calls `onExit` exactly once. Returns a
 * function that interrupts the statement.
 */
export const startWithTimeout = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  context: Context.Context<R>,
  onExit: (exit: Exit.Exit<A, E | ServiceUnavailable>) => void
): (() => Effect.Effect<void>) => {
  const measured = DatabaseMetrics.begin(context)
  const fiber = Effect.runForkWith(context)(effect)
  let late = false
  const timer = setTimeout(() => {
    late = true
    onExit(Exit.fail(unavailable()))
    fiber.interruptUnsafe()
  }, timeLeft(context))
  fiber.addObserver((exit) => {
    clearTimeout(timer)
    measured()
    if (!late) onExit(exit)
  })
  return () => {
    clearTimeout(timer)
    return Fiber.interrupt(fiber)
  }
}
