/** Stored events with finished deliveries, as after weeks of operation. */
import type { PgClient } from "@effect/sql-pg"
import { Effect } from "effect"
import type { ProjectId } from "../../src/api/schema/Ids.ts"
import { eventType, traceparent } from "./deliveries/Work.ts"

export interface Stored {
  readonly projectId: ProjectId
  /** Number of deliveries, one to an event, spread evenly over the days until now. */
  readonly count: number
  readonly days: number
  /** Number of installations, which receive the deliveries in turn; their ids are `ins_000` and so on. */
  readonly installations: number
  /** One in this many deliveries is dead. */
  readonly deadEvery: number
  /** Number of rows stored earlier. */
  readonly before?: number
}

/** Returns SQL for an id like the service's, for row `n` of a series, created at `at`. */
const id = (prefix: string) =>
  `'${prefix}_' || lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7' || lpad(n::text, 19, '0')`

/** Rows per statement. */
const batch = 100_000

/** Stores rows without vacuuming the tables. */
export const append = Effect.fnUntraced(function* (sql: PgClient.PgClient, stored: Stored) {
  const { before = 0, count, days, deadEvery, installations, projectId } = stored
  // Foreign keys are checked by triggers, which do not run in a session in the role of a replica.
  yield* sql`SET session_replication_role = replica`
  for (let from = 0; from < count; from += batch) {
    yield* sql`
      WITH made AS (
        SELECT ${before}::bigint + n AS n, date_trunc('milliseconds', now() - (${count}::int - n) * ${days}::int * interval '1 day' / ${count}::int) AS at
        FROM generate_series(${from}::int + 1, ${Math.min(count, from + batch)}::int) n
      ),
      event AS (
        INSERT INTO events (project_id, id, type, data, traceparent, occurred_at)
        SELECT ${projectId}, ${sql.literal(id("evt"))}, ${eventType}, '{"deal":{"id":"deal","title":"Analytical engine"}}',
          ${traceparent}, at FROM made
      )
      INSERT INTO deliveries (project_id, id, installation_id, event_id, event_type, status, attempts, finished_at, created_at, attempt_log)
      SELECT ${projectId}, ${sql.literal(id("dlv"))}, 'ins_' || lpad((n % ${installations}::int)::text, 3, '0'),
        ${sql.literal(id("evt"))}, ${eventType}, CASE WHEN n % ${deadEvery}::int = 0 THEN 'dead' ELSE 'delivered' END, 1, at, at,
        jsonb_build_array(jsonb_build_object('number', 1, 'startedAt', at, 'finishedAt', at,
          'statusCode', CASE WHEN n % ${deadEvery}::int = 0 THEN 500 ELSE 200 END, 'errorCode', NULL, 'durationMs', n % 100))
      FROM made`
  }
  yield* sql`SET session_replication_role = origin`
})

export const store = Effect.fnUntraced(function* (sql: PgClient.PgClient, stored: Stored) {
  yield* append(sql, stored)
  yield* sql`VACUUM ANALYZE events, deliveries`
})

/**
 * Stores messages of the last 28 days, and campaigns. One message in ten is of unknown outcome: every second of these belongs to a
 * paused campaign, which repeats it, and the others need a decision.
 */
export const storeMessaging = Effect.fnUntraced(function* (
  sql: PgClient.PgClient,
  { campaigns, messages, projectId }: { projectId: ProjectId; messages: number; campaigns: number }
) {
  const made = (count: number) => sql`(
    SELECT n, date_trunc('milliseconds', now() - (${count}::int - n) * interval '28 days' / ${count}::int) AS at
    FROM generate_series(1, ${count}::int) n) made`
  yield* sql`SET session_replication_role = replica`
  yield* sql`
    INSERT INTO audiences (project_id, id, filter, candidate_count, eligible_count, merged, filter_mismatch, consent_not_granted,
      suppressed, channel_unavailable, duplicate, created_at)
    VALUES (${projectId}, 'aud', '{}', ${messages}::int, ${messages}::int, 0, 0, 0, 0, 0, 0, now())`
  yield* sql`
    INSERT INTO campaigns (project_id, id, name, status, paused_from, primary_template_id, primary_template_version, primary_channel_id,
      audience_id, scheduled_for, sends_per_minute, created_at, updated_at)
    SELECT ${projectId}, ${sql.literal(id("cmp"))}, 'Campaign ' || n, status, CASE status WHEN 'paused' THEN 'running' END, 'tpl', 1, 'chan',
      'aud', at, 60, at, at
    FROM ${made(campaigns)}, LATERAL (SELECT CASE WHEN n = ${campaigns}::int THEN 'paused' ELSE 'completed' END AS status) state`
  yield* sql`
    INSERT INTO campaign_recipients (project_id, audience_id, position, client_id)
    SELECT ${projectId}, 'aud', n, 'cli_' || n FROM generate_series(1, ${messages}::int) n WHERE n % 20 = 0`
  yield* sql`
    INSERT INTO messages (project_id, id, conversation_id, campaign_id, audience_id, position, channel_id, provider_type, address, text,
      status, attempts, attempting, attempt_log, traceparent, created_at, updated_at)
    SELECT ${projectId}, ${sql.literal(id("msg"))}, CASE WHEN n % 20 > 0 THEN 'conversation' END,
      CASE WHEN n % 20 = 0 THEN (SELECT id FROM campaigns WHERE project_id = ${projectId} AND status = 'paused') END,
      CASE WHEN n % 20 = 0 THEN 'aud' END, CASE WHEN n % 20 = 0 THEN n END, 'chan', 'telegram', 'a', 'Text',
      CASE WHEN n % 10 = 0 THEN 'unknown' ELSE 'sent' END, 1, false, jsonb_build_array(jsonb_build_object('number', 1,
        'status', CASE WHEN n % 10 = 0 THEN 'unknown' ELSE 'accepted' END, 'startedAt', at, 'finishedAt', at,
        'providerMessageId', NULL, 'errorCode', CASE WHEN n % 10 = 0 THEN 'timeout' END, 'nextAttemptAt', NULL)),
      ${traceparent}, at, at
    FROM ${made(messages)}`
  yield* sql`SET session_replication_role = origin`
  yield* sql`VACUUM ANALYZE messages, campaigns, campaign_recipients, audiences`
})
