/**
 * Periodic work of the delivery engine: takeover of the deliveries of dead workers, search for overlooked deliveries (`sweep`),
 * dead-lettering, retention and metrics.
 */
import { Clock, Duration, Effect } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import { forkMeasurement, forkPeriodic } from "../../work/Supervisor.ts"
import { Worker } from "../../work/Worker.ts"
import { statement } from "../../sql/Database.ts"
import { MetricsEnabled, untraced } from "../../telemetry/Telemetry.ts"
import type { Endpoint } from "../Endpoint.ts"
import { endpointsPerSweep, firstEndpoint, reclaim, sweep } from "./Recovery.ts"
import * as Metrics from "./DeliveryMetrics.ts"
import { isAwake } from "../../platform/MoveState.ts"
import { literalsOf } from "./States.ts"

const reclaimEvery = Duration.millis(500)
/**
 * Pauses of the sweep: after a round over all endpoints, and between its statements. A round over 100,000 endpoints takes 25 s.
 */
const sweepEvery = Duration.seconds(1)
const sweepPause = Duration.millis(250)
const discardEvery = Duration.seconds(1)
const expireEvery = Duration.seconds(30)
const pruneEvery = Duration.minutes(1)
/** Pause between two statements of a round over old events. It limits the load. */
const prunePause = Duration.seconds(1)

interface Options {
  readonly sql: SqlClient.SqlClient
  readonly leaseMillis: number
  readonly maxAge: Duration.Duration
  /** Makes the next claim visit these endpoints. */
  readonly visit: (endpoints: ReadonlyArray<Endpoint>) => void
}

export const maintain = Effect.fnUntraced(function* ({ leaseMillis, maxAge, sql, visit }: Options) {
  const worker = yield* Worker
  const measured = yield* MetricsEnabled
  const periodic = <E, R>(
    name: string,
    interval: Duration.Duration,
    effect: Effect.Effect<boolean | void, E, R>,
    whenMore = Duration.zero
  ) => forkPeriodic(`deliveries ${name}`, { interval, whenMore }, untraced(effect))

  yield* periodic(
    "takeover",
    reclaimEvery,
    Effect.map(
      Effect.suspend(() => statement(reclaim(sql, worker, leaseMillis))),
      visit
    )
  )

  yield* periodic(
    "sweep",
    sweepEvery,
    inRounds(firstEndpoint, endpointsPerSweep, (last) => sweep(sql, last)),
    sweepPause
  )

  const deadLetter = (outcome: "disabled" | "expired", batch: Effect.Effect<ReadonlyArray<Batch>, SqlError.SqlError>) =>
    Effect.map(statement(batch), ([done = { count: 0, more: false }]) => done).pipe(
      Effect.tap(({ count }) => (measured && count > 0 ? Metrics.countDead(outcome, count) : Effect.void)),
      Effect.map(({ more }) => more)
    )
  yield* periodic("dead-lettering", discardEvery, deadLetter("disabled", discard(sql)))
  yield* periodic("expiry", expireEvery, deadLetter("expired", expire(sql, Duration.toMillis(maxAge))))

  const horizon = Effect.map(
    Clock.currentTimeMillis,
    (now) => new Date(now - Duration.toMillis(Duration.days(retentionDays)))
  )
  const prunedEvents = inRounds(firstEvent, eventsPerPrune, (last) =>
    Effect.flatMap(horizon, (horizon) => pruneEvents(sql, horizon, last))
  )
  // Only one worker runs the rounds over old events. They are expensive, because each also reads the events that stay.
  yield* periodic(
    "event retention",
    pruneEvery,
    Effect.suspend(() => (worker.isFirst() ? prunedEvents : Effect.succeed(false))),
    prunePause
  )

  yield* forkMeasurement("deliveries metrics", Metrics.measure(sql))
})

/**
 * Returns an effect that takes the next step of a walk over rows. `step` returns the last row that it has read, and the number
 * of rows that it has read (`seen`), at most `most`. The effect returns whether the walk has more rows. After the last row, the
 * next step starts again at `first`.
 */
const inRounds = <Row>(
  first: Row,
  most: number,
  step: (last: Row) => Effect.Effect<ReadonlyArray<Row & { readonly seen: number }>, SqlError.SqlError>
) => {
  let last = first
  return Effect.suspend(() => statement(step(last))).pipe(
    Effect.map(([end]) => {
      const isLast = end === undefined || end.seen < most
      last = isLast ? first : end
      return !isLast
    })
  )
}

/** Retention of finished deliveries with their attempt logs, and of events without deliveries (contract §10). */
export const retentionDays = 30

/** Maximum number of events that one statement reads. */
export const eventsPerPrune = 2_000

/** A round reads all old events in several statements. This event was read last. */
interface LastEvent {
  readonly projectId: string
  readonly occurredAt: Date
}

/** The position at which a round starts, before all events. */
export const firstEvent: LastEvent = { projectId: "", occurredAt: new Date(0) }

/**
 * Reads the next events before `horizon`, by project and time, and removes the events without a delivery. Returns the last event
 * that was read, or no row after the end of the round. A round also reads events that stay: an endpoint that was away for days
 * leaves a million old events whose deliveries were finished later and are still kept. If several events have the same time, a
 * round may miss some of them. The next round finds these.
 */
