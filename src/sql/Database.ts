/** Runs the statements of requests and of background work: their timeout, their retry while they are contended, and their problems. */
import { Context, Data, Duration, Effect, Exit, Fiber, Predicate, Schedule } from "effect"
import { type SqlClient, SqlError } from "effect/sql"
import { ServiceUnavailable } from "../api/Problems.ts"
import { CurrentRequest } from "../platform/CurrentRequest.ts"
import { monotonicMillis } from "../platform/MonotonicTime.ts"
import { logOften } from "../telemetry/Logging.ts"
import { gauge, histogram, MetricsEnabled } from "../telemetry/Telemetry.ts"

/**
 * Maximum time that a request waits for the database: in queues, for connections and for statements, all together. A request
 * that fails has to be answered within 5 s (contract §15).
 */
export const requestTimeout = Duration.seconds(4)

/** Maximum time that a caller waits for statements. Long-running mutations have a longer time (`longRunningTimeout`). */
export const StatementTimeout = Context.Reference<Duration.Duration>(
  "developer-api-service/sql/Database/StatementTimeout",
  {
    defaultValue: () => requestTimeout
  }
)

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
 * Runs a part of a request, such as a call to a provider. Each SQL statement of this part may take the whole `StatementTimeout`,
 * however long the request has run.
 */
export const withOwnTime = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.updateService(effect, CurrentRequest, (request) => ({ ...request, arrivedAt: undefined }))

export const longRunningTimeout = Duration.seconds(30)

/**
 * Whether a later attempt may succeed, as in these cases: the connection failed; the statement timed out; PostgreSQL has ended
 * the session or is starting up (57P01 to 57P05), is out of resources (class 53), or is no longer the primary (25006).
 */
export const isUnavailable = ({ reason }: SqlError.SqlError) =>
  reason._tag === "ConnectionError" ||
  reason._tag === "StatementTimeoutError" ||
  /^(57P0[1-5]|53...|25006)$/.test(codeOf(reason))

export const isDiskFull = ({ reason }: SqlError.SqlError) => codeOf(reason) === "53100"

/** When a statement of this process last failed because the disk was full, in milliseconds of `performance.now()`. */
export const diskFull = { at: -Infinity }

const codeOf = ({ cause }: SqlError.SqlError["reason"]) =>
  Predicate.hasProperty(cause, "code") ? String(cause.code) : ""

export const unavailable = () => new ServiceUnavailable()

/** A statement changed nothing because of concurrent statements, or because its project is locked. A retry may succeed. */
export class Contended extends Data.TaggedError("Contended") {
  override readonly message = "Other statements hold the locks that this one needs."
}

const isContended = (error: SqlError.SqlError | Contended): boolean =>
  error._tag === "Contended" || contentions.has(error.reason._tag) || codeOf(error.reason) === foreignKeyViolation

/**
 * Errors that concurrent statements cause. After a unique violation, the retry finds the record that was created concurrently. After
 * a violation of a foreign key, it finds that the client was erased; the erase of a client finds the reference that was added.
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
        if (isDiskFull(error)) diskFull.at = performance.now()
        const failed = Effect.fail(unavailable())
        if (current.arrivedAt === undefined) {
          return Effect.andThen(logOften("The database can't be used", error), failed)
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
  effect: Effect.Effect<A, SqlError.SqlError | ServiceUnavailable, R>
): Effect.Effect<A, Contended | ServiceUnavailable, R> =>
  Effect.catchTag(effect, "SqlError", (error): Effect.Effect<never, Contended | ServiceUnavailable> =>
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
  const measured = measure(context)
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

const inFlight = gauge("db_client_statements_in_flight", "Statements that are sent or wait for a connection")

/** The boundaries, in seconds, are those of OpenTelemetry's semantic conventions for databases. */
const duration = histogram(
  "db_client_operation_duration_seconds",
  "Duration of statements, including the wait for a connection",
  [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10]
)

/** Measures a statement from now on, until the returned function is called. */
const measure = (context: Context.Context<never>): (() => void) => {
  if (!Context.get(context, MetricsEnabled)) return () => {}
  const began = performance.now()
  inFlight.modifyUnsafe(1, context)
  return () => {
    inFlight.modifyUnsafe(-1, context)
    duration.updateUnsafe((performance.now() - began) / 1000, context)
  }
}

/** An SQL expression for the identity of the database, which a failover keeps: that of its cluster, and its name there. */
export const databaseIdentity = (sql: SqlClient.SqlClient) =>
  sql`concat_ws('/', (SELECT system_identifier FROM pg_control_system()), current_database())`

/** Returns the message of the innermost cause: of PostgreSQL, or of the connection to it, such as `connect ECONNREFUSED 127.0.0.1:5432`. */
export const reasonOf = (error: unknown): string => {
  if (error instanceof SqlError.SqlError) return reasonOf(error.reason.cause)
  return error instanceof Error && error.message !== "" ? error.message : String(error)
}
