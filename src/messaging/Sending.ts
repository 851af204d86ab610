/** Text replies: a message is sent once, and a repeated request only asks what became of it (contract §8). */
import { Context, Duration, Effect, Layer, Option, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { type ConversationId, MessageId, type ProjectId } from "../api/Ids.ts"
import {
  type ConversationNotFound,
  type IdempotencyKeyReused,
  ProviderOutcomeUnknown,
  type ServiceUnavailable
} from "../api/Problems.ts"
import { statement } from "../platform/Database.ts"
import { type Command, mutate } from "../platform/idempotency/Idempotency.ts"
import { Mutations } from "../platform/idempotency/Mutations.ts"
import { newId } from "../platform/NewId.ts"
import { causeOf } from "../platform/outbox/Outbox.ts"
import { Settings } from "../platform/Settings.ts"
import { databaseNow, later } from "../platform/DatabaseClock.ts"
import { Calls } from "./Calls.ts"
import { create, type Destination, find, type Message } from "./Messages/Record.ts"

/** Names the message that is on record, though nobody can tell how it stands. */
const known = <A>(messageId: MessageId, message: Effect.Effect<A, ServiceUnavailable>) =>
  Effect.mapError(
    message,
    ({ detail = "" }) => new ProviderOutcomeUnknown({ detail: `${detail} Keep the idempotency-key.`, messageId })
  )

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
    ) => Effect.Effect<Sent, IdempotencyKeyReused | ConversationNotFound | ProviderOutcomeUnknown | ServiceUnavailable>
  }
>()("developer-api/messaging/Sending") {
  static readonly layer = Layer.effect(
    Sending,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const mutations = yield* Mutations
      const calls = yield* Calls
      const { providerTimeout } = yield* Settings
      const now = yield* databaseNow(sql)

      const current = (projectId: ProjectId, id: MessageId) =>
        now.pipe(
          Effect.flatMap((now) => statement(find(sql, now, projectId, id))),
          Effect.flatMap(([message]) =>
            message === undefined ? Effect.die(new Error(`Message ${id} is gone`)) : Effect.succeed(message)
          )
        )

      /** As it is once the first call has had its time, whichever process makes it. */
      const settled = Effect.fnUntraced(function* (projectId: ProjectId, id: MessageId) {
        return yield* current(projectId, id).pipe(
          Effect.repeat({
            schedule: Schedule.spaced(Duration.millis(100)),
            while: isCalling
          })
        )
      })

      // A call that took all its time has yet to be recorded, and those who wait are told what it came to, too.
      const patience = Duration.toMillis(Duration.sum(providerTimeout, Duration.seconds(2)))
      // The creation is by the clock of the process that made it, which may be ahead: the end of the lease holds, too.
      const atLeast = Duration.toMillis(calls.lease) - patience
      const isCalling = ({ ageMillis, deliveryStatus, waitMillis }: Message) =>
        deliveryStatus === "pending" && ageMillis < patience && waitMillis !== null && waitMillis > atLeast

      return {
        // Who hangs up while the message is being committed leaves none that nobody calls for.
        send: Effect.fnUntraced(function* (command, conversationId, text) {
          const { projectId } = command
          const cause = yield* causeOf(projectId)
          const messageId = MessageId.make(yield* newId("msg"))
          const leaseEnd = later(sql, yield* now, Duration.toMillis(calls.lease))
          const { replayed, resourceId, returned } = yield* mutate<ConversationNotFound, Destination>(
            mutations,
            command,
            create(sql, cause, { id: messageId, conversationId, text }, leaseEnd)
          )
          if (replayed || returned === null) {
            const id = MessageId.make(resourceId)
            return { message: yield* known(id, Effect.interruptible(settled(projectId, id))), replayed }
          }
          const asItIs = current(projectId, messageId)
          if (returned.status === "revoked") return { message: yield* known(messageId, asItIs), replayed }
          const call = calls.make({
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
          const recorded = Effect.flatMap(call, Option.match({ onNone: () => asItIs, onSome: Effect.succeed }))
          return { message: yield* known(messageId, recorded), replayed }
        }, Effect.uninterruptible)
      }
    })
  )
}
