/**
 * Wakes whoever delivers, on every replica, once there is something to deliver. It is told after the commit, by a
 * statement of its own: a NOTIFY inside a transaction would make all such commits wait for each other. If the process
 * dies in between, the deliverers find the delivery when they next look by themselves.
 */
import { PgClient } from "@effect/sql-pg"
import { Context, Effect, Layer, Queue } from "effect"

export const channel = "deliveries"

export class Wake extends Context.Service<
  Wake,
  {
    /** Says that there are new deliveries. */
    readonly deliverers: Effect.Effect<void>
  }
>()("developer-api/platform/outbox/Wake") {
  /** For requests, which don't wait for it: what many of them say while a NOTIFY is under way is said once. */
  static readonly layer = Layer.effect(
    Wake,
    Effect.gen(function* () {
      const sql = yield* PgClient.PgClient
      const told = yield* Queue.sliding<void>(1)
      yield* Queue.take(told).pipe(
        Effect.andThen(sql.notify(channel, "")),
        Effect.catchTag("SqlError", (error) => Effect.logDebug("The deliverers were not woken", error)),
        Effect.forever,
        Effect.forkScoped
      )
      return { deliverers: Effect.asVoid(Queue.offer(told, undefined)) }
    })
  )

  /** For commands, whose process ends right after. */
  static readonly layerInline = Layer.effect(
    Wake,
    Effect.map(PgClient.PgClient, (sql) => ({
      deliverers: sql
        .notify(channel, "")
        .pipe(Effect.catchTag("SqlError", (error) => Effect.logDebug("The deliverers were not woken", error)))
    }))
  )
}
