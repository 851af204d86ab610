/** PostgreSQL: where it is, the clients for requests and for operators, and how a request asks it. */
import { PgClient } from "@effect/sql-pg"
import { Context, Data, Duration, Effect, Fiber, Layer, Option, Predicate, Redacted, Schedule } from "effect"
import type { SqlError } from "effect/sql"
import { unescape } from "node:querystring"
import { ServiceUnavailable } from "../api/Problems.ts"
import * as DatabaseMetrics from "./DatabaseMetrics.ts"
import { watchedSocket } from "./DatabaseSocket.ts"
import { EmbeddedPostgres } from "./EmbeddedPostgres.ts"
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

/** How long a request waits for the database, connecting included, before it is told so (contract §15: within 5 s). */
const patience = Duration.seconds(4)

/** How long the statements of a request are waited for where they may take longer than others. */
export const Patience = Context.Reference<Duration.Duration>("developer-api/platform/Database/Patience", {
  defaultValue: () => patience
})

/**
 * What the database itself cuts, so that nothing goes on for a caller who has been told to come again. A statement that
 * waits for a row that long is sent again: those that are pipelined behind it, perhaps of other projects, go first.
 */
const limits = { lock_timeout: "200ms", statement_timeout: "3500ms" }

/** Longer than any statement may take: a connection that is silent for this long is dead. */
const silence = Duration.seconds(5)

/**
 * Statements of many requests are pipelined on few connections, so a request needs none of its own; four to a connection
 * keep enough backends busy that their commits share a flush.
 */
const pipelined = { multiplex: true, multiplexConcurrency: 4, startupParameters: limits }

const client = Effect.fnUntraced(function* (
  applicationName: string,
  maxConnections: number,
  options: Partial<PgClient.PgPoolConfig> = pipelined,
  longest = silence
) {
  const url = yield* DatabaseUrl
  const { hostname, pathname, port, searchParams } = new URL(Redacted.value(url))
  const server = { host: hostname.replace(/^\[(.*)\]$/, "$1"), port: Number(port || 5432) }
  const counted = yield* DatabaseMetrics.counted(applicationName, maxConnections)
  return PgClient.layer({
    url,
    applicationName,
    maxConnections,
    connectTimeout: patience,
    ...options,
    // The URL says the same, but the spans of statements tell of these alone.
    database: searchParams.get("dbname") ?? (unescape(pathname.slice(1)) || undefined),
    // Without a host it is a Unix socket, which can't fall silent.
    ...(hostname === "" ? {} : { ...server, stream: () => counted(watchedSocket(server.host, server.port, longest)) })
  })
})

/** The client of requests. */
export const layer = Layer.unwrap(
  Effect.flatMap(Settings, ({ databaseMaxConnections }) => client("developer-api", databaseMaxConnections))
)

/** The client of the background fibers: they wait behind no request, and no request behind them. */
export const backgroundLayer = Layer.unwrap(Effect.suspend(() => client("developer-api background", 4)))

/**
 * For statements that are planned once. With statistics of a short queue the planner would read it as a whole, or join all
 * with all, and go on so when the queue is long. These statements find every row by an index, from few others.
 */
const planned = {
  enable_seqscan: "off",
  enable_hashjoin: "off",
  enable_mergejoin: "off",
  plan_cache_mode: "force_generic_plan",
  jit: "off"
}

/** The client of the delivery loop. */
export const deliveriesLayer = Layer.unwrap(
  Effect.suspend(() =>
    client("developer-api deliveries", 4, { ...pipelined, startupParameters: { ...limits, ...planned } })
  )
)

/**
 * For statements that read many rows, and never change one. The planner guesses how many there are; where it guesses one
 * (of a project that has just come, before the statistics know of it) a nested loop of two tables would look at every
 * pair of their rows. Without nested loops a wrong guess costs little. One core, as others want the rest.
 */
