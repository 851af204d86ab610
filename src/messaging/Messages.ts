/** The commands with which operators list and settle messages (contract §13). */
import { Context, Data, DateTime, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import type { ProjectId } from "../api/schema/Ids.ts"
import type { MessageStatus } from "../api/messaging/Messaging.ts"
import { isAwake } from "../platform/Moves.ts"
import { Operator } from "../platform/operators/Audit.ts"
import { requireProject, type ProjectUnknown } from "../platform/operators/ProjectUnknown.ts"
import { complete, type Found, type Range } from "../platform/operators/Search.ts"
import { exists, find, type Listed, needsDecision } from "./MessageList.ts"
import { settle } from "./Messages/Repo.ts"

/** A message does not exist, or its state does not allow the command. */
export class MessageRefused extends Data.TaggedError("MessageRefused")<{ readonly message: string }> {}

const messageUnknown = (projectId: ProjectId, id: string) =>
  new MessageRefused({ message: `Project "${projectId}" has no message "${id}"` })

export class Messages extends Context.Service<
  Messages,
  {
    /** Lists the messages of a project, optionally of one status, newest first. */
    readonly list: (
      projectId: ProjectId,
      status: MessageStatus | null,
      range: Range
    ) => Effect.Effect<Found<Listed>, ProjectUnknown | MessageRefused>

    /** Records the outcome of a message whose outcome is unknown. A message that has this outcome already is unchanged. */
    readonly settle: (
      projectId: ProjectId,
      id: string,
      as: "sent" | "failed"
    ) => Effect.Effect<void, ProjectUnknown | MessageRefused, Operator>
  }
>()("developer-api/messaging/Messages") {
  static readonly layer = Layer.effect(
    Messages,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      return {
        list: Effect.fn("Messages.list")(function* (projectId, status, range) {
          const { after: messageId } = range
          yield* requireProject(sql, projectId)
          if (messageId !== null && !(yield* Effect.orDie(exists(sql, projectId, messageId)))) {
            return yield* messageUnknown(projectId, messageId)
          }
          const search = (range: Range) => Effect.orDie(find(sql, projectId, status, range))
          return yield* complete(search, range, (message) => message.messageId)
        }),
        settle: Effect.fn("Messages.settle")(function* (projectId, messageId, as) {
          yield* requireProject(sql, projectId)
          const { actor } = yield* Operator
          const at = yield* DateTime.nowAsDate
          const [found] = yield* Effect.orDie(settle(sql, projectId, messageId, `settled_${as}`, at, actor))
          if (found === undefined) return yield* messageUnknown(projectId, messageId)
          if (!found.settled && found.status !== as) {
            const message = `Message "${messageId}" is ${found.status}: only one whose outcome is unknown can be settled`
            return yield* new MessageRefused({ message })
          }
        })
      }
    })
  )
}

/**
 * Counts two kinds of messages of all projects: messages that wait for an operator (up to 10,000; `project` is one of their
 * projects), and messages whose lease ended more than a minute ago without a takeover. Leaves out projects at rest, which another
 * database may serve.
 */
export const countStuck = Effect.fn("Messages.countStuck")(function* (sql: SqlClient.SqlClient) {
  const [row] = yield* sql<{ readonly unsettled: number; readonly project: string | null; readonly abandoned: number }>`
    SELECT counted.*,
      (SELECT count(*)::int FROM messages
        WHERE attempting AND available_at < now() - interval '1 minute' AND ${isAwake(sql, "project_id")}) AS abandoned
    FROM (
      SELECT count(*)::int AS unsettled, min(project_id) AS project FROM (
        SELECT project_id FROM messages WHERE ${sql.literal(needsDecision)} AND ${isAwake(sql, "project_id")} LIMIT 10000
      ) found
    ) counted`
  return row ?? { unsettled: 0, project: null, abandoned: 0 }
})
