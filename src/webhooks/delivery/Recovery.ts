/**
 * Finds deliveries that a dead or slow process has left. `reclaim` finds deliveries of dead workers and of expired leases.
 * `sweep` finds endpoints whose row does not show that they have pending deliveries, and moves `open_from`, the due time from which on
 * the queue of an endpoint is read.
 */
import type { SqlClient, Statement } from "effect/sql"
import { isAwake } from "../../platform/MoveState.ts"
import type { Worker } from "../../work/Worker.ts"
import { instant } from "../../sql/Times.ts"
import { logWith } from "./Attempt.ts"
import { literalsOf } from "./States.ts"
import type { Endpoint } from "../Endpoint.ts"

const endpointsPerStatement = 5_000

/**
 * Makes the deliveries of dead workers and of expired leases pending again, and adds an entry to the attempt log. A later result
 * of the former worker is not recorded, because its lease is gone. All endpoints with leases are read. Only endpoints of dead
 * workers or with expired leases are locked. Returns the changed endpoints. Rows that another statement has locked are skipped;
 * the next run reads them.
 *
 * `deliveries` is read from the statement's snapshot. Each claim and each recorded result of a delivery also changes the row of
 * its endpoint. If this row has changed since the snapshot, the deliveries of the endpoint may have changed too. `gate` leaves
 * such endpoints out; the next run reads them. It looks up each endpoint by its key: a LATERAL subquery with a lock is not
 * planned as a join of all endpoints.
 */
export const reclaim = (sql: SqlClient.SqlClient, worker: Worker["Service"], leaseMillis: number) => {
  const { from, to } = literalsOf("lease_lost")
  return sql<Endpoint>`
  WITH seen AS MATERIALIZED (
    SELECT project_id, installation_id, xmin AS row_version, ${worker.isDead(sql, sql`worker_id`)} AS dead FROM endpoint_health health
    WHERE worker_id IS NOT NULL AND ${isAwake(sql, "project_id")} AND (
      ${worker.isDead(sql, sql`worker_id`)} OR EXISTS (
        SELECT FROM (${inFlight(sql, sql.literal("health"))}) delivery WHERE leased_until <= now()
      )
    )
    ORDER BY project_id, installation_id LIMIT ${endpointsPerStatement}::int
  ),
  gate AS MATERIALIZED (
    SELECT health.*, dead FROM seen, LATERAL (
      SELECT ctid AS health_row, project_id, installation_id, in_flight, open_from FROM endpoint_health
      WHERE project_id = seen.project_id AND installation_id = seen.installation_id AND xmin = row_version
      FOR NO KEY UPDATE SKIP LOCKED
    ) health
  ),
  lost AS MATERIALIZED (
    SELECT health_row, dead, delivery.row, locked.row IS NULL AS is_skipped FROM gate, LATERAL (
      ${inFlight(sql, sql.literal("gate"))}
    ) delivery LEFT JOIN LATERAL (
      SELECT ctid AS row FROM deliveries WHERE ctid = delivery.row FOR NO KEY UPDATE SKIP LOCKED
    ) locked ON true
    WHERE dead OR leased_until <= now()
  ),
  returned AS (
    UPDATE deliveries SET status = ${sql.literal(to)}, available_at = now(), leased_until = NULL,
      attempt_log = ${logWith(sql, lostEntry(sql, leaseMillis))}
    FROM lost
    WHERE NOT is_skipped AND deliveries.ctid = lost.row AND deliveries.status = ${sql.literal(from)} AND (dead OR leased_until <= now())
    RETURNING health_row
  )
  UPDATE endpoint_health health SET
    in_flight = CASE WHEN freed.all_dead THEN 0 ELSE health.in_flight - freed.leases END,
    worker_id = CASE WHEN NOT freed.all_dead AND health.in_flight > freed.leases THEN worker_id END,
    saturated = false, next_due_at = least(next_due_at, now())
  FROM (
    SELECT health_row, bool_or(dead) AND NOT bool_or(is_skipped) AS all_dead, sum(lease)::int AS leases FROM (
      SELECT health_row, dead, false AS is_skipped, 0 AS lease FROM gate WHERE dead
      UNION ALL SELECT health_row, false, true, 0 FROM lost WHERE is_skipped
      UNION ALL SELECT health_row, false, false, 1 FROM returned
    ) change GROUP BY health_row
  ) freed
  WHERE health.ctid = freed.health_row AND (all_dead OR leases > 0)
  RETURNING health.project_id AS "projectId", health.installation_id AS "installationId"`
}

/**
 * The entry of an attempt whose lease was lost. Its start follows from the length of a lease, which an earlier process may have
 * been configured otherwise with: the start is never before the delivery was created.
 */
