/** The commands with which operators list and settle messages (contract §13). */
import { DateTime, Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { ProjectId } from "../api/schema/Ids.ts"
import type { MessageStatus } from "../api/messaging/Messaging.ts"
import { Operator } from "../platform/operators/Audit.ts"
import { requireProject } from "../platform/operators/ProjectUnknown.ts"
import { lacks, Refused } from "../platform/operators/Refused.ts"
import { complete, type Range } from "../platform/operators/Search.ts"
import { exists, find } from "./MessageList.ts"
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
