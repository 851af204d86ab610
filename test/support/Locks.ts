/** Locks that a test holds, and statements that wait for them. */
import { Deferred, Effect, Fiber } from "effect"
import type { SqlClient } from "effect/sql"
import { untilRows } from "./Waiting.ts"

/** The tables whose rows background work reads with a lock or changes. `Statements.test.ts` compares it with the statements. */
export const workedOn = [
  "projects",
  "channels",
  "clients",
  "client_addresses",
  "conversations",
  "templates",
  "messages",
  "campaigns",
  "audiences",
  "campaign_recipients",
  "idempotency_keys",
  "deliveries",
  "endpoint_health",
  "webhooks",
  "webhook_secrets",
  "events",
  "replays",
  "erasures",
  "attempt_minutes"
] as const

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

/**
 * Runs a statement that waits for the advisory lock of a name, and a change while it waits: the change is committed before the
 * statement goes on, and after its snapshot. Both together need two connections.
 */
export const changedMeanwhile = Effect.fnUntraced(function* <A, E, R, E2, R2>(
  sql: SqlClient.SqlClient,
  name: string,
  statement: Effect.Effect<A, E, R>,
  change: Effect.Effect<unknown, E2, R2>
) {
  const waiting = sql`
    SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = hashtext(${name})::oid AND NOT granted`
  const locked = yield* Deferred.make<void>()
  const changing = yield* sql`SELECT pg_advisory_xact_lock(hashtext(${name}))`.pipe(
    Effect.andThen(Deferred.succeed(locked, undefined)),
    Effect.andThen(untilRows(Effect.orDie(waiting), (rows) => rows.length > 0)),
    Effect.andThen(change),
    sql.withTransaction,
    Effect.forkChild
  )
  yield* Deferred.await(locked)
  const found = yield* statement
  yield* Fiber.join(changing)
  return found
})

/** Waits, in a transaction, until a statement waits for it. */
export const untilBlocking = (sql: SqlClient.SqlClient) =>
  untilRows(
    Effect.orDie(sql`SELECT FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))`),
    (rows) => rows.length > 0
  )
