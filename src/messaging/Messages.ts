/** The commands with which operators list, open and settle messages (contract §13). */
import { DateTime, Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { ProjectId } from "../api/schema/Ids.ts"
import type { MessageStatus } from "../api/messaging/Messaging.ts"
import { Operator, recordAction } from "../operators/Audit.ts"
import { lacks, Refused, requireProject, servedProject } from "../operators/Refusals.ts"
import { complete, type RangeByAge, showing } from "../operators/Search.ts"
import { details, exists, type Filter, find } from "./MessageList.ts"
import { endedLog } from "./Messages/Record.ts"
import { after, attemptAfter, before, type Move } from "./Messages/States.ts"

export const listMessages = Effect.fn("listMessages")(function* (
  projectId: ProjectId,
  filter: Filter,
  range: RangeByAge
) {
  const { after } = range
  const sql = yield* SqlClient.SqlClient
  yield* requireProject(sql, projectId)
  if (after !== null && !(yield* exists(sql, projectId, after))) return yield* lacks(projectId, "message", after)
  return yield* complete(
    (range) => find(sql, projectId, filter, range),
    range,
    ({ messageId }) => messageId
  )
})

export const findMessage = showing("findMessage", "message", details)

/** Reads the address and the text of a message. The same statement writes the audit entry. Both are empty once the client is erased. */
export const openMessage = Effect.fn("openMessage")(function* (projectId: ProjectId, messageId: string) {
  const sql = yield* SqlClient.SqlClient
  yield* requireProject(sql, projectId)
  const { actor } = yield* Operator
  const [found] = yield* sql<{ readonly address: string; readonly text: string }>`
    WITH ${servedProject(sql, projectId)},
    opened AS (
      SELECT messages.project_id, address, text FROM project JOIN messages USING (project_id) WHERE messages.id = ${messageId}
    ),
    ${recordAction(sql, { actor, action: "message.show", target: messageId }, "opened")}
    SELECT address, text FROM opened`
  return found ?? (yield* lacks(projectId, "message", messageId))
})

/** Settles a message of unknown outcome. It is no error if the message already has the outcome `as`. */
export const settleMessage = Effect.fn("settleMessage")(function* (
  projectId: ProjectId,
  messageId: string,
  as: "sent" | "failed"
) {
  const sql = yield* SqlClient.SqlClient
  yield* requireProject(sql, projectId)
  const { actor } = yield* Operator
  const at = yield* DateTime.nowAsDate
  const [found] = yield* settle(sql, projectId, messageId, `settled_${as}`, at, actor)
  if (found === undefined) return yield* lacks(projectId, "message", messageId)
  if (!found.settled && found.status !== as) {
    const message = `Message "${messageId}" is ${found.status}: only one whose outcome is unknown can be settled`
    return yield* new Refused({ message })
  }
})

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
      RETURNING messages.project_id, messages.audience_id, messages.attempt_log -> -1 ->> 'errorCode' AS error
    ),
    reached AS (
      UPDATE campaign_recipients SET status = ${to}, available_at = NULL, error_code = settled.error FROM settled, recipient
      WHERE campaign_recipients.project_id = recipient.project_id
        AND campaign_recipients.audience_id = recipient.audience_id
        AND campaign_recipients.position = recipient.position
    ),
    -- The audience of a deleted campaign is kept for as long as this message.
    kept AS (
      UPDATE audiences SET abandoned_at = ${at} FROM settled
      WHERE audiences.project_id = settled.project_id AND audiences.id = settled.audience_id AND abandoned_at IS NOT NULL
    ),
    ${recordAction(sql, { actor, action: "message.settle", target: id, detail: { as: to } }, "settled")}
    SELECT status, EXISTS (SELECT FROM settled) AS settled FROM target`
}
