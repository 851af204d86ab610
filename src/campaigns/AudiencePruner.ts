/**
 * Deletes the audiences that no campaign references, and the recipients of campaigns that ended `MESSAGE_RETENTION` ago. The
 * audience of an ended campaign stays, with its counts. Batches are small, so that commands wait only briefly.
 */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { giveUpMessages } from "../messaging/CampaignMessages.ts"
import { batch, pruning } from "../platform/background/Retention.ts"
import { isAwake } from "../platform/Moves.ts"

const prune = (sql: SqlClient.SqlClient, horizon: Date) => {
  /**
   * Deletes a batch of recipients of the audience in `target`, and gives up their waiting messages. `target` uses SKIP LOCKED,
   * so that processes share the work.
   */
  const recipients = sql`
    batch AS MATERIALIZED (
      SELECT recipient.* FROM target, LATERAL (
        SELECT project_id, audience_id, position, message_id, in_doubt FROM campaign_recipients
        WHERE project_id = target.project_id AND audience_id = target.audience_id
        ORDER BY position LIMIT ${sql.literal(String(batch))}
      ) recipient
    ),
    recipients AS (
      DELETE FROM campaign_recipients USING batch
      WHERE campaign_recipients.project_id = batch.project_id
        AND campaign_recipients.audience_id = batch.audience_id AND campaign_recipients.position = batch.position
    ),
    abandoned AS (SELECT project_id, message_id, in_doubt FROM batch WHERE message_id IS NOT NULL),
    given_up AS (${giveUpMessages(sql, sql`now()`)}),
    rest AS (SELECT count(*) = ${sql.literal(String(batch))} AS more FROM batch)`

  /**
   * Whether no recipient of an audience is `sending`. Otherwise the audience waits until the outcomes of these recipients are
   * collected.
   */
  const isQuiet = (audience: string) => sql`NOT EXISTS (
      SELECT FROM campaign_recipients recipient
      WHERE (recipient.project_id, recipient.audience_id) = (${sql.literal(audience)}) AND recipient.status = 'sending'
    )`

  /** Deletes a batch of recipients of an audience that no campaign references. The last batch also deletes the audience. */
  const pruneAbandoned = sql`
    WITH target AS MATERIALIZED (
      SELECT project_id, id AS audience_id FROM audiences
      WHERE abandoned_at IS NOT NULL AND ${isAwake(sql, "project_id")}
        AND ${isQuiet("audiences.project_id, audiences.id")}
      ORDER BY project_id, id LIMIT 1 FOR UPDATE SKIP LOCKED
    ),
    ${recipients},
    removed AS (
      DELETE FROM audiences USING target, rest
      WHERE audiences.project_id = target.project_id AND audiences.id = target.audience_id AND NOT more
    )
    SELECT FROM target`

  /** Deletes a batch of recipients of a campaign that ended before `horizon`. The last batch sets `recipients_removed`. */
  const pruneEnded = sql`
    WITH target AS MATERIALIZED (
      SELECT ended.* FROM projects, LATERAL (
        SELECT project_id, id, audience_id FROM campaigns
        WHERE project_id = projects.project_id AND ${isAwake(sql, "project_id")} AND updated_at < ${horizon}
          AND status IN ('completed', 'cancelled') AND NOT recipients_removed
          AND ${isQuiet("campaigns.project_id, campaigns.audience_id")}
        ORDER BY updated_at LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
      ) ended LIMIT 1
    ),
    ${recipients},
    marked AS (
      UPDATE campaigns SET recipients_removed = NOT more
      FROM target, rest
      WHERE campaigns.project_id = target.project_id AND campaigns.id = target.id
    )
    SELECT FROM target`

  return Effect.map(Effect.all([pruneAbandoned, pruneEnded]), (found) => found.some((rows) => rows.length > 0))
}

export const layer = pruning("audience pruning", ({ messageRetention }) => messageRetention, prune)
