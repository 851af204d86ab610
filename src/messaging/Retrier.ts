/**
 * Sends again what a provider surely has not processed, settles what nobody knows where that can't send twice, and finds
 * what a dead process has left. Any number of processes may run it.
 */
import { Clock, Context, Duration, Effect, Layer, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { statement } from "../platform/Database.ts"
import { Calls } from "./Calls.ts"
import { type Claim, claim } from "./Messages/Attempts.ts"

/** Attempts under way in one process. */
const slots = 64
/** How often it looks for what is due. */
const lookEvery = Duration.millis(250)

export class Retrier extends Context.Service<
  Retrier,
  {
    /** Claims nothing more. */
    readonly stop: Effect.Effect<void>
  }
>()("developer-api/messaging/Retrier") {
  static readonly layer = Layer.effect(
    Retrier,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const calls = yield* Calls
      let underWay = 0
      let stopped = false

      const attempt = (claim: Claim) =>
        (claim.lost ? calls.lose(claim) : calls.make(claim)).pipe(
          Effect.catchCause((cause) => Effect.logWarning("An attempt was not recorded", cause)),
          Effect.ensuring(Effect.sync(() => void underWay--)),
          Effect.interruptible,
          Effect.forkScoped
        )

      // What a claim has leased is attempted, whatever ends meanwhile.
      const look = Effect.gen(function* () {
        if (stopped || underWay === slots) return
        const now = yield* Clock.currentTimeMillis
        const leaseEnd = new Date(now + Duration.toMillis(calls.lease))
        const claims = yield* statement(claim(sql, { now: new Date(now), leaseEnd, limit: slots - underWay }))
        underWay += claims.length
        yield* Effect.forEach(claims, attempt, { discard: true })
      }).pipe(Effect.uninterruptible)

      yield* look.pipe(
        Effect.catchCause((cause) => Effect.logWarning("Messages that are due were not claimed", cause)),
        Effect.repeat(Schedule.spaced(lookEvery)),
        Effect.forkScoped
      )
      return { stop: Effect.sync(() => void (stopped = true)) }
    })
  )
}
