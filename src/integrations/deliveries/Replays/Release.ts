/**
 * Creates the deliveries of replays, few at a time, so that live deliveries (all others) do not wait for them.
 *
 * A delivery of a replay is created only when it can be sent at once:
 *
 * - The new deliveries and all due deliveries of the endpoint together take at most half of its concurrency.
 * - An endpoint that answers within milliseconds may get more: as many as it answers in a twentieth of the time until the next
 *   run.
 * - An endpoint that is suspect because of recent failures gets one delivery, as its probe, if nothing else is due there and the
 *   replay has no other open delivery.
 *
 * So a live delivery waits for milliseconds at most, and even a long replay has few deliveries in the queue. The pace of a
 * replay (deliveries per second) is a maximum.
 */
import type { SqlClient } from "effect/sql"
import type { InstallationId, ProjectId } from "../../../api/schema/Ids.ts"
import { stepOf } from "../../../api/schema/States.ts"
import { deadLetterBatch } from "../DeliveryMaintenance/DeadLetter.ts"
import { firstIdAt } from "../../../platform/NewId.ts"
import { finishedStates, inOrder } from "../DeliveryList.ts"
import { after } from "../States.ts"
import { isAwake } from "../../../platform/Moves.ts"
import { type EndReason, replays } from "./States.ts"

export interface Replay {
  readonly projectId: ProjectId
  readonly id: string
  readonly installationId: InstallationId
  readonly until: Date
}

/**
 * A replay that can take a step, and the function that takes it: `release`, or `empty` for a replay that is being cancelled, or
 * `end` if the webhook is disabled.
 */
export interface Waiting extends Replay {
  readonly next: "release" | "empty" | "end"
}

const perRun = 100

interface Terms {
  /** Maximum number of deliveries in flight to one endpoint. */
  readonly concurrency: number
  /** Time between two runs of the `Replayer`, in milliseconds. */
  readonly interval: number
}

const scanLimit = 2_000
/** A replay keeps a quick endpoint busy for at most this share of the time. */
const busy = 0.05
/**
 * Number of latest deliveries of an endpoint that are read. The deliveries of the replay among them show how long answers take.
 */
const recent = 100
/** If a replay is behind its pace, it makes up for at most this many milliseconds, plus one delivery. */
const savedUp = 250

const exhausted = stepOf(replays, "exhausted")
const emptied = stepOf(replays, "emptied")
const disabled = stepOf(replays, "disabled")

/**
 * Lists the replays that can take a step: replays whose pace permits a delivery and whose endpoint is in no pause, replays that
 * are being cancelled, and replays of disabled webhooks. Projects take turns. In a project the order is random, so that the
 * limit does not leave out the same replays each time.
 */
export const listRunnable = (sql: SqlClient.SqlClient) => sql<Waiting>`
  SELECT project_id AS "projectId", id, installation_id AS "installationId", until, next FROM (
    SELECT project_id, id, installation_id, until,
      CASE WHEN state = ${emptied.from} THEN 'empty' WHEN enabled THEN 'release' ELSE 'end' END AS next,
      row_number() OVER (PARTITION BY project_id ORDER BY random()) AS turn
    FROM replays JOIN webhooks USING (project_id, installation_id)
      JOIN endpoint_health USING (project_id, installation_id)
    WHERE state IN ('running', 'cancelling') AND ${isAwake(sql, "project_id")} AND (
      state = ${emptied.from} OR NOT enabled OR (
        paced_at + interval '1 second' / pace <= now() AND coalesce(greatest(parked_until, resting_until) <= now(), true)
      )
    )
  ) AS able ORDER BY turn, random() LIMIT ${perRun}::int`

/**
 * Creates the next deliveries of a replay and returns how many. A replay whose row another worker has locked is skipped.
 *
 * - `room`: the number that may be created now, by the pace and by the deliveries that are due or in flight.
 * - `scanned`: the next deliveries by id, which is the order of creation.
 * - `picked`: the scanned deliveries to repeat, at most `room`. A delivery that was open when the replay began is not repeated.
 */
