/** The commands with which operators list, open and settle messages (contract §13). */
import { DateTime, Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { ProjectId } from "../api/schema/Ids.ts"
import type { MessageStatus } from "../api/messaging/Messaging.ts"
import { lookupOne } from "../sql/Lookups.ts"
import { Operator, recordAction } from "../operators/Audit.ts"
import { requireProject, servedProject } from "../operators/ProjectUnknown.ts"
import { lacks, Refused } from "../operators/Refused.ts"
import { complete, type Range } from "../operators/Search.ts"
import { details, exists, find } from "./MessageList.ts"
import { settle } from "./Messages/Repo.ts"

export const listMessages = Effect.fn("listMessages")(function* (
  projectId: ProjectId,
  status: MessageStatus | null,
  range: Range
) {
  const { after } = range
  const sql = yield* SqlClient.SqlClient
  yield* requireProject(sql, projectId)
  if (after !== null && !(yield* exists(sql, projectId, after))) return yield* lacks(projectId, "message", after)
  return yield* complete(
    (range) => find(sql, projectId, status, range),
    range,
    ({ messageId }) => messageId
  )
})

export const findMessage = Effect.fn("findMessage")(function* (projectId: ProjectId, messageId: string) {
  const sql = yield* SqlClient.SqlClient
  yield* requireProject(sql, projectId)
  return (
    (yield* lookupOne(sql, details(sql), { projectId, id: messageId })) ??
    (yield* lacks(projectId, "message", messageId))
  )
})

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
