/** What the deliverers are told by NOTIFY. */
import { PgClient } from "@effect/sql-pg"
import { Context, Duration, Effect, Layer, Queue, Schedule } from "effect"
import { listenerLayer } from "../../platform/Database.ts"
import { channel } from "../../platform/outbox/Wake.ts"

/** Tells of each NOTIFY, on a connection of its own, anew when that breaks. */
export const notices = (heard: (payload: string) => Effect.Effect<unknown>) =>
  Effect.gen(function* () {
    const client = Context.get(yield* Layer.build(listenerLayer), PgClient.PgClient)
    const notified = yield* client.listen(channel)
    return yield* Effect.forever(Effect.flatMap(Queue.take(notified), ({ payload }) => heard(payload)))
  }).pipe(
    Effect.scoped,
    Effect.catchCause((cause) => Effect.logDebug("Listening for deliveries broke off", cause)),
    Effect.repeat(Schedule.spaced(Duration.seconds(1)))
  )
