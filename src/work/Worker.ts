/**
 * Gives this process an id among the workers of one database, and holds a lock that shows that the process is alive.
 *
 * A worker holds a session-level advisory lock for its id on a separate connection. PostgreSQL releases the lock when the
 * process or its host dies. A worker takes work by a lease, which has the id of the worker. If the worker no longer holds its
 * lock, the lease may be taken over before it expires. A lease without an id ends only when it expires.
 *
 *   starting ── lock taken ──▶ alive ── connection lost ──▶ reconnecting ── lock taken ──▶ alive
 *
 * A worker with a short loss of its connection does not count as dead, because of two rules:
 *  - A worker counts as dead only `graceAfterLoss` after this process last saw the worker's lock.
 *  - A process regards others as dead only after it has held its own lock for `graceAfterStart`. So after a restart of the
 *    database, all workers have time to take their locks.
 * The lock counts only where this process claims: each heartbeat also looks for it through the clients that claim. After a failover,
 * a session may be at a server that is a standby now, while the claims go to another one.
 *
 * If a lease is taken over wrongly nevertheless, the only harm is a repeated attempt, because the result of the old lease is
 * refused.
 *
 * The 63 bits of the id are split over the two keys of `pg_advisory_lock_shared(int4, int4)`. The locks of projects and
 * migrations have one key. PostgreSQL keeps both kinds apart (`objsubid` 2 and 1), so they never collide. The lock is shared, so
 * that a new session can take it while the backend of a lost session still holds it.
 */
import { PgClient } from "@effect/sql-pg"
import { Clock, Context, Data, Duration, Effect, Latch, Layer, Schedule } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import { randomBytes } from "node:crypto"
import { hostname } from "node:os"
import manifest from "../../package.json" with { type: "json" }
import { sqlClients } from "../sql/Connections.ts"
import { monotonicMillis } from "../platform/MonotonicTime.ts"
import { logOften } from "../telemetry/Logging.ts"
import { untraced } from "../telemetry/Telemetry.ts"
import { Supervisor } from "./Supervisor.ts"

const heartbeatEvery = Duration.millis(500)
const reconnectAfter = Duration.millis(100)
/**
 * Covers one heartbeat interval of the observer, one of the worker until it notices the loss, and the start of its new session.
 */
const graceAfterLoss = Duration.millis(1_500)
const graceAfterStart = Duration.millis(1_500)
/** Time without a heartbeat after which a worker that still has its lock counts as hung. */
const stalledAfter = Duration.seconds(15)
/** Maximum time for which the start of the process waits for the lock. After this time, the start continues without the lock. */
const startTimeout = Duration.seconds(5)

export class Worker extends Context.Service<
  Worker,
  {
    /** A number of 63 bits, new with each start of the process: `mark`, then 47 random bits. */
    readonly id: bigint
    /** Returns the id for leases. Null while the lock is not held, because a lease with the id would be taken over at once. */
    readonly leaseId: () => bigint | null
    /** Whether this worker has seen no other live worker in its last heartbeats. */
    readonly isOnly: () => boolean
    /** Whether this worker has the lowest id of all live workers. Used for work that only one worker of a database does. */
    readonly isFirst: () => boolean
    /**
     * Returns an SQL condition: the worker whose id is in `column` (bigint, nullable) is dead. Reads pg_locks once per
     * statement.
     */
    readonly isDead: (sql: SqlClient.SqlClient, column: Statement.Fragment) => Statement.Fragment
  }
>()("developer-api-service/work/Worker") {
  static readonly layer = (role: Role) =>
    Layer.effect(
      Worker,
      Effect.suspend(() => make(role))
    )
}

/** The role of a process with a worker: `all` also serves the API. */
type Role = "all" | "worker"

/** The first 16 bits of each worker's id. Ids that begin with other bits are locks of other programs, and no workers. */
const mark = 0x5d61n

/** The lock of this worker is gone or is at another server, although the client has a connection. */
class LockLost extends Data.TaggedError("LockLost") {}

/** Returns no id at a standby: no lock counts there. */
const liveAtPrimary = (sql: SqlClient.SqlClient) =>
  sql<{ readonly id: string }>`SELECT id::text FROM (${liveIds(sql)}) AS live WHERE NOT pg_is_in_recovery()`

/**
 * A query of all advisory locks with two keys in the database: the ids of the live workers, and any such locks of other
 * programs.
 */
const liveIds = (sql: SqlClient.SqlClient) => sql`
  SELECT (classid::bigint << 32) | objid::bigint AS id, pid FROM pg_locks
  WHERE locktype = 'advisory' AND objsubid = 2 AND granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`

/** Names the session of a worker, for `listWorkers`. PostgreSQL keeps 63 bytes of the name. */
const nameSession = (sql: SqlClient.SqlClient, role: Role) =>
  Effect.flatMap(Clock.currentTimeMillis, (now) => {
    const ahead = sql`nullif(round(${now}::float8 / 1000 - extract(epoch FROM clock_timestamp())::float8)::bigint, 0)`
    const rest = ` worker ${role} ${manifest.version} ${hostname()}`
    return sql`SELECT set_config('application_name', concat('developer-api', ${ahead}, ${rest}::text), false)`
  })