const reports = {
  default_transaction_read_only: "on",
  enable_nestloop: "off",
  jit: "off",
  max_parallel_workers_per_gather: "0"
}

/** The client of requests that take a while: no other request waits behind them on a connection, or for one. */
export const reportLayer = Layer.unwrap(
  Effect.suspend(() => client("developer-api reports", 4, { startupParameters: { ...limits, ...reports } }))
)

/** How long the longest command may take: a caller waits no longer for an answer. */
export const bulkPatience = Duration.seconds(30)

/**
 * The client of commands that take seconds: one at a time on a connection, so that nobody waits behind them but others
 * like them. They sort and count much; what doesn't fit into this memory goes to disk. To compile such a statement takes
 * longer than that ever saves.
 */
export const bulkLayer = (maxConnections: number) =>
  Layer.unwrap(
    Effect.suspend(() =>
      client(
        "developer-api bulk",
        maxConnections,
        { startupParameters: { ...limits, statement_timeout: "29s", work_mem: "64MB", jit: "off" } },
        Duration.seconds(31)
      )
    )
  )

/** The client of what takes its time and may: nothing else waits behind it on its connection. */
export const maintenanceLayer = Layer.unwrap(Effect.suspend(() => client("developer-api maintenance", 1)))

/** The client of the sweep and of dead-lettering: their batches take longer than a claim may wait. */
export const deadLetteringLayer = Layer.unwrap(
  Effect.suspend(() =>
    client("developer-api dead-lettering", 1, { ...pipelined, startupParameters: { ...limits, ...planned } })
  )
)

/** The client of operators, for migrations and project files: it takes the time that they take. */
export const operatorLayer = Layer.unwrap(
  Effect.map(DatabaseUrl, (url) =>
    PgClient.layer({ url, applicationName: "developer-api operator", maxConnections: 2, connectTimeout: patience })
  )
)

/**
 * The client of a worker's lock (`background/Worker`): one connection, silent for no longer than a heartbeat. PostgreSQL
 * ends the session of a host that is lost after about five seconds, and its lock with it.
 */
export const workerLayer = Layer.unwrap(
  Effect.suspend(() =>
    client("developer-api worker", 1, {
      startupParameters: {
        ...limits,
        tcp_keepalives_idle: "2",
        tcp_keepalives_interval: "1",
        tcp_keepalives_count: "3"
      }
    })
  )
)

/** The client of those who wait for NOTIFY: a connection that is silent for as long as nothing happens. */
export const listenerLayer = Layer.unwrap(
  Effect.map(DatabaseUrl, (url) =>
    PgClient.layer({ url, applicationName: "developer-api listener", maxConnections: 1, connectTimeout: patience })
  )
)

/**
 * Nothing answered, or what answered is going away (57P01 to 57P03: shutting down, starting up), full
 * (class 53), or no longer the primary (25006): worth another try later.
 */
const isUnavailable = ({ reason }: SqlError.SqlError) =>
  reason._tag === "ConnectionError" ||
  reason._tag === "StatementTimeoutError" ||
  /^(57P0[1-3]|53...|25006)$/.test(Predicate.hasProperty(reason.cause, "code") ? String(reason.cause.code) : "")

const unavailable = () => new ServiceUnavailable({ detail: "The database does not answer. Send the request again." })

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

/** `Effect.timeoutOrElse` for every statement: one fiber, where that takes two and a race between them. */
const inTime = <A, R>(effect: Effect.Effect<A, ServiceUnavailable, R>): Effect.Effect<A, ServiceUnavailable, R> =>
  Effect.contextWith((context: Context.Context<R>) =>
    Effect.callback<A, ServiceUnavailable>((resume) => {
      const measured = DatabaseMetrics.begin(context)
      const fiber = Effect.runForkWith(context)(effect)
      const timer = setTimeout(
        () => {
          resume(Effect.fail(unavailable()))
          fiber.interruptUnsafe()
        },
        Duration.toMillis(Context.get(context, Patience))
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
