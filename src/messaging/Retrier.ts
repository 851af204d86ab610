/**
 * Sends again what a provider surely has not processed, settles what nobody knows where that can't send twice, and finds
 * what a dead process has left. Any number of processes may run it.
 */
import { Clock, Context, Duration, Effect, FiberSet, Layer, Semaphore } from "effect"
import { SqlClient } from "effect/sql"
import { statement } from "../platform/Database.ts"
import { every } from "../platform/Every.ts"
import { Measured } from "../platform/Measured.ts"
import { untraced } from "../platform/Telemetry.ts"
import { Calls } from "./Calls.ts"
import { type Claim, claim } from "./Messages/Attempts.ts"
import * as Metrics from "./Messages/Metrics.ts"

/** Attempts under way in one process. */
const slots = 64
/** How often it looks for what is due. */
const lookEvery = Duration.millis(250)
const measureEvery = Duration.seconds(15)

export class Retrier extends Context.Service<
  Retrier,
  {
    /** Claims nothing more, and waits until what is claimed has been attempted. */
    readonly drain: Effect.Effect<void>
  }
>()("developer-api/messaging/Retrier") {
  static readonly layer = Layer.effect(
    Retrier,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const calls = yield* Calls
      const claiming = yield* Semaphore.make(1)
      let underWay = 0
      let stopped = false
      let ending = false
      const fibers = yield* FiberSet.make()

      const attempt = (claim: Claim) =>
        (claim.lost ? calls.lose(claim) : calls.make(claim)).pipe(
          Effect.catchCause((cause) => Effect.logWarning("An attempt was not recorded", cause)),
          Effect.ensuring(Effect.sync(() => void underWay--)),
          (attempt) => FiberSet.run(fibers, attempt)
        )

      // A claim that comes back when everything ends: what it has leased was surely not sent.
      const giveBack = (claim: Claim) =>
        (claim.lost ? calls.lose(claim) : calls.postpone(claim)).pipe(
          Effect.timeoutOption(Duration.seconds(2)),
          Effect.ignoreCause
        )

      // What a claim has leased is attempted or given back, whatever ends meanwhile.
      const look = Effect.gen(function* () {
        if (stopped || underWay === slots) return
        const now = yield* Clock.currentTimeMillis
        const leaseEnd = new Date(now + Duration.toMillis(calls.lease))
        const claims = yield* untraced(statement(claim(sql, { now: new Date(now), leaseEnd, limit: slots - underWay })))
        if (ending) return yield* Effect.forEach(claims, giveBack, { discard: true, concurrency: "unbounded" })
        underWay += claims.length
        yield* Effect.forEach(claims, attempt, { discard: true })
      }).pipe(claiming.withPermit, Effect.uninterruptible)

      yield* every(lookEvery, "Messages that are due were not claimed", look)
      if (yield* Measured) {
        yield* every(
          measureEvery,
          "The queue of messages was not measured",
          Effect.flatMap(Clock.currentTimeMillis, (millis) => untraced(Metrics.gauge(sql, new Date(millis))))
        )
      }
      // The last finalizer is the first to run: a claim that is under way waits for no one else's end.
      yield* Effect.addFinalizer(() => Effect.sync(() => void (ending = stopped = true)))
      return {
        drain: Effect.suspend(() => {
          stopped = true
          // A claim that is under way is the last.
          return Effect.andThen(claiming.withPermit(Effect.void), FiberSet.awaitEmpty(fibers))
        })
      }
    })
  )
}
