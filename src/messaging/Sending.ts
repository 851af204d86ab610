/** Text replies: a message is sent once, and a repeated request only asks what became of it (contract §8). */
import { Clock, Context, Duration, Effect, Layer, Option, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { type ConversationId, MessageId, type ProjectId } from "../api/Ids.ts"
import type { ConversationNotFound, IdempotencyKeyReused, ServiceUnavailable } from "../api/Problems.ts"
import { statement } from "../platform/Database.ts"
import { type Command, mutate } from "../platform/idempotency/Idempotency.ts"
import { newId } from "../platform/NewId.ts"
import { causeOf } from "../platform/outbox/Outbox.ts"
import { Settings } from "../platform/Settings.ts"
import { Calls } from "./Calls.ts"
import { create, type Destination, find, type Message } from "./Messages/Record.ts"

/** A message as it stands, and whether an earlier request has made it. */
export interface Sent {
  readonly message: Message
  readonly replayed: boolean
}

export class Sending extends Context.Service<
  Sending,
  {
    /**
     * Makes the message, and calls the provider. Under a key that is known it calls nobody, and waits for a call that is
     * under way.
     */
    readonly send: (
      command: Command,
      conversationId: ConversationId,
      text: string
    ) => Effect.Effect<Sent, IdempotencyKeyReused | ConversationNotFound | ServiceUnavailable>
  }
>()("developer-api/messaging/Sending") {
  static readonly layer = Layer.effect(
    Sending,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const calls = yield* Calls
      const { providerTimeout } = yield* Settings

      const current = (projectId: ProjectId, id: MessageId) =>
        Effect.flatMap(statement(find(sql, projectId, id)), ([message]) =>
          message === undefined ? Effect.die(new Error(`Message ${id} is gone`)) : Effect.succeed(message)
        )

      /** As it is once the first call has had its time, whichever process makes it. */
      const settled = Effect.fnUntraced(function* (projectId: ProjectId, id: MessageId) {
        return yield* current(projectId, id).pipe(
          Effect.repeat({
            schedule: Schedule.spaced(Duration.millis(100)),
            while: (message) => Effect.map(Clock.currentTimeMillis, (now) => isCalling(message, now))
          })
        )
      })

      const isCalling = ({ createdAt, deliveryStatus }: Message, now: number) =>
        deliveryStatus === "pending" && now < Date.parse(createdAt) + Duration.toMillis(providerTimeout)

      return {
        // Who hangs up while the message is being committed leaves none that nobody calls for.
        send: Effect.fnUntraced(function* (command, conversationId, text) {
          const { projectId } = command
          const cause = yield* causeOf(projectId)
          const messageId = MessageId.make(yield* newId("msg"))
          const leaseEnd = new Date(cause.at.getTime() + Duration.toMillis(calls.lease))
          const { replayed, resourceId, returned } = yield* mutate<ConversationNotFound, Destination>(
            sql,
            command,
            create(sql, cause, { id: messageId, conversationId, text }, leaseEnd)
          )
          if (replayed || returned === null) {
            return { message: yield* Effect.interruptible(settled(projectId, MessageId.make(resourceId))), replayed }
          }
          if (returned.status === "revoked") return { message: yield* current(projectId, messageId), replayed }
          const recorded = yield* calls.make({
            projectId,
            messageId,
            conversationId,
            ...returned,
            config: Buffer.from(returned.config, "hex"),
            text,
            number: 1,
            inDoubt: false,
            traceparent: cause.traceparent
          })
          const message = yield* Option.match(recorded, {
            onNone: () => current(projectId, messageId),
            onSome: Effect.succeed
          })
          return { message, replayed }
        }, Effect.uninterruptible)
      }
    })
  )
}