const lostEntry = (sql: SqlClient.SqlClient, leaseMillis: number) => sql`jsonb_build_object(
  'number', attempts,
  'startedAt', ${instant(sql, sql`greatest(created_at, leased_until - ${leaseMillis}::float8 * interval '1 millisecond')`)},
  'finishedAt', ${instant(sql, sql`now()::timestamptz(3)`)}, 'statusCode', NULL, 'errorCode', 'lease_lost', 'durationMs', NULL
)`

/**
 * The deliveries in flight to an endpoint. In the index `deliveries_open` they come before most pending deliveries, so with
 * LIMIT hardly any pending delivery is read.
 */
const inFlight = (sql: SqlClient.SqlClient, endpoint: Statement.Fragment) => sql`
  SELECT ctid AS row, leased_until FROM deliveries
  WHERE project_id = ${endpoint}.project_id AND installation_id = ${endpoint}.installation_id
    AND finished_at IS NULL AND available_at >= ${endpoint}.open_from AND status = ${sql.literal(literalsOf("lease_lost").from)}
  ORDER BY available_at, id LIMIT ${endpoint}.in_flight`

export const endpointsPerSweep = 1_000

/**
 * The key at which a round starts: it sorts before all others. A round is the sweeps that together visit all endpoints. Each
 * sweep starts where the previous one ended.
 */
export const firstEndpoint = { projectId: "", installationId: "" }

/** Time by which a delivery may be committed after its due time: longer than a statement of a request may take. */
const commitsWithin = "10 seconds"
/** Deliveries that were committed later still are found, if they are not older than this before `open_from`. */
const looksBack = "1 minute"
/** `open_from` moves by no less, so that it is seldom written. */
const movesBy = "10 seconds"

/**
 * Reads the next endpoints in the order of their keys, with their first open delivery. If an endpoint is due earlier than its row
 * says, corrects the row. Moves `open_from` up to the first open delivery, or to what may still be committed. Returns the last
 * endpoint, or no row after the end of the round.
 *
 * A row can be wrong if a process ended between the commit of a delivery and its NOTIFY, or if a claim wrote the row from a
 * snapshot older than the commit.
 */
export const sweep = (
  sql: SqlClient.SqlClient,
  after: { readonly projectId: string; readonly installationId: string }
) => {
  const [late, back, step] = [commitsWithin, looksBack, movesBy].map((time) => sql.literal(`interval '${time}'`))
  const first = (condition: Statement.Fragment) => sql`(
      SELECT available_at FROM deliveries
      WHERE project_id = page.project_id AND installation_id = page.installation_id AND finished_at IS NULL
        AND available_at >= open_from - ${back} ${condition}
      ORDER BY available_at, id LIMIT 1
    )`
  return sql<Endpoint & { readonly seen: number }>`
  WITH page AS MATERIALIZED (
    SELECT project_id, installation_id, open_from FROM endpoint_health
    WHERE (project_id, installation_id) > (${after.projectId}, ${after.installationId})
    ORDER BY project_id, installation_id LIMIT ${endpointsPerSweep}::int
  ),
  found AS MATERIALIZED (
    SELECT *, least(open_at, now() - ${late}) AS open_until FROM (
      SELECT project_id, installation_id, ${first(sql``)} AS open_at,
        ${first(sql`AND status = ${sql.literal(literalsOf("claimed").from)}`)} AS due_at
      FROM page WHERE ${isAwake(sql, "project_id")}
    ) read
  ),
  unmarked AS MATERIALIZED (
    SELECT health.row, due_at, open_until, enabled FROM found, LATERAL (
      SELECT enabled FROM webhooks
      WHERE project_id = found.project_id AND installation_id = found.installation_id LIMIT 1
    ) webhook, LATERAL (
      SELECT ctid AS row FROM endpoint_health
      WHERE project_id = found.project_id AND installation_id = found.installation_id AND (
        CASE
          WHEN due_at IS NULL THEN false
          WHEN enabled THEN coalesce(next_due_at > greatest(due_at, now()), true)
          ELSE NOT discarding
        END OR open_until < open_from OR (
          open_until > open_from + ${step}
          AND (open_at IS NOT NULL OR coalesce(greatest(last_success_at, failing_since) > open_from, false))
        )
      )
      FOR NO KEY UPDATE SKIP LOCKED
    ) health
  ),
  marked AS (
    UPDATE endpoint_health health SET
      next_due_at = CASE
        WHEN due_at IS NULL THEN health.next_due_at
        WHEN enabled THEN least(health.next_due_at, greatest(due_at, now()))
      END,
      discarding = health.discarding OR (due_at IS NOT NULL AND NOT enabled), open_from = open_until
    FROM unmarked WHERE health.ctid = unmarked.row
  )
  SELECT project_id AS "projectId", installation_id AS "installationId", count(*) OVER ()::int AS seen
  FROM page ORDER BY project_id DESC, installation_id DESC LIMIT 1`
}
