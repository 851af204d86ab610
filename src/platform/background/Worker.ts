/**
 * The identity of this process among the workers of one database, and the lock that proves that it is alive.
 *
 * A worker holds a session-level advisory lock, named by its id, on a connection of its own: PostgreSQL releases it when
 * the process or its host dies. Leases carry the id of their worker; a lease whose worker no longer holds its lock may be
 * taken over before it expires. A lease without an id ends by its time alone.
 *
 *   starting ── lock taken ──▶ alive ── connection lost ──▶ reconnecting ── lock taken ──▶ alive
 *
 * Two rules keep a short loss of connections from being read as a death:
 *  - a worker counts as dead only `graceAfterLoss` after this process last saw its lock;
 *  - a process judges others only after it has held its own lock for `graceAfterStart`, so that after a restart of the
 *    database all workers have time to take theirs.
 * A takeover that is wrong nevertheless does no harm beyond a repeated attempt, as every lease is fenced.
 *
 * Keys: an id of 63 bits is split over the two keys of `pg_advisory_lock_shared(int4, int4)`. PostgreSQL keeps locks of two
 * keys apart from locks of one (`objsubid` 2 and 1), so they never collide with those of projects and migrations. The
 * lock is shared, so that a new session takes it at once while the backend of a lost one still holds it.
 */
import { PgClient } from "@effect/sql-pg"
import { Clock, Context, Data, Duration, Effect, Latch, Layer, Schedule } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import { randomBytes } from "node:crypto"
import { clients } from "../database/Database.ts"
import { untraced } from "../telemetry/Telemetry.ts"
import { Supervisor } from "./Supervisor.ts"

const heartbeatEvery = Duration.millis(500)
const reconnectAfter = Duration.millis(100)
/** Covers a heartbeat of the observer, one of the worker that has to notice its loss, and the way to a new session. */
const graceAfterLoss = Duration.millis(1_500)
const graceAfterStart = Duration.millis(1_500)
const stalledAfter = Duration.seconds(15)
/** Maximum time for which a start waits for the lock. */
const startTimeout = Duration.seconds(5)

export class Worker extends Context.Service<
  Worker,
  {
    /** A random number of 63 bits, new with each start of the process. */
    readonly id: bigint
    /** Returns the id for leases; null while the lock is not held, as a lease with the id would be taken over at once. */
    readonly leaseId: () => bigint | null
    /** SQL condition: the worker in this column (bigint, null for none) has died. Reads pg_locks once per statement. */
    readonly isDead: (sql: SqlClient.SqlClient, column: Statement.Fragment) => Statement.Fragment
  }
>()("developer-api/platform/background/Worker") {
  static readonly layer = Layer.effect(
    Worker,
    Effect.suspend(() => make)
  )
}

/** This worker's lock is gone although its connection works. */
class LockLost extends Data.TaggedError("LockLost") {}

/** The ids of all workers that hold their lock. */
const liveIds = (sql: SqlClient.SqlClient) => sql`
  SELECT (classid::bigint << 32) | objid::bigint AS id FROM pg_locks
  WHERE locktype = 'advisory' AND objsubid = 2 AND granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`

const make = Effect.gen(function* () {
  const supervisor = yield* Supervisor
  const clock = yield* Clock.Clock
  const id = randomBytes(8).readBigUInt64BE() >> 1n
  /** When each lock was last seen, this worker's own included. Monotonic, in nanoseconds. */
  const seen = new Map<bigint, bigint>()
  let aliveSince: bigint | undefined
  const started = yield* Latch.make(false)

  const nanos = (duration: Duration.Duration) => BigInt(Duration.toMillis(duration)) * 1_000_000n
  const isOlder = (at: bigint, age: Duration.Duration) => clock.monotonicTimeNanosUnsafe() - at >= nanos(age)

  const heartbeat = Effect.fnUntraced(function* (sql: SqlClient.SqlClient) {
    const rows = yield* sql<{ readonly id: string }>`SELECT id::text FROM (${liveIds(sql)}) AS live`
    const live = rows.map((row) => BigInt(row.id))
    for (const id of live) seen.set(id, clock.monotonicTimeNanosUnsafe())
    for (const [id, at] of seen) if (isOlder(at, graceAfterLoss)) seen.delete(id)
    // The client opens another connection by itself, and that one holds no lock.
    if (!live.includes(id)) return yield* new LockLost()
  })

  /** Holds the lock until the connection breaks. */
  const session = Effect.fnUntraced(function* (progress: Effect.Effect<void>) {
    const client = Context.get(yield* Layer.build(Layer.fresh(clients.worker)), PgClient.PgClient)
    const [high, low] = [Number(id >> 32n), Number(BigInt.asIntN(32, id))]
    yield* client`SELECT pg_advisory_lock_shared(${high}::int, ${low}::int)`
    yield* heartbeat(client)
    aliveSince = clock.monotonicTimeNanosUnsafe()
    yield* started.open
    yield* Effect.andThen(progress, heartbeat(client)).pipe(
      Effect.repeat(Schedule.spaced(heartbeatEvery)),
      Effect.ensuring(Effect.sync(() => void (aliveSince = undefined)))
    )
  })

  yield* supervisor.supervise("worker liveness", { stalledAfter }, (progress) =>
    session(progress).pipe(
      Effect.scoped,
      Effect.catch((error) => Effect.logWarning("The lock of this worker is lost", error)),
      Effect.andThen(Effect.sleep(reconnectAfter)),
      Effect.forever,
      untraced
    )
  )
  yield* Effect.timeoutOption(started.await, startTimeout)

  const recent = () => [...seen].filter(([, at]) => !isOlder(at, graceAfterLoss)).map(([id]) => String(id))

  return {
    id,
    leaseId: () => (aliveSince === undefined ? null : id),
    isDead: (sql: SqlClient.SqlClient, column: Statement.Fragment) =>
      aliveSince === undefined || !isOlder(aliveSince, graceAfterStart)
        ? sql`false`
        : sql`(${column} <> ALL(${recent()}::bigint[]) AND ${column} NOT IN (${liveIds(sql)}))`
  }
})
