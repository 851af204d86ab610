/**
 * Stops the background work of a project, then its mutations. Both start again if the database session of the move at the source
 * ends.
 */
import { Duration, Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { refused, seeds, type Sides, step } from "./Sides.ts"

type Sql = SqlClient.SqlClient

const pollEvery = Duration.millis(50)

/**
 * `olderEnded` does not wait for a transaction that is older than this and has written nothing. Of such transactions, only
 * mutations can still write, and `fence` waits for mutations by the lock that they share.
 */
const oldest = "5 seconds"

/**
 * Waits until the transactions that began before this call have ended, except those that are older than `oldest` and have
 * written nothing, such as a dump. Later transactions see the state of the move.
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

/** `claimed`: only the calls of workers to webhooks and providers. `all`: also the calls that requests make themselves. */
type Calls = "claimed" | "all"

/**
 * Waits for the attempts of deliveries and messages whose lease has not ended. The lease of a dead process ends, and the target
 * then takes its attempts over. `claimed` leaves out messages without a worker id. Such a message is sent by a request, or by a
 * worker without its liveness lock (`work/Worker.ts`).
 */
const nothingInFlight = ({ projectId, source }: Sides, calls: Calls) => {
  const inFlight = source<{ readonly count: number }>`
    SELECT count(*)::int AS count FROM (
      SELECT FROM endpoint_health JOIN deliveries USING (project_id, installation_id)
      WHERE project_id = ${projectId} AND in_flight > 0 AND finished_at IS NULL AND status = 'delivering'
        AND leased_until > now()
      UNION ALL
      SELECT FROM messages
      WHERE project_id = ${projectId} AND attempting AND available_at > now() AND available_at IS NOT NULL
        AND (worker_id IS NOT NULL OR ${calls === "all"})
    ) calls`
  return Effect.repeat(Effect.delay(inFlight, pollEvery), { until: ([row]) => row?.count === 0 })
}

/** Ends a wait after `duration`. What was waited for is in `deliveries`, `messages` and `pg_stat_activity` of the source. */
export const limited =
  (duration: Duration.Duration, ended: string) =>
  <A, E, R>(wait: Effect.Effect<A, E, R>) =>
    Effect.timeoutOrElse(wait, {
      duration,
      orElse: () =>
        refused(
          `${ended} after ${Duration.format(duration)}: calls are in flight, transactions are open, or the target is not level`,
          "The project works on as before: run again"
        )
    })

/**
 * Maximum duration of `rest`. Meanwhile the project's webhooks, retries and campaigns pause. Leases of the usual length end
 * within this time.
 */
const longestRest = Duration.minutes(2)

/**
 * Stops workers from claiming work of the project, and waits for the calls of workers in flight. Mutations go on. The second
 * `olderEnded` shortens the fence, which then waits only for transactions that began later.
 */
export const rest = (sides: Sides) =>
  Effect.gen(function* () {
    yield* step(sides, "caught_up")
    yield* olderEnded(sides.source)
    yield* nothingInFlight(sides, "claimed")
    yield* olderEnded(sides.source)
  }).pipe(limited(longestRest, "The rest was ended"))

/**
 * Waits for the mutations in flight and refuses later ones. Then waits for the calls of workers and requests, and for earlier
 * transactions (`olderEnded`). After that only two things still change the project at the source: `last_used_at` of API keys,
 * and short statements of operators' commands.
 */
export const fence = Effect.fnUntraced(function* (sides: Sides) {
  const { projectId, source } = sides
  yield* source`SELECT pg_advisory_lock(hashtextextended(${projectId}, ${seeds.project}))`
  yield* step(sides, "rested")
  yield* nothingInFlight(sides, "all")
  yield* olderEnded(source)
})

/** Releases the lock that mutations share. The state of the project then decides whether its mutations are refused. */
export const lift = ({ projectId, source }: Sides) =>
  source`SELECT pg_advisory_unlock(hashtextextended(${projectId}, ${seeds.project}))`
