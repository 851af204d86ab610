/**
 * Removes what campaigns and erased clients leave behind. Batches are small, so that commands wait only briefly. Each row is locked with
 * SKIP LOCKED before it is changed.
 */
import { Effect } from "effect"
import type { SqlClient as Sql } from "effect/sql/SqlClient"
import { giveUpMessages } from "../messaging/Claim.ts"
import { batch } from "../work/Retention.ts"
import { isAwake } from "../platform/MoveState.ts"
import { later } from "../sql/Times.ts"
import { eventsOf } from "../crm/ClientColumns.ts"
import { messageId } from "./Recipients.ts"

interface Pruned {
  readonly more: boolean
}

/**
 * Gives up the messages that cancelled campaigns have left. Deletes the audiences that no campaign references, and the recipients of
 * campaigns that ended `MESSAGE_RETENTION` ago. The audience of an ended campaign stays, with its counts. An abandoned audience loses its
 * recipients, but stays for as long as its messages, because `eraseTexts` finds them by its id: until those of unknown outcome
 * are settled, and for `MESSAGE_RETENTION` from then on.
 */
export const pruneAudiences = (sql: Sql, horizon: Date) => {
  const most = sql.literal(String(batch))

  /** Maximum number of audiences that one statement visits. */
  const visited = sql.literal("100")

  /**
   * Gives up the messages that wait for another attempt, but whose campaign is cancelled or deleted. Their recipients stay
   * `pending`, without a time.
   */
  const giveUp = sql<Pruned>`
    WITH ended AS (
      SELECT project_id, id AS audience_id FROM audiences WHERE abandoned_at IS NOT NULL AND ${isAwake(sql, "project_id")}
      UNION ALL
      SELECT project_id, audience_id FROM campaigns
      WHERE status IN ('completed', 'cancelled') AND status = 'cancelled' AND NOT recipients_removed
        AND audience_id IS NOT NULL AND ${isAwake(sql, "project_id")}
    ),
    waiting AS MATERIALIZED (
      SELECT recipient.* FROM ended, LATERAL (
        SELECT project_id, audience_id, position, message_id, in_doubt FROM campaign_recipients
        WHERE project_id = ended.project_id AND audience_id = ended.audience_id
          AND status = 'pending' AND available_at IS NOT NULL
        ORDER BY available_at, position LIMIT ${most} FOR NO KEY UPDATE SKIP LOCKED
      ) recipient LIMIT ${most}
    ),
    abandoned AS MATERIALIZED (
      SELECT waiting.* FROM waiting JOIN messages ON messages.project_id = waiting.project_id AND messages.id = message_id
      FOR NO KEY UPDATE OF messages SKIP LOCKED
    ),
    given_up AS (${giveUpMessages(sql, sql`now()`)}),
    stopped AS (
      UPDATE campaign_recipients AS recipient SET available_at = NULL FROM waiting
      WHERE recipient.project_id = waiting.project_id AND recipient.audience_id = waiting.audience_id
        AND recipient.position = waiting.position
        AND (waiting.message_id IS NULL OR (waiting.project_id, waiting.message_id) IN (SELECT project_id, message_id FROM abandoned))
      RETURNING 1
    )
    SELECT count(*) = ${most} AS more FROM stopped`

  /**
   * Deletes a batch of recipients of the audiences in `target`. `emptied` has the audiences without recipients. With NOT EXISTS,
   * PostgreSQL might read the recipients of all audiences for each of these.
   */
  const recipients = sql`
    batch AS MATERIALIZED (
      SELECT recipient.* FROM target, LATERAL (
        SELECT project_id, audience_id, position FROM campaign_recipients
        WHERE project_id = target.project_id AND audience_id = target.audience_id AND available_at IS NULL
        ORDER BY position LIMIT ${most} FOR UPDATE SKIP LOCKED
      ) recipient LIMIT ${most}
    ),
    recipients AS (
      DELETE FROM campaign_recipients USING batch
      WHERE campaign_recipients.project_id = batch.project_id
        AND campaign_recipients.audience_id = batch.audience_id AND campaign_recipients.position = batch.position
    ),
    emptied AS (
      SELECT * FROM target WHERE (
        SELECT true FROM campaign_recipients AS recipient
        WHERE recipient.project_id = target.project_id AND recipient.audience_id = target.audience_id LIMIT 1
      ) IS NULL
    )`

  /**
   * Whether no recipient of an audience is `sending`. Otherwise the audience waits until the outcomes of these recipients are
   * collected.
   */
  const isQuiet = (audience: string) => sql`NOT EXISTS (
      SELECT FROM campaign_recipients recipient
      WHERE (recipient.project_id, recipient.audience_id) = (${sql.literal(audience)}) AND recipient.status = 'sending'
    )`

  const pruneAbandoned = sql<Pruned>`
    WITH target AS MATERIALIZED (
      SELECT project_id, id AS audience_id FROM audiences
      WHERE abandoned_at IS NOT NULL AND ${isAwake(sql, "project_id")}
        AND ${isQuiet("audiences.project_id, audiences.id")}
        -- No EXISTS, for which PostgreSQL 15 would read all recipients below an OR.
        AND (abandoned_at < ${horizon} AND (
          SELECT true FROM messages
          WHERE messages.project_id = audiences.project_id AND audience_id = audiences.id AND status = 'unknown' LIMIT 1
        ) IS NULL OR (
          SELECT true FROM campaign_recipients AS recipient
          WHERE recipient.project_id = audiences.project_id AND recipient.audience_id = audiences.id LIMIT 1
        ))
      ORDER BY project_id, id LIMIT ${visited} FOR UPDATE SKIP LOCKED
    ),
    ${recipients},
    removed AS (
      DELETE FROM audiences USING emptied
      WHERE audiences.project_id = emptied.project_id AND audiences.id = emptied.audience_id
      RETURNING 1
    )
    SELECT EXISTS (SELECT FROM batch) OR EXISTS (SELECT FROM removed) AS more`

  const pruneEnded = sql<Pruned>`
    WITH target AS MATERIALIZED (
      SELECT ended.* FROM projects, LATERAL (
        SELECT project_id, id, audience_id FROM campaigns
        WHERE project_id = projects.project_id AND ${isAwake(sql, "project_id")} AND updated_at < ${horizon}
          AND status IN ('completed', 'cancelled') AND NOT recipients_removed
          AND ${isQuiet("campaigns.project_id, campaigns.audience_id")}
        ORDER BY updated_at LIMIT ${visited} FOR NO KEY UPDATE SKIP LOCKED
      ) ended LIMIT ${visited}
    ),
    ${recipients},
    marked AS (
      UPDATE campaigns SET recipients_removed = true FROM emptied
      WHERE campaigns.project_id = emptied.project_id AND campaigns.id = emptied.id
      RETURNING 1
    )
    SELECT EXISTS (SELECT FROM batch) OR EXISTS (SELECT FROM marked) AS more`

  return Effect.map(Effect.all([giveUp, pruneAbandoned, pruneEnded]), (steps) => steps.flat().some(({ more }) => more))
}