export const release = (
  sql: SqlClient.SqlClient,
  { id, installationId, projectId, until }: Replay,
  terms: Terms
) => sql<{
  readonly made: number
}>`
  WITH replay AS MATERIALIZED (
    SELECT * FROM replays
    WHERE project_id = ${projectId} AND id = ${id} AND state = ${exhausted.from} AND ${isAwake(sql, "project_id")}
    FOR NO KEY UPDATE SKIP LOCKED
  ),
  room AS MATERIALIZED (
    SELECT least(
        floor(extract(epoch FROM now() - paced.start) * pace),
        CASE WHEN suspect THEN 1 - (${openCount(sql, projectId)}) ELSE ${quota(sql, { installationId, projectId }, terms)} END - queue.due
      )::int AS room, webhook.event_types, paced.start AS paced_from
    FROM replay, LATERAL (
      SELECT greatest(paced_at, now() - (${savedUp}::float8 + 1000 / pace) * interval '1 millisecond') AS start
    ) paced, LATERAL (
      SELECT event_types, suspect FROM webhooks JOIN endpoint_health health USING (project_id, installation_id)
      WHERE project_id = ${projectId} AND installation_id = replay.installation_id
        AND enabled AND coalesce(greatest(parked_until, resting_until) <= now(), true)
    ) webhook, LATERAL (
      SELECT count(*) AS due FROM (
        SELECT FROM deliveries
        WHERE project_id = ${projectId} AND installation_id = replay.installation_id AND finished_at IS NULL
          AND available_at <= now() LIMIT 100
      ) open
    ) queue
  ),
  scanned AS NOT MATERIALIZED (
    SELECT id, event_id, event_type, status, replay_of, finished_at FROM (${inOrder(sql, {
      projectId,
      installationId,
      states: finishedStates,
      above: sql`(SELECT position FROM replay)`,
      below: firstIdAt("dlv", until.getTime()),
      order: "ASC",
      limit: scanLimit
    })}) finished
  ),
  picked AS MATERIALIZED (
    SELECT id, event_id, event_type FROM scanned
    WHERE replay_of IS NULL AND status = ANY((SELECT statuses FROM replay)::text[])
      AND finished_at <= (SELECT created_at FROM replay)
      AND event_type = ANY((SELECT event_types FROM room)::text[])
      AND event_type = ANY((SELECT event_types FROM replay)::text[])
    ORDER BY id LIMIT greatest(0, (SELECT room FROM room))
  ),
  ${madeDeliveries(sql, projectId)},
  moved AS (
    UPDATE replays SET queued = queued + step.made, paced_at = step.paced_at, position = coalesce(step.position, replays.position),
      state = CASE WHEN is_last THEN ${exhausted.to} ELSE state END, finished_at = CASE WHEN is_last THEN now() END
    FROM step WHERE replays.project_id = ${projectId} AND replays.id = ${id}
  )
  SELECT made FROM step`

/** `made` inserts a repetition of each picked delivery; `step` computes how far the replay has come. */
const madeDeliveries = (sql: SqlClient.SqlClient, projectId: ProjectId) => sql`
  made AS (
    INSERT INTO deliveries (project_id, id, installation_id, event_id, event_type, available_at, created_at, replay_id,
      replay_of)
    SELECT ${projectId}::text, new_id('dlv', now()), replay.installation_id, event_id, event_type, now(), now(), replay.id,
      picked.id
    FROM picked, replay
    RETURNING 1
  ),
  step AS MATERIALIZED (
    SELECT (SELECT count(*)::int FROM made) AS made,
      room.paced_from + (SELECT count(*) FROM made) / pace::float8 * interval '1 second' AS paced_at,
      -- If the room is used up, the next run starts after the last picked delivery.
      CASE WHEN (SELECT count(*) FROM picked) = room THEN (SELECT max(id) FROM picked)
        ELSE (SELECT max(id) FROM scanned) END AS position,
      (SELECT count(*) FROM picked) < room AND (SELECT count(*) FROM scanned) < ${scanLimit}::int AS is_last
    FROM replay, room WHERE room > 0
  )`

