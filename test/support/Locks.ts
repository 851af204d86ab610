/** Locks that a test holds, and statements that wait for them. */
import { Deferred, Effect, Fiber } from "effect"
import type { SqlClient } from "effect/sql"
import { untilRows } from "./Waiting.ts"

/** Runs an effect in a transaction that stays open until `release`. */
export const holding = Effect.fnUntraced(function* <A, E, R>(sql: SqlClient.SqlClient, lock: Effect.Effect<A, E, R>) {
  const [held, released] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
  const transaction = yield* lock.pipe(
    Effect.andThen(Deferred.succeed(held, undefined)),
    Effect.andThen(Deferred.await(released)),
    sql.withTransaction,
    Effect.forkChild
  )
  yield* Deferred.await(held)
  return { release: Effect.andThen(Deferred.succeed(released, undefined), Fiber.join(transaction)) }
})

/** Holds the advisory lock of a name; `untilWaiting` waits until a statement waits for it. */
export const holdLock = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, name: string) {
  const { release } = yield* holding(sql, sql`SELECT pg_advisory_xact_lock(hashtext(${name}))`)
  const waiting = sql`
    SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = hashtext(${name})::oid AND NOT granted`
  return { release, untilWaiting: untilRows(Effect.orDie(waiting), (rows) => rows.length === 1) }
})

/** Waits, in a transaction, until a statement waits for it. */
export const untilBlocking = (sql: SqlClient.SqlClient) =>
  untilRows(
    Effect.orDie(sql`SELECT FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))`),
    (rows) => rows.length > 0
  )
