/** PostgreSQL: its URL, the clients of its pools (`Database/Pools.ts`), and the statements of requests. */
import { PgClient } from "@effect/sql-pg"
import { Context, Data, Duration, Effect, Exit, Fiber, Layer, Option, Predicate, Redacted, Schedule } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import { unescape } from "node:querystring"
import { ServiceUnavailable } from "../api/Problems.ts"
import * as DatabaseMetrics from "./DatabaseMetrics.ts"
import { watchedSocket } from "./DatabaseSocket.ts"
import { EmbeddedPostgres } from "./EmbeddedPostgres.ts"
import * as Pooler from "./Database/Pooler.ts"
import { defaultConnections, optionsOf, type Pool, type PoolId, pools, sizesOf } from "./Database/Pools.ts"
import { Settings } from "./Settings.ts"

/** How the process connects to the database. */
const Connections = Context.Reference<{
  /** None: the database's URL leads to PostgreSQL itself. Some: that one leads to a pooler, and this one past it. */
  readonly directUrl: Option.Option<Redacted.Redacted>
  /** Most connections of all pools together. */
  readonly max: number
}>("developer-api/platform/Database/Connections", {
  defaultValue: () => ({ directUrl: Option.none(), max: defaultConnections })
})

/** Where the database is: `DATABASE_URL`, or the embedded one under `DATA_DIR`; and how to connect to it. */
export class DatabaseUrl extends Context.Service<DatabaseUrl, Redacted.Redacted>()(
  "developer-api/platform/DatabaseUrl"
) {
  static readonly layer = Layer.unwrap(
    Effect.map(Settings, ({ dataDir, databaseDirectUrl, databaseMaxConnections, databaseUrl }) =>
      Option.match(databaseUrl, {
        onSome: (url) => Layer.succeed(DatabaseUrl, url),
        onNone: () =>
          Layer.effect(
            DatabaseUrl,
            Effect.map(EmbeddedPostgres, ({ url }) => url)
          ).pipe(Layer.provide(EmbeddedPostgres.layer({ directory: dataDir })))
      }).pipe(Layer.merge(Layer.succeed(Connections, { directUrl: databaseDirectUrl, max: databaseMaxConnections })))
    )
  )
}

/** Time that a request waits for the database, connecting included, before it fails (contract §15: within 5 s). */
const answerTime = Duration.seconds(4)

/** Time that callers wait for a statement; longer for those that may take longer. */
export const StatementTimeout = Context.Reference<Duration.Duration>(
  "developer-api/platform/Database/StatementTimeout",
  {
    defaultValue: () => answerTime
  }
)

/** Longer than any statement of a request may take: a connection that answers nothing for this long is dead. */
const silence = Duration.seconds(5)

/** The driver's options that say where a pool connects to, and count and watch its connections. */
const addressOf = Effect.fnUntraced(function* (url: Redacted.Redacted, pool: Pool, connections: number) {
  const { hostname, pathname, port, searchParams } = new URL(Redacted.value(url))
  const server = { host: hostname.replace(/^\[(.*)\]$/, "$1"), port: Number(port || 5432) }
  const limit = pool.silence === undefined ? silence : pool.silence
  const counted = yield* DatabaseMetrics.counted(pool.name, connections)
  return {
    url,
    connectTimeout: answerTime,
    // The URL says the same, but the spans of statements show these alone.
    database: searchParams.get("dbname") ?? (unescape(pathname.slice(1)) || undefined),
    // Without a host it is a Unix socket, which can't fall silent.
    ...(hostname === "" ? {} : { ...server, stream: () => counted(watchedSocket(server.host, server.port, limit)) })
  }
})

/** The client of a pool that needs sessions of its own: it connects to PostgreSQL itself. */
const direct = (id: PoolId) =>
  Layer.unwrap(
    Effect.gen(function* () {
      const { directUrl, max } = yield* Connections
      const pooled = yield* DatabaseUrl
      const [pool, connections]: [Pool, number] = [pools[id], sizesOf(max)[id]]
      const url = Option.getOrElse(directUrl, () => pooled)
      const address = yield* addressOf(url, pool, connections)
      return PgClient.layer({ ...address, ...optionsOf(pool, connections) })
    })
  )

/** The client of a pool whose statements stand alone: through the pooler, where there is one. */
const client = (id: PoolId): Layer.Layer<SqlClient.SqlClient, SqlError.SqlError, DatabaseUrl> =>
  Layer.unwrap(
    Effect.gen(function* () {
      const { directUrl, max } = yield* Connections
      if (Option.isNone(directUrl)) return direct(id)
      const [pool, connections]: [Pool, number] = [pools[id], sizesOf(max)[id]]
      return Pooler.layer(pool, connections, yield* addressOf(yield* DatabaseUrl, pool, connections))
    })
  )

/** How many statements a pool has under way at once. */
export const capacityOf = (id: PoolId): Effect.Effect<number> =>
  Effect.map(Connections, ({ directUrl, max }) => {
    const pool: Pool = pools[id]
    return sizesOf(max)[id] * (Option.isNone(directUrl) ? (pool.pipelined ?? 1) : 1)
  })

/** The client of reads, and of all else that requests do. */
export const layer = client("reads")

/** The client of mutations, apart from the others': see `platform/idempotency/Mutations.ts`. */
export const mutationsLayer = client("mutations")

/** The client of the background fibers: they wait behind no request, and no request behind them. */
export const backgroundLayer = client("background")

/** The client of the delivery loop. */
export const deliveriesLayer = client("deliveries")

/** The client of the delivery loop's claims. */
export const claimsLayer = client("claims")

