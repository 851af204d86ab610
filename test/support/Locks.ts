/** Locks that a test holds, statements that wait for them or are slow, and the deadlocks that PostgreSQL has resolved. */
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

/**
 * Counts the deadlocks so far. Ends all other sessions of the database first: a session reports what it has counted up to ten
 * seconds later, but at the latest when it ends.
 */
export const deadlocks = Effect.fnUntraced(
  function* (sql: SqlClient.SqlClient) {
    const connection = yield* sql.reserve
    yield* connection.execute(
      `SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity
     WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'`,
      [],
      undefined
    )
    yield* connection.execute("SELECT pg_stat_force_next_flush()", [], undefined)
    const [row] = yield* connection.execute(
      "SELECT deadlocks::int AS count FROM pg_stat_database WHERE datname = current_database()",
      [],
      undefined
    )
    return row?.["count"]
  },
  Effect.scoped,
  Effect.orDie
)

/**
 * Slows down each change of a row of these tables, so that concurrent changes certainly overlap. Otherwise one change often
 * ends before the next begins.
 */
export const slowDown = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  ...tables: ReadonlyArray<"notes" | "tickets" | "tasks" | "webhooks" | "endpoint_health" | "campaigns">
) {
  yield* sql`
    CREATE FUNCTION take_a_while() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN PERFORM pg_sleep(0.005); RETURN coalesce(NEW, OLD); END
    $$`
  for (const table of tables) {
    yield* sql`
      CREATE TRIGGER take_a_while BEFORE UPDATE OR DELETE ON ${sql(table)} FOR EACH ROW EXECUTE FUNCTION take_a_while()`
  }
}, Effect.orDie)