const openCount = (sql: SqlClient.SqlClient, projectId: ProjectId) => sql`
  SELECT count(*) FROM (
    SELECT FROM deliveries
    WHERE project_id = ${projectId} AND replay_id = replay.id AND replay_id IS NOT NULL AND finished_at IS NULL LIMIT 1
  ) open`

/** The maximum number of deliveries due or in flight to the endpoint of `replay`. */
const quota = (
  sql: SqlClient.SqlClient,
  { installationId, projectId }: Pick<Replay, "installationId" | "projectId">,
  { concurrency, interval }: Terms
) => sql`
  greatest(${Math.max(1, Math.floor(concurrency / 2))}::int, floor(${concurrency * interval * busy}::float8 / (
    SELECT max(greatest((attempt_log -> -1 ->> 'durationMs')::int, 1)) FROM (${inOrder(sql, {
      projectId,
      installationId,
      states: finishedStates,
      order: "DESC",
      limit: recent
    })}) latest WHERE replay_id = replay.id
  )))`

/**
 * Dead-letters a batch of the pending deliveries of a replay that is being cancelled. When no delivery of the replay is pending
 * or in flight any more, the replay is cancelled. If an attempt in flight fails, its delivery is pending again, and the next run
 * dead-letters it.
 */
export const empty = (sql: SqlClient.SqlClient, { id, projectId }: Replay) => sql<{
  readonly made: number
}>`
  WITH replay AS MATERIALIZED (
    SELECT id FROM replays
    WHERE project_id = ${projectId} AND id = ${id} AND state = ${emptied.from} AND ${isAwake(sql, "project_id")}
    FOR NO KEY UPDATE SKIP LOCKED
  ),
  open AS MATERIALIZED (
    SELECT ctid AS row, status FROM deliveries
    WHERE project_id = ${projectId} AND replay_id = (SELECT id FROM replay) AND replay_id IS NOT NULL
      AND finished_at IS NULL LIMIT ${deadLetterBatch}::int
  ),
  ended AS (
    UPDATE deliveries SET status = ${after("cancelled")}, available_at = NULL, finished_at = now(), dead_code = 'cancelled'
    FROM open WHERE deliveries.ctid = open.row AND deliveries.status = 'pending' AND open.status = 'pending'
    RETURNING 1
  ),
  moved AS (
    UPDATE replays SET state = ${emptied.to}, finished_at = now() FROM replay
    WHERE replays.project_id = ${projectId} AND replays.id = replay.id
      AND (SELECT count(*) FROM open) = (SELECT count(*) FROM ended)
      AND (SELECT count(*) FROM open) < ${deadLetterBatch}::int
  )
  SELECT 0 AS made`

/**
 * Ends a replay whose webhook is disabled. `discard` (`DeadLetter.ts`) dead-letters all pending deliveries of the webhook,
 * including the deliveries of the replay.
 */
export const end = (sql: SqlClient.SqlClient, { id, installationId, projectId }: Replay) => sql<{
  readonly made: number
}>`
  WITH ended AS (
    UPDATE replays SET state = ${disabled.to}, end_reason = ${"webhook_disabled" satisfies EndReason}, finished_at = now()
    WHERE project_id = ${projectId} AND id = ${id} AND state = ${disabled.from} AND ${isAwake(sql, "project_id")} AND EXISTS (
      SELECT FROM webhooks WHERE project_id = ${projectId} AND installation_id = ${installationId} AND NOT enabled
    )
  )
  SELECT 0 AS made`
