/** Makes the deliveries of replays, a few at a time. A worker locks the row of a replay, so that other workers skip it. */
import { Cause, Duration, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { forkPeriodic } from "../../work/Supervisor.ts"
import { once } from "../../sql/Database.ts"
import { Notifier } from "../../outbox/Outbox.ts"
import { Settings } from "../../platform/Settings.ts"
import { untraced } from "../../telemetry/Spans.ts"
import type { InstallationId, ProjectId } from "../../api/schema/Ids.ts"
import { firstIdAt } from "../../platform/NewId.ts"
import { isAwake } from "../../platform/Moves.ts"

/** Pauses after a run without and with running replays. */
const interval = Duration.seconds(1)
const whenMore = Duration.millis(100)

export const layer = Layer.effectDiscard(
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const notifier = yield* Notifier
    const { webhooks } = yield* Settings

    /** Takes a step of a replay. A failure is logged, and stops no other replay. */
    const go = Effect.fnUntraced(
      function* (replay: Replay) {
        const [done] = yield* once(step(sql, replay, webhooks.endpointConcurrency))
        if ((done?.made ?? 0) > 0) yield* notifier.appended(replay.projectId, [replay.installationId])
      },
      (effect, { id, projectId }) =>
        Effect.catchCauseIf(
          effect,
          (cause) => !Cause.hasInterrupts(cause),
          (cause) => Effect.logWarning(`A step of the replay ${id} of project ${projectId} failed`, cause)
        )
    )

    let isFirst = true
    const run = Effect.gen(function* () {
      if (isFirst) yield* once(endFormer(sql))
      isFirst = false
      const replays = yield* once(listRunning(sql))
      yield* Effect.forEach(replays, go, { discard: true })
      return replays.length > 0
    })
    yield* forkPeriodic("replays", { interval, whenMore }, untraced(run))
  })
)

interface Replay {
  readonly projectId: ProjectId
  readonly id: string
  readonly installationId: InstallationId
  readonly until: Date
}

const perRun = 100
/** Maximum number of events that one statement reads. */
const scanLimit = 1_000

/** Lists the running replays of this version, in random order, so that the limit does not leave out the same replays each time. */
const listRunning = (sql: SqlClient.SqlClient) => sql<Replay>`
  SELECT project_id AS "projectId", id, installation_id AS "installationId", until FROM replays
  WHERE state = 'running' AND pace IS NULL AND ${isAwake(sql, "project_id")} ORDER BY random() LIMIT ${perRun}::int`

/**
 * Makes the next deliveries of a replay, the oldest events first, while fewer of its own than twice the concurrency of the
 * endpoint are open. A delivery repeats an earlier one of its event, or is the first: events that occurred while the webhook was
 * disabled have no delivery, and count as dead. An event with an open delivery, or with one that ended after the replay began, is
 * left out. Returns the number of deliveries that were made. A replay whose row another transaction has locked is skipped.
 */
export const step = (sql: SqlClient.SqlClient, { id, projectId, until }: Replay, concurrency: number) => sql<{
  readonly made: number
}>`
  WITH replay AS MATERIALIZED (
    SELECT replays.*, enabled, webhooks.event_types AS subscribed, webhooks.created_at AS webhook_since
    FROM replays JOIN webhooks USING (project_id, installation_id)
    WHERE project_id = ${projectId} AND id = ${id} AND state = 'running' AND ${isAwake(sql, "project_id")}
    FOR NO KEY UPDATE OF replays SKIP LOCKED
  ),
  room AS MATERIALIZED (
    SELECT enabled::int * (${2 * concurrency}::int - (
      SELECT count(*)::int FROM (
        SELECT FROM deliveries
        WHERE project_id = ${projectId} AND replay_id = replay.id AND replay_id IS NOT NULL AND finished_at IS NULL
        LIMIT ${2 * concurrency}::int
      ) open
    )) AS room FROM replay
  ),
  scanned AS MATERIALIZED (
    SELECT event.* FROM room, LATERAL (
      SELECT id, type, occurred_at FROM events
      WHERE project_id = ${projectId} AND id > (SELECT position FROM replay) AND id < ${firstIdAt("evt", until.getTime())}
      ORDER BY id LIMIT ${scanLimit}::int
    ) event WHERE room > 0
  ),
  picked AS MATERIALIZED (
    SELECT scanned.id, scanned.type, original FROM scanned, replay, LATERAL (
      SELECT min(id) FILTER (WHERE replay_of IS NULL) AS original,
        coalesce(bool_or(status = 'delivered'), false) AS is_delivered,
        coalesce(bool_and(coalesce(finished_at <= replay.created_at, false)), true) AS is_over
      FROM deliveries
      WHERE project_id = ${projectId} AND event_id = scanned.id AND event_id IS NOT NULL
        AND installation_id = replay.installation_id
    ) earlier
    WHERE scanned.type = ANY(replay.event_types) AND scanned.type = ANY(subscribed) AND is_over
      AND (original IS NOT NULL OR occurred_at >= webhook_since)
      AND (replay.status = 'all' OR is_delivered = (replay.status = 'delivered'))
    ORDER BY scanned.id LIMIT (SELECT room FROM room)
  ),
  made AS (
    INSERT INTO deliveries (project_id, id, installation_id, event_id, event_type, available_at, created_at, replay_id, replay_of)
    SELECT ${projectId}::text, new_id('dlv', now()), installation_id, picked.id, type, now(), now(), replay.id, original
    FROM picked, replay
    RETURNING 1
  ),
  done AS MATERIALIZED (
    SELECT enabled, new, new = room AS is_full, read = ${scanLimit}::int AS is_long,
      -- If the room is used up, the next step starts after the last picked event.
      CASE WHEN new = room THEN (SELECT max(id) FROM picked) ELSE (SELECT max(id) FROM scanned) END AS last
    FROM replay, room, (SELECT count(*)::int AS new FROM made) made, (SELECT count(*)::int AS read FROM scanned) scanned
    WHERE room > 0 OR NOT enabled
  ),
  moved AS (
    UPDATE replays SET made = replays.made + new, position = coalesce(last, position),
      state = CASE WHEN NOT enabled THEN 'cancelled' WHEN is_full OR is_long THEN state ELSE 'completed' END,
      finished_at = CASE WHEN NOT enabled OR NOT (is_full OR is_long) THEN now() END
    FROM done WHERE replays.project_id = ${projectId} AND replays.id = ${id}
  )
  SELECT new AS made FROM done`

/**
 * Ends the replays that the version before has started, which have a pace: their position is that of a delivery, and no step of this
 * version can go on from there. Their counts become those of this version.
 */
const endFormer = (sql: SqlClient.SqlClient) => sql`
  UPDATE replays SET pace = NULL, made = queued, status = CASE cardinality(statuses) WHEN 1 THEN statuses[1] ELSE 'all' END,
    state = CASE WHEN finished_at IS NULL THEN 'cancelled' ELSE state END, finished_at = coalesce(finished_at, now())
  WHERE pace IS NOT NULL`