export const pruneEvents = (sql: SqlClient.SqlClient, horizon: Date, after: LastEvent) => {
  const most = sql.literal(String(eventsPerPrune))
  return sql<LastEvent & { readonly seen: number }>`
    WITH old AS MATERIALIZED (
      SELECT event.* FROM (
        SELECT project_id FROM projects WHERE project_id >= ${after.projectId} ORDER BY project_id
      ) project, LATERAL (
        SELECT ctid AS row, project_id, id, occurred_at FROM events
        WHERE project_id = project.project_id AND ${isAwake(sql, "project_id")} AND occurred_at < ${horizon}::timestamptz
          AND occurred_at > CASE WHEN project.project_id = ${after.projectId} THEN ${after.occurredAt}::timestamptz ELSE '-infinity' END
        ORDER BY occurred_at LIMIT ${most}
      ) event LIMIT ${most}
    ),
    gone AS (
      DELETE FROM events WHERE ctid = ANY(ARRAY(
        SELECT orphan.row FROM old, LATERAL (
          SELECT ctid AS row FROM events
          WHERE ctid = old.row AND NOT EXISTS (
            SELECT FROM deliveries WHERE deliveries.project_id = old.project_id AND deliveries.event_id = old.id
          )
          FOR UPDATE SKIP LOCKED
        ) orphan
      ))
    )
    SELECT project_id AS "projectId", occurred_at AS "occurredAt", count(*) OVER ()::int AS seen
    FROM old ORDER BY project_id DESC, occurred_at DESC LIMIT 1`
}

export const deadLetterBatch = 1_000

interface Batch {
  readonly count: number
  readonly more: boolean
}

/**
 * Dead-letters a batch of pending deliveries of disabled webhooks. The mark `discarding` stays on an endpoint until its last
 * pending delivery is dead, so the work continues after a crash. If a delivery is committed later, or was locked, `sweep` (`Recovery.ts`)
 * marks the endpoint again.
 */
export const discard = (sql: SqlClient.SqlClient) => {
  const { from, to } = literalsOf("disabled")
  return sql<Batch>`
  WITH endpoint AS MATERIALIZED (
    SELECT project_id, installation_id, enabled, open_from FROM endpoint_health health JOIN webhooks USING (project_id, installation_id)
    WHERE discarding AND ${isAwake(sql, "project_id")}
    ORDER BY project_id, installation_id LIMIT 100
    FOR NO KEY UPDATE OF health SKIP LOCKED
  ),
  waiting AS MATERIALIZED (
    SELECT delivery.*, endpoint.project_id, endpoint.installation_id FROM endpoint, LATERAL (
      SELECT ctid AS row FROM deliveries
      WHERE project_id = endpoint.project_id AND installation_id = endpoint.installation_id
        AND finished_at IS NULL AND available_at >= open_from AND status = ${sql.literal(from)}
      ORDER BY available_at, id LIMIT ${deadLetterBatch}::int
      FOR NO KEY UPDATE SKIP LOCKED
    ) delivery
    WHERE NOT enabled LIMIT ${deadLetterBatch}::int
  ),
  ended AS (
    UPDATE deliveries SET status = ${sql.literal(to)}, available_at = NULL, finished_at = now(), dead_code = 'disabled'
    FROM waiting WHERE deliveries.ctid = waiting.row AND deliveries.status = ${sql.literal(from)}
    RETURNING 1
  ),
  emptied AS (
    UPDATE endpoint_health health SET discarding = false FROM endpoint
    WHERE health.project_id = endpoint.project_id AND health.installation_id = endpoint.installation_id
      AND (SELECT count(*) FROM waiting) < ${deadLetterBatch}::int
    RETURNING 1
  )
  SELECT (SELECT count(*)::int FROM ended) AS count,
    (SELECT count(*) FROM waiting) = ${deadLetterBatch}::int OR (SELECT count(*) FROM emptied) = 100 AS more`
}

/**
 * Dead-letters a batch of pending deliveries that are older than `maxAgeMillis`. The age counts from the last retry command or,
 * without one, from the creation. The error code is `expired`. Deliveries in flight are left out, because their attempt may
 * succeed. `created_at > '-infinity'` is always true. It repeats the condition of the index `deliveries_by_age_of_open`, so that
 * PostgreSQL uses the index.
 */
export const expire = (sql: SqlClient.SqlClient, maxAgeMillis: number) => {
  const { from, to } = literalsOf("expired")
  return sql<Batch>`
  WITH old AS MATERIALIZED (
    SELECT expired.row FROM projects, LATERAL (
      SELECT ctid AS row FROM deliveries
      WHERE project_id = projects.project_id AND ${isAwake(sql, "project_id")} AND finished_at IS NULL AND created_at > '-infinity' AND status = ${sql.literal(from)}
        AND greatest(created_at, retried_at) < now() - ${maxAgeMillis}::float8 * interval '1 millisecond'
      ORDER BY greatest(created_at, retried_at) LIMIT ${deadLetterBatch}::int
      FOR NO KEY UPDATE SKIP LOCKED
    ) expired LIMIT ${deadLetterBatch}::int
  ),
  ended AS (
    UPDATE deliveries SET status = ${sql.literal(to)}, available_at = NULL, finished_at = now(), dead_code = 'expired'
    FROM old WHERE deliveries.ctid = old.row
    RETURNING 1
  )
  SELECT count(*)::int AS count, count(*) = ${deadLetterBatch}::int AS more FROM ended`
}