interface LiveWorker {
  readonly id: string
  readonly role: string
  readonly version: string
  readonly host: string
  readonly startedAt: Date
  /** The clock of its host minus the database's. */
  readonly aheadSeconds: number
  /** Seconds since the last heartbeat (`heartbeatEvery`); null if this role may not see the session of the worker's role. */
  readonly silentSeconds: number | null
  readonly isHung: boolean
}

/** Lists the workers that hold their lock in this database, the oldest first. */
export const listWorkers = (sql: SqlClient.SqlClient) => sql<LiveWorker>`
  SELECT to_hex(id) AS id, coalesce(word[3], 'unknown') AS role, coalesce(word[4], 'unknown') AS version,
    coalesce(word[5], 'unknown') AS host, "startedAt", "silentSeconds",
    coalesce(substring(word[1] FROM '^developer-api(-?[0-9]+)$')::float8, 0) AS "aheadSeconds",
    coalesce("silentSeconds" > ${Duration.toSeconds(stalledAfter)}::float8, false) AS "isHung"
  FROM (
    -- A session that was lost may hold the lock beside the one that replaced it.
    SELECT DISTINCT ON (live.id) live.id, string_to_array(application_name, ' ') AS word, backend_start AS "startedAt",
      abs(extract(epoch FROM clock_timestamp() - state_change))::float8 AS "silentSeconds"
    FROM (${liveIds(sql)}) AS live JOIN pg_stat_activity USING (pid)
    WHERE live.id >> 47 = ${String(mark)}::bigint
    ORDER BY live.id, backend_start DESC
  ) worker
  ORDER BY "startedAt", id`

const make = Effect.fnUntraced(function* (role: Role) {
  /** The client that claims. */
  const claims = Context.get(yield* Layer.build(sqlClients.workers), SqlClient.SqlClient)
  const supervisor = yield* Supervisor
  const clock = yield* Clock.Clock
  const id = (mark << 47n) | (randomBytes(8).readBigUInt64BE() >> 17n)
  /** The time at which each lock was last seen, including the lock of this worker. Monotonic, in milliseconds. */
  const seen = new Map<bigint, number>()
  let aliveSince: number | undefined
  const started = yield* Latch.make(false)

  const isOlder = (at: number, age: Duration.Duration) => monotonicMillis(clock) - at >= Duration.toMillis(age)

  const heartbeat = Effect.fnUntraced(function* (sql: SqlClient.SqlClient) {
    const rows = yield* liveAtPrimary(sql)
    const live = rows.map((row) => BigInt(row.id))
    for (const id of live) seen.set(id, monotonicMillis(clock))
    for (const [id, at] of seen) if (isOlder(at, graceAfterLoss)) seen.delete(id)
    // After a loss, the client opens another connection by itself. The new session does not hold the lock.
    if (!live.includes(id)) return yield* new LockLost()
  })

  /** Holds the lock until the connection breaks. */
  const session = Effect.fnUntraced(function* (progress: Effect.Effect<void>) {
    const client = Context.get(yield* Layer.build(Layer.fresh(sqlClients.worker)), PgClient.PgClient)
    const [high, low] = [Number(id >> 32n), Number(BigInt.asIntN(32, id))]
    yield* client`SELECT pg_advisory_lock_shared(${high}::int, ${low}::int)`
    const beat = Effect.all([nameSession(client, role), heartbeat(client), heartbeat(claims)])
    yield* beat
    aliveSince = monotonicMillis(clock)
    yield* started.open
    yield* Effect.andThen(progress, beat).pipe(
      Effect.repeat(Schedule.spaced(heartbeatEvery)),
      Effect.ensuring(Effect.sync(() => void (aliveSince = undefined)))
    )
  })

  // Outlives the other loops: without the lock, other workers would take over the work that these loops still return.
  yield* supervisor.supervise("worker liveness", { stalledAfter, outlives: true }, (progress) =>
    session(progress).pipe(
      Effect.scoped,
      Effect.catch((error) => logOften("The lock of this worker is lost", error)),
      Effect.andThen(Effect.sleep(reconnectAfter)),
      Effect.forever,
      untraced
    )
  )
  yield* Effect.timeoutOption(started.await, startTimeout)

  const recent = () => [...seen].filter(([, at]) => !isOlder(at, graceAfterLoss)).map(([id]) => String(id))

  /** Whether this worker is alive, and `holds` is true of each live worker. */
  const areAll = (holds: (other: bigint) => boolean) =>
    aliveSince !== undefined && [...seen.keys()].every((other) => holds(other) || other >> 47n !== mark)

  return {
    id,
    leaseId: () => (aliveSince === undefined ? null : id),
    isOnly: () => areAll((other) => other === id),
    isFirst: () => areAll((other) => other >= id),
    isDead: (sql: SqlClient.SqlClient, column: Statement.Fragment) =>
      aliveSince === undefined || !isOlder(aliveSince, graceAfterStart)
        ? sql`false`
        : sql`(${column} <> ALL(${recent()}::bigint[]) AND ${column} NOT IN (SELECT id FROM (${liveIds(sql)}) AS live))`
  }
})