/** The client of requests that read many rows: no other request waits behind them on a connection, or for one. */
export const reportLayer = client("reports")

/** Time that callers wait for the longest command. */
export const bulkTimeout = Duration.seconds(30)

/** The client of commands that take seconds. */
export const bulkLayer = client("bulk")

/** The client of pruning: nothing else waits behind it on its connection. */
export const maintenanceLayer = client("maintenance")

/** The client of the sweep and of dead-lettering. */
export const deadLetteringLayer = client("deadLettering")

/** The client of operators, for migrations and project files: they take the time that they take. */
export const operatorLayer = direct("operator")

/** The client of a worker's lock (`background/Worker`). */
export const workerLayer = direct("worker")

/** The client of the listeners: a connection that is silent for as long as nothing happens. */
export const listenerLayer = direct("listener")

/**
 * Nothing answered, or what answered is going away (57P01 to 57P03: shutting down, starting up), full
 * (class 53), or no longer the primary (25006): worth another try later.
 */
const isUnavailable = ({ reason }: SqlError.SqlError) =>
  reason._tag === "ConnectionError" ||
  reason._tag === "StatementTimeoutError" ||
  /^(57P0[1-3]|53...|25006)$/.test(Predicate.hasProperty(reason.cause, "code") ? String(reason.cause.code) : "")

export const unavailable = () =>
  new ServiceUnavailable({ detail: "The database does not answer. Send the request again." })

/** What a statement says that did nothing because of what others do at the same time. */
export class Contended extends Data.TaggedError("Contended") {}

/** Rolled back, or not done, because of what others do at the same time: another try may well pass. */
const isContended = (error: SqlError.SqlError | Contended): boolean =>
  error._tag === "Contended" || contentions.has(error.reason._tag)

/** Of two that make the same record at once, the one that fails sees it when it looks again. */
const contentions = new Set<string>(["LockTimeoutError", "DeadlockError", "SerializationError", "UniqueViolation"])

/** Time that a mutation waits for a project file to be through, so that it is answered within 2 s (contract §12). */
const fileTime = Duration.millis(1_750)

/** The project is locked as a whole: nothing was done, and nothing was called. */
export class ProjectLocked extends ServiceUnavailable {}

const projectLocked = () =>
  new ProjectLocked({ detail: "A project file is being applied to this project. Send the request again." })

const again = Schedule.spaced(Duration.millis(25)).pipe(Schedule.jittered)

/**
 * Runs a request's statement. A database that can't be reached in time is a problem of the moment; any other failure
 * of SQL is a bug. Statements are pipelined, so one that expects to wait long for a lock asks with NOWAIT and is sent
 * again instead: those behind it on its connection don't wait with it.
 */
export const statement = <A, R>(
  effect: Effect.Effect<A, SqlError.SqlError | Contended, R>
): Effect.Effect<A, ServiceUnavailable, R> => inTime(retried(effect))

/** `statement` without the bound of its time, for `startInTime`. */
export const retried = <A, R>(
  effect: Effect.Effect<A, SqlError.SqlError | Contended, R>
): Effect.Effect<A, ServiceUnavailable, R> =>
  effect.pipe(
    // The schedule is made only for a statement that needs it.
    Effect.catchIf(isContended, () => Effect.delay(patiently(effect), 25)),
    Effect.catchTags({
      Contended: () => Effect.fail(projectLocked()),
      SqlError: (error) => (isUnavailable(error) ? Effect.fail(unavailable()) : Effect.die(error))
    })
  )

/** Sends a statement again for as long as it is contended; for `fileTime` where the project is locked. */
const patiently = <A, R>(effect: Effect.Effect<A, SqlError.SqlError | Contended, R>) =>
  Effect.clockWith((clock) => {
    const end = clock.currentTimeMillisUnsafe() + Duration.toMillis(fileTime)
    const isWaiting = (error: SqlError.SqlError | Contended) =>
      isContended(error) && (error._tag !== "Contended" || clock.currentTimeMillisUnsafe() < end)
    return Effect.retry(effect, { while: isWaiting, schedule: again })
  })

/** Runs a statement like `statement`, but once: one that is contended fails. */
export const once = <A, R>(
  effect: Effect.Effect<A, SqlError.SqlError, R>
): Effect.Effect<A, Contended | ServiceUnavailable, R> =>
  inTime(
    Effect.catch(effect, (error): Effect.Effect<never, Contended | ServiceUnavailable> => {
      if (isContended(error)) return Effect.fail(new Contended())
      return isUnavailable(error) ? Effect.fail(unavailable()) : Effect.die(error)
    })
  )

/** `Effect.timeoutOrElse` for every statement: one fiber, where that takes two and a race between them. */
const inTime = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E | ServiceUnavailable, R> =>
  Effect.contextWith((context: Context.Context<R>) =>
    Effect.callback<A, E | ServiceUnavailable>((resume) => Effect.suspend(startInTime(effect, context, resume)))
  )

/**
 * Starts a statement in a fiber of its own, and ends it after the `StatementTimeout` of its context. Calls `onExit` once.
 * Returns a function that interrupts it.
 */
export const startInTime = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  context: Context.Context<R>,
  onExit: (exit: Exit.Exit<A, E | ServiceUnavailable>) => void
): (() => Effect.Effect<void>) => {
  const measured = DatabaseMetrics.begin(context)
  const fiber = Effect.runForkWith(context)(effect)
  let late = false
  const timer = setTimeout(
    () => {
      late = true
      onExit(Exit.fail(unavailable()))
      fiber.interruptUnsafe()
    },
    Duration.toMillis(Context.get(context, StatementTimeout))
  )
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
