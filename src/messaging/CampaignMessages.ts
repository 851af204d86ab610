/**
 * SQL for messages of campaigns. To release a recipient means to lease an attempt of its message. Between two attempts, the
 * message has no `available_at`, and waits until its recipient is released again.
 */
import type { SqlClient, Statement } from "effect/sql"
import { workerOf, type Terms } from "./Messages/Attempts.ts"
import { endedLog, inDoubt, instant, startedAttempt, uncalledAttempts } from "./Messages/Record.ts"
import { givenUp, isWaiting } from "./Messages/States.ts"

type Sql = SqlClient.SqlClient

/**
 * Leases an attempt for each row of the CTE `released`: the first attempt of a new message, or the next attempt of a waiting
 * message. Returns no row for an existing message that is not waiting.
 */
export const makeMessages = (sql: Sql, terms: Terms) => sql`
  INSERT INTO messages AS message (project_id, id, campaign_id, audience_id, position, channel_id, provider_type,
    provider_version, address, text, status, attempts, attempting, attempt_log, available_at, worker_id, traceparent, created_at, updated_at)
  SELECT project_id, message_id, campaign_id, audience_id, position, channel_id, provider_type, provider_version, address,
    text, 'pending', attempts + 1, true,
    jsonb_build_array(${startedAttempt(sql, "attempts + 1", instant(sql, sql`send_at`))}),
    send_at + ${terms.leaseMillis}::float8 * interval '1 millisecond', ${workerOf(terms)}::bigint, traceparent,
    ${terms.now}, ${terms.now}
  FROM released
  ON CONFLICT (project_id, id) DO UPDATE SET attempting = true, attempts = excluded.attempts,
    attempt_log = message.attempt_log || (excluded.attempt_log -> -1),
    available_at = excluded.available_at, worker_id = excluded.worker_id,
    provider_type = excluded.provider_type, provider_version = excluded.provider_version,
    address = excluded.address
  WHERE NOT message.attempting AND message.available_at IS NULL AND ${isWaiting(sql, "message.status")}
    AND message.attempts < excluded.attempts
  RETURNING project_id, id AS message_id, attempts AS number, text, ${sql.literal(uncalledAttempts)} AS uncalled,
    (extract(epoch FROM ${terms.now} - created_at) * 1000)::float8 AS age`

/** Gives up the waiting messages of the recipients in the CTE `abandoned`. No attempt follows. */
export const giveUpMessages = (sql: Sql, now: Statement.Fragment) => sql`
  UPDATE messages SET status = ${givenUp(sql, `abandoned.in_doubt OR messages.${inDoubt}`)}, updated_at = ${now},
    attempt_log = ${sql.literal(endedLog)}
  FROM abandoned
  WHERE messages.project_id = abandoned.project_id AND messages.id = abandoned.message_id
    AND NOT attempting AND ${isWaiting(sql, "messages.status")}`

export const isInDoubt = (sql: Sql) => sql.literal(`message.${inDoubt}`)

/** The error code of the last attempt of `message`. */
export const lastError = (sql: Sql) => sql.literal("message.attempt_log -> -1 ->> 'errorCode'")

/** The time of the next attempt of `message`; null if none follows. */
export const nextAttemptAt = (sql: Sql) => sql`
  CASE WHEN ${isWaiting(sql, "message.status")} THEN (message.attempt_log -> -1 ->> 'nextAttemptAt')::timestamptz END`
