/**
 * Gives up the messages that cancelled campaigns have left, and deletes the audiences that no campaign references, and the
 * recipients of campaigns that ended `MESSAGE_RETENTION` ago. The audience of an ended campaign stays, with its counts. So does, without
 * recipients, an abandoned one for as long as its messages, to which its id leads (`ErasedTexts.ts`): until those of unknown outcome are
 * settled, and for `MESSAGE_RETENTION` from then on. Batches are small, so that commands wait only briefly. Each row is locked with SKIP
 * LOCKED before it is changed.
 */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { giveUpMessages } from "../messaging/CampaignMessages.ts"
import { batch } from "../work/Retention.ts"
import { isAwake } from "../platform/Moves.ts"

interface Pruned {
  readonly more: boolean
}

export const pruneAudiences = (sql: SqlClient.SqlClient, horizon: Date) => {
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

  /** Deletes a batch of recipients of the audiences in `target`. `emptied` has the audiences without recipients. */
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
      SELECT * FROM target WHERE NOT EXISTS (
        SELECT FROM campaign_recipients AS recipient
        WHERE recipient.project_id = target.project_id AND recipient.audience_id = target.audience_id
      )
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
