/** PostgreSQL: its URL, the clients of its pools (`Database/Pools.ts`), and the statements of requests. */
import { PgClient } from "@effect/sql-pg"
import { Context, Data, Duration, Effect, Fiber, Layer, Option, Predicate, Redacted, Schedule } from "effect"
import type { SqlError } from "effect/sql"
import { unescape } from "node:querystring"
import { ServiceUnavailable } from "../api/Problems.ts"
import * as DatabaseMetrics from "./DatabaseMetrics.ts"
import { watchedSocket } from "./DatabaseSocket.ts"
import { EmbeddedPostgres } from "./EmbeddedPostgres.ts"
import { optionsOf, type Pool, pools, type SharedPool, sizeOf } from "./Database/Pools.ts"
import { Settings } from "./Settings.ts"

/** Where the database is: `DATABASE_URL`, or the embedded one under `DATA_DIR`. */
export class DatabaseUrl extends Context.Service<DatabaseUrl, Redacted.Redacted>()(
  "developer-api/platform/DatabaseUrl"
) {
  static readonly layer = Layer.unwrap(
    Effect.map(Settings, ({ dataDir, databaseUrl }) =>
      Option.match(databaseUrl, {
        onSome: (url) => Layer.succeed(DatabaseUrl, url),
        onNone: () =>
          Layer.effect(
            DatabaseUrl,
            Effect.map(EmbeddedPostgres, ({ url }) => url)
          ).pipe(Layer.provide(EmbeddedPostgres.layer({ directory: dataDir })))
      })
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

const client = (pool: Pool, connections: number) =>
  Layer.unwrap(
    Effect.gen(function* () {
      const url = yield* DatabaseUrl
      const { hostname, pathname, port, searchParams } = new URL(Redacted.value(url))
      const server = { host: hostname.replace(/^\[(.*)\]$/, "$1"), port: Number(port || 5432) }
      const limit = pool.silence === undefined ? silence : pool.silence
      const counted = yield* DatabaseMetrics.counted(pool.name, connections)
      return PgClient.layer({
        url,
        connectTimeout: answerTime,
        ...optionsOf(pool, connections),
        // The URL says the same, but the spans of statements show these alone.
        database: searchParams.get("dbname") ?? (unescape(pathname.slice(1)) || undefined),
        // Without a host it is a Unix socket, which can't fall silent.
        ...(hostname === "" ? {} : { ...server, stream: () => counted(watchedSocket(server.host, server.port, limit)) })
      })
    })
  )

/** The client of a pool that takes its share of `DATABASE_MAX_CONNECTIONS`. */
const shared = (pool: SharedPool) =>
  Layer.unwrap(Effect.map(Settings, ({ databaseMaxConnections }) => client(pool, sizeOf(pool, databaseMaxConnections))))

/** The client of reads, and of all else that requests do. */
export const layer = shared(pools.reads)

/** The client of mutations, apart from the others': see `platform/idempotency/Mutations.ts`. */
export const mutationsLayer = shared(pools.mutations)

/** The client of the background fibers: they wait behind no request, and no request behind them. */
export const backgroundLayer = client(pools.background, pools.background.size)

/** The client of the delivery loop. */
export const deliveriesLayer = client(pools.deliveries, pools.deliveries.size)

/** The client of the delivery loop's claims. */
export const claimsLayer = client(pools.claims, pools.claims.size)

/** The client of requests that read many rows: no other request waits behind them on a connection, or for one. */
export const reportLayer = client(pools.reports, pools.reports.size)

/** Time that callers wait for the longest command. */
export const bulkTimeout = Duration.seconds(30)

/** The client of commands that take seconds. */
export const bulkLayer = client(pools.bulk, pools.bulk.size)

/** The client of pruning: nothing else waits behind it on its connection. */
export const maintenanceLayer = client(pools.maintenance, pools.maintenance.size)

/** The client of the sweep and of dead-lettering. */
export const deadLetteringLayer = client(pools.deadLettering, pools.deadLettering.size)

/** The client of operators, for migrations and project files: they take the time that they take. */
export const operatorLayer = client(pools.operator, pools.operator.size)

/** The client of a worker's lock (`background/Worker`). */
export const workerLayer = client(pools.worker, pools.worker.size)

/** The client of the listeners: a connection that is silent for as long as nothing happens. */
export const listenerLayer = client(pools.listener, pools.listener.size)

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

const again = Schedule.spaced(Duration.millis(25)).pipe(Schedule.jittered)

/**
 * Runs a request's statement. A database that can't be reached in time is a problem of the moment; any other failure
 * of SQL is a bug. Statements are pipelined, so one that expects to wait long for a lock asks with NOWAIT and is sent
 * again instead: those behind it on its connection don't wait with it.
 */
export const statement = <A, R>(
  effect: Effect.Effect<A, SqlError.SqlError | Contended, R>
): Effect.Effect<A, ServiceUnavailable, R> =>
  effect.pipe(
    // The schedule is made only for a statement that needs it.
    Effect.catchIf(isContended, () => Effect.delay(Effect.retry(effect, { while: isContended, schedule: again }), 25)),
    Effect.catchTags({
      Contended: Effect.die,
      SqlError: (error) => (isUnavailable(error) ? Effect.fail(unavailable()) : Effect.die(error))
    }),
    inTime
  )

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
    Effect.callback<A, E | ServiceUnavailable>((resume) => {
      const measured = DatabaseMetrics.begin(context)
      const fiber = Effect.runForkWith(context)(effect)
      const timer = setTimeout(
        () => {
          resume(Effect.fail(unavailable()))
          fiber.interruptUnsafe()
        },
        Duration.toMillis(Context.get(context, StatementTimeout))
      )
      fiber.addObserver((exit) => {
        clearTimeout(timer)
        measured()
        resume(exit)
      })
      return Effect.suspend(() => {
        clearTimeout(timer)
        return Fiber.interrupt(fiber)
      })
    })
  )
