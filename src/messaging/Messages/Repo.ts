/** SQL with which an operator decides the outcome of a message. */
import type { SqlClient } from "effect/sql"
import type { ProjectId } from "../../api/schema/Ids.ts"
import type { MessageStatus } from "../../api/messaging/Messaging.ts"
import { recordAction } from "../../operators/Audit.ts"
import { endedLog } from "./Record.ts"
import { after, attemptAfter, before, type Move } from "./States.ts"

type Sql = SqlClient.SqlClient

/**
 * Settles a message of unknown outcome and, if it belongs to a campaign, its recipient. An attempt in flight can no longer
 * record its outcome. Locks the recipient, then the message, then the counts of the audience. `campaigns/Runner/Release.ts`
 * locks in the same order.
 */
export const settle = (
  sql: Sql,
  projectId: ProjectId,
  id: string,
  move: Extract<Move, `settled_${string}`>,
  at: Date,
  actor: string
) => {
  const to = after(move)
  const entry = { status: attemptAfter[move], finishedAt: at.toISOString() }
  return sql<{ readonly status: MessageStatus; readonly settled: boolean }>`
    WITH recipient AS MATERIALIZED (
      SELECT recipient.* FROM messages JOIN campaign_recipients AS recipient USING (project_id, audience_id, position)
      WHERE messages.project_id = ${projectId} AND messages.id = ${id} AND recipient.message_id = messages.id
      FOR NO KEY UPDATE OF recipient
    ),
    target AS MATERIALIZED (
      SELECT status FROM messages
      WHERE project_id = ${projectId} AND id = ${id} AND (SELECT count(*) FROM recipient) >= 0 FOR NO KEY UPDATE
    ),
    settled AS (
      UPDATE messages SET status = ${to}, attempting = false, worker_id = NULL, available_at = NULL,
        updated_at = greatest(messages.updated_at, ${at}::timestamptz),
        attempt_log = CASE WHEN attempting
          THEN jsonb_set(attempt_log, '{-1}', attempt_log -> -1 || ${JSON.stringify(entry)}::jsonb)
          ELSE ${sql.literal(endedLog)} END
      FROM target
      WHERE messages.project_id = ${projectId} AND messages.id = ${id} AND target.status = ANY(${[...before(move)]}::text[])
      RETURNING messages.project_id, messages.attempt_log -> -1 ->> 'errorCode' AS error
    ),
    reached AS (
      UPDATE campaign_recipients SET status = ${to}, available_at = NULL, error_code = settled.error FROM settled, recipient
      WHERE campaign_recipients.project_id = recipient.project_id
        AND campaign_recipients.audience_id = recipient.audience_id
        AND campaign_recipients.position = recipient.position
    ),
    ${recordAction(sql, { actor, action: "message.settle", target: id, detail: { as: to } }, "settled")}
    SELECT status, EXISTS (SELECT FROM settled) AS settled FROM target`
}
