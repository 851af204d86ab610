/**
 * Removes the texts of clients that were erased (`crm/Clients/Erase.ts`): addresses and texts of the messages to them, and what providers
 * and receivers of events have answered, which may repeat them. A client can have any number of them: each statement removes a batch. Until
 * then, `getDelivery` can show what a receiver has answered, and no other operation shows any of these (contract §7).
 *
 * A statement that began before the erasure may store a text after a pass: a send, a released recipient, a result. So a last pass comes a
 * minute later, when all of them have ended.
 */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { eventsOf } from "../crm/ClientColumns.ts"
import { batch } from "../work/Retention.ts"
import { isAwake } from "../platform/Moves.ts"
import { messageId } from "./Runner/Release.ts"

type Sql = SqlClient.SqlClient

/** Maximum number of erasures that one statement serves. */
const served = 20

const most = String(batch)

/**
 * Removes a batch of texts. An erasure is removed when a pass after `horizon` finds none. What another transaction has locked is skipped,
 * and found by the next run. Returns whether more may be left.
 */
export const eraseTexts = (sql: Sql, horizon: Date) =>
  Effect.map(
    sql<{ readonly more: boolean }>`
  WITH erasure AS MATERIALIZED (
    SELECT project_id, id AS erasure_id, client_id, conversation_ids, erased_at FROM erasures
    WHERE (NOT passed OR erased_at < ${horizon}) AND ${isAwake(sql, "project_id")}
    ORDER BY project_id, id LIMIT ${sql.literal(String(served))} FOR UPDATE SKIP LOCKED
  ),
  ${messages(sql)},
  ${deliveries(sql)},
  ${health(sql)},
  found AS (
    SELECT project_id, erasure_id FROM message UNION ALL SELECT project_id, erasure_id FROM delivery
    UNION ALL SELECT project_id, erasure_id FROM endpoint
  ),
  finished AS MATERIALIZED (
    SELECT * FROM erasure WHERE (project_id, erasure_id) NOT IN (SELECT project_id, erasure_id FROM found)
  ),
  removed AS (
    DELETE FROM erasures USING finished
    WHERE erasures.project_id = finished.project_id AND id = erasure_id AND finished.erased_at < ${horizon}
  ),
  passed AS (
    UPDATE erasures SET passed = true FROM finished
    WHERE erasures.project_id = finished.project_id AND id = erasure_id AND finished.erased_at >= ${horizon}
  )
  SELECT EXISTS (SELECT FROM finished) OR EXISTS (SELECT FROM open_message) OR EXISTS (SELECT FROM open_delivery)
    OR EXISTS (SELECT FROM open_endpoint) AS more`,
    ([row]) => row?.more === true
  )

/**
 * The messages of the client's conversations and of campaigns. The id of a campaign's message derives from audience, client, route
 * and retry (`Runner/Release.ts`), so it is found by its key even if its recipient was removed.
 */
const messages = (sql: Sql) => sql`
  message AS MATERIALIZED (
    SELECT erasure.project_id, erasure_id, reply.id FROM erasure, unnest(conversation_ids) AS conversation (id), LATERAL (
      SELECT id FROM messages
      WHERE project_id = erasure.project_id AND conversation_id = conversation.id AND address <> ''
      LIMIT ${sql.literal(most)}
    ) AS reply
    UNION ALL
    SELECT erasure.project_id, erasure_id, sent.id FROM erasure, LATERAL (
      SELECT ${sql.literal(messageId("retry"))} AS id FROM (
        SELECT audiences.project_id, audiences.id AS audience_id, erasure.client_id, kind, retry
        FROM audiences, unnest(ARRAY['primary', 'fallback']) AS kind, generate_series(0, audiences.retries) AS retry
        WHERE audiences.project_id = erasure.project_id
      ) AS recipient
    ) AS possible, LATERAL (
      SELECT id FROM messages WHERE project_id = erasure.project_id AND id = possible.id AND address <> '' OFFSET 0
    ) AS sent
  ),
  open_message AS MATERIALIZED (
    SELECT messages.project_id, messages.id FROM (SELECT * FROM message LIMIT ${sql.literal(most)}) AS message
      JOIN messages ON messages.project_id = message.project_id AND messages.id = message.id
    FOR NO KEY UPDATE OF messages SKIP LOCKED
  ),
  erased_message AS (
    UPDATE messages SET address = '', text = '', attempt_log = ${without("reason")(sql)}
    FROM open_message WHERE messages.project_id = open_message.project_id AND messages.id = open_message.id
  )`

/** The deliveries of the client's events. */
const deliveries = (sql: Sql) => sql`
  delivery AS MATERIALIZED (
    SELECT erasure.project_id, erasure_id, answered.id FROM erasure, LATERAL (
      SELECT answered.id FROM events, LATERAL (
        SELECT id FROM deliveries
        WHERE project_id = events.project_id AND event_id = events.id AND event_id IS NOT NULL
          AND attempt_log @? '$[*].responseBody'
        OFFSET 0
      ) AS answered
      WHERE events.project_id = erasure.project_id AND ${eventsOf(sql, sql.literal("erasure.client_id"))}
      LIMIT ${sql.literal(most)}
    ) AS answered
  ),
  open_delivery AS MATERIALIZED (
    SELECT deliveries.project_id, deliveries.id FROM (SELECT * FROM delivery LIMIT ${sql.literal(most)}) AS delivery
      JOIN deliveries ON deliveries.project_id = delivery.project_id AND deliveries.id = delivery.id
    FOR NO KEY UPDATE OF deliveries SKIP LOCKED
  ),
  erased_delivery AS (
    UPDATE deliveries SET attempt_log = ${without("responseBody")(sql)}
    FROM open_delivery WHERE deliveries.project_id = open_delivery.project_id AND deliveries.id = open_delivery.id
  )`

/** The last failures of the project's endpoints, if events of the client were stored, unless they have come since the erasure. */
const health = (sql: Sql) => sql`
  endpoint AS MATERIALIZED (
    SELECT erasure.project_id, erasure_id, failed.installation_id FROM erasure, LATERAL (
      SELECT installation_id FROM endpoint_health
      WHERE project_id = erasure.project_id AND last_failure ->> 'responseBody' IS NOT NULL
        AND (last_failure ->> 'at')::timestamptz < erasure.erased_at + interval '30 seconds'
        AND (SELECT true FROM events WHERE events.project_id = erasure.project_id AND ${eventsOf(sql, sql.literal("erasure.client_id"))} LIMIT 1)
    ) AS failed
  ),
  open_endpoint AS MATERIALIZED (
    SELECT endpoint_health.project_id, endpoint_health.installation_id FROM endpoint
      JOIN endpoint_health ON endpoint_health.project_id = endpoint.project_id
        AND endpoint_health.installation_id = endpoint.installation_id
    FOR NO KEY UPDATE OF endpoint_health SKIP LOCKED
  ),
  erased_failure AS (
    UPDATE endpoint_health SET last_failure = (last_failure::jsonb - 'responseBody')::json
    FROM open_endpoint
    WHERE endpoint_health.project_id = open_endpoint.project_id
      AND endpoint_health.installation_id = open_endpoint.installation_id
  )`

/** An SQL expression: the attempt log without a member of its entries. */
const without = (member: "reason" | "responseBody") => (sql: Sql) =>
  sql.literal(`coalesce((
    SELECT jsonb_agg(entry - '${member}' ORDER BY place)
    FROM jsonb_array_elements(attempt_log) WITH ORDINALITY AS log (entry, place)
  ), '[]')`)