const most = String(batch)

/**
 * Removes a batch of texts of clients that were erased (`crm/Clients/Erase.ts`): addresses and texts of the messages to them, and what
 * providers and receivers of events have answered, which may repeat them. Until then, `getDelivery` can show what a receiver has answered,
 * and no other operation shows any of these (contract §7).
 *
 * A statement that began before the erasure may store a text after a pass: a send, a release of a recipient, a result. All of them have
 * ended `age` milliseconds after the erasure, by the database's clock. So a pass removes the erasure only if it is that old, and the pass
 * finds no text. The next run finds what another transaction has locked. Returns whether more may be left.
 *
 * The cost grows with the audiences of the project. So each statement serves one erasure, in a random order: one that takes too long for a
 * statement does not keep those of other projects waiting.
 */
export const eraseTexts = (sql: Sql, age: number) => {
  const horizon = later(sql, sql`now()`, -age)
  return Effect.map(
    sql<Pruned>`
  WITH erasure AS MATERIALIZED (
    SELECT project_id, id AS erasure_id, client_id, conversation_ids, erased_at FROM erasures
    WHERE (NOT passed OR erased_at < ${horizon}) AND ${isAwake(sql, "project_id")}
    ORDER BY random() LIMIT 1 FOR UPDATE SKIP LOCKED
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
}

/**
 * The messages of the client's conversations and of campaigns. The id of a campaign's message derives from audience, client, route
 * and retry (`Recipients.ts`), so it is found by its key even if its recipient was removed.
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
    UPDATE messages SET address = '', text = '', attempt_log = ${without(sql, "reason")}
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
    UPDATE deliveries SET attempt_log = ${without(sql, "responseBody")}
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
const without = (sql: Sql, member: "reason" | "responseBody") =>
  sql.literal(`coalesce((
    SELECT jsonb_agg(entry - '${member}' ORDER BY place)
    FROM jsonb_array_elements(attempt_log) WITH ORDINALITY AS log (entry, place)
  ), '[]')`)
