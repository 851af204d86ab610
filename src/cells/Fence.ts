/**
 * Stops the work for a project, then its mutations. Both last as long as the session of the mover at the source: when that ends, the
 * project works on as before.
 */
import { Duration, Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { seeds, type Sides, step } from "./Sides.ts"

type Sql = SqlClient.SqlClient

const pollEvery = Duration.millis(50)

/**
 * Maximum age of a transaction that has written nothing and is waited for. Only long-running mutations read for longer: they hold
 * the lock that the mutations of a project share, and `fence` waits for that lock.
 */
const oldest = "5 seconds"

/**
 * Waits until every transaction that began before this call has ended: later statements see the mark of the project. A
 * transaction older than `oldest` that has written nothing, such as a dump, is not waited for.
 */
export const olderEnded = Effect.fnUntraced(function* (sql: Sql) {
  const older = yield* sql<{ readonly pid: number; readonly began: string }>`
    SELECT pid, xact_start::text AS began FROM pg_stat_activity
    WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
      AND xact_start IS NOT NULL`
  const left = sql`
    SELECT FROM pg_stat_activity JOIN unnest(
      ${older.map(({ pid }) => pid)}::int[], ${older.map(({ began }) => began)}::timestamptz[]
    ) AS older (pid, began) ON pg_stat_activity.pid = older.pid AND xact_start = began
    WHERE backend_xid IS NOT NULL OR xact_start > clock_timestamp() - ${oldest}::interval`
  yield* Effect.repeat(Effect.delay(left, pollEvery), { until: (rows) => rows.length === 0 })
})

/**
 * Counts attempts in flight, of deliveries and of messages (campaigns send messages, too), whose lease has not ended. What a
 * dead process has left goes along, and is taken over there.
 */
export const inFlight = ({ projectId, source }: Sides) =>
  Effect.map(
    source<{ readonly count: number }>`
      SELECT ((
          SELECT count(*) FROM endpoint_health JOIN deliveries USING (project_id, installation_id)
          WHERE project_id = ${projectId} AND in_flight > 0 AND finished_at IS NULL AND status = 'delivering'
            AND leased_until > now()
        ) + (
          SELECT count(*) FROM messages
          WHERE project_id = ${projectId} AND attempting AND available_at > now() AND available_at IS NOT NULL
        ))::int AS count`,
    ([row]) => row?.count ?? 0
  )

const nothingInFlight = (sides: Sides) =>
  Effect.repeat(Effect.delay(inFlight(sides), pollEvery), { until: (count) => count === 0 })

/** Claims nothing of the project any more, and waits for what is in flight. Mutations go on. */
export const rest = Effect.fnUntraced(function* (sides: Sides) {
  yield* step(sides, "caught_up")
  yield* olderEnded(sides.source)
  yield* nothingInFlight(sides)
})

/**
 * Refuses mutations, after those in flight, and waits for the calls that these make. From here on nothing of the project changes at
 * the source.
 */
export const fence = Effect.fnUntraced(function* (sides: Sides) {
  const { projectId, source } = sides
  yield* source`SELECT pg_advisory_lock(hashtextextended(${projectId}, ${seeds.project}))`
  yield* step(sides, "rested")
  yield* nothingInFlight(sides)
})

/** Lets mutations go on. The mark of the project decides what becomes of them. */
export const lift = ({ projectId, source }: Sides) =>
  source`SELECT pg_advisory_unlock(hashtextextended(${projectId}, ${seeds.project}))`
