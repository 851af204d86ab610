/**
 * Makes the attempts of due messages, and takes over those of dead processes. Any number of processes may run it.
 * `Messages/States.ts` has the states of a message and the moves between them. The handling of a due message:
 *
 *   due ── permit free, circuit closed ──▶ called, outcome recorded
 *    │  └─ permit free, circuit open ────▶ recorded as postponed (`circuit_open`), without a call
 *    │  └─ no permit of its channel, project or process ──▶ stays due
 *    └─ its lease has ended, or its worker is dead ──▶ recorded as unknown (`lease_lost`)
 *
 * A lease lasts for the deadline of a call plus 5 s, by the database's clock, and is never extended.
 */
import { Context, DateTime, Duration, Effect, FiberSet, Layer, Semaphore } from "effect"
import { SqlClient } from "effect/sql"
import { forkPeriodic } from "../platform/background/Periodic.ts"
import * as Slots from "../platform/background/Slots.ts"
import { Worker } from "../platform/background/Worker.ts"
import { databaseNow } from "../platform/DatabaseClock.ts"
import { statement } from "../platform/Database.ts"
import { MetricsEnabled } from "../platform/MetricsEnabled.ts"
import { untraced } from "../platform/Telemetry.ts"
import { Calls, type Guard } from "./Calls.ts"
import { Circuits } from "./Circuits.ts"
import { isUnanswered } from "./Outcomes.ts"
import { type Claim, claim, endLeasesOfDead } from "./Messages/Attempts.ts"
import * as Metrics from "./MessageMetrics.ts"
import { outcomes } from "./Providers.ts"

/** Maximum numbers of attempts in flight in one process. */
const permits: Slots.Options = {
  total: 64,
  perKey: 16,
  perTenant: 32,
  initial: 4,
  failingShare: 0.25,
  slowAfter: Duration.seconds(1)
}
const claimEvery = Duration.millis(250)
const takeoverEvery = Duration.millis(500)
const measureEvery = Duration.seconds(15)
const stalledAfter = Duration.seconds(30)

export class Retrier extends Context.Service<
  Retrier,
  {
    /** Stops claiming, and waits until every claimed message has been attempted. */
    readonly drain: Effect.Effect<void>
  }
>()("developer-api/messaging/Retrier") {
  static readonly layer = Layer.effect(
    Retrier,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const calls = yield* Calls
      const circuits = yield* Circuits
      const worker = yield* Worker
      const clock = yield* databaseNow(sql)
      const slots = yield* Slots.make(permits)
      const claiming = yield* Semaphore.make(1)
      let stopped = false
      let ending = false
      const fibers = yield* FiberSet.make()

      /** Makes the call with the permit of its channel, unless the channel's circuit is open. */
      const guardOf =
        (claim: Claim, permit: Slots.Permit): Guard =>
        (call) =>
          circuits.guard(claim, Effect.andThen(Effect.sync(permit.begin), call)).pipe(
            Effect.tap((outcome) => Effect.sync(() => permit.end(isUnanswered(outcome) ? "failed" : "succeeded"))),
            Effect.catchTag("CircuitOpen", () => Effect.succeed(outcomes.circuitOpen))
          )

      const attempt = (claim: Claim) => {
        const permit = slots.take(claim.projectId, claim.channelId)
        return (claim.lost ? calls.lose(claim) : calls.make(claim, guardOf(claim, permit))).pipe(
          Effect.catchCause((cause) => Effect.logWarning("An attempt was not recorded", cause)),
          Effect.ensuring(Effect.sync(() => permit.end("unused"))),
          (attempt) => FiberSet.run(fibers, attempt)
        )
      }

      // A claim that returns while the process ends: its messages were certainly not sent.
      const giveBack = (claim: Claim) =>
        (claim.lost ? calls.lose(claim) : calls.postpone(claim)).pipe(
          Effect.timeoutOption(Duration.seconds(2)),
          Effect.ignoreCause
        )

      // A leased message is attempted or released, even if this fiber is interrupted meanwhile.
      const claimDue = Effect.gen(function* () {
        const limits = slots.limits()
        if (stopped || limits.free === 0) return
        const now = yield* clock
        const at = yield* DateTime.nowAsDate
        const leaseMillis = Duration.toMillis(calls.lease)
        const terms = { now, at, leaseMillis, workerId: worker.leaseId(), limits }
        const claims = yield* untraced(statement(claim(sql, terms)))
        if (ending) return yield* Effect.forEach(claims, giveBack, { discard: true, concurrency: "unbounded" })
        yield* Effect.forEach(claims, attempt, { discard: true })
      }).pipe(claiming.withPermit, Effect.uninterruptible)

      const takeOver = Effect.gen(function* () {
        const now = yield* clock
        yield* untraced(statement(endLeasesOfDead(sql, now, worker.isDead(sql, sql`worker_id`))))
      })

      yield* forkPeriodic("message claims", { interval: claimEvery, stalledAfter }, claimDue)
      yield* forkPeriodic("message takeover", { interval: takeoverEvery, stalledAfter }, takeOver)
      if (yield* MetricsEnabled) {
        const measure = Effect.flatMap(clock, (now) => untraced(Metrics.gauge(sql, now)))
        yield* forkPeriodic("message metrics", { interval: measureEvery }, measure)
      }
      // Finalizers run in reverse order, so this one runs first: a claim in progress does not wait for the other
      // fibers.
      yield* Effect.addFinalizer(() => Effect.sync(() => void (ending = stopped = true)))
      return {
        drain: Effect.suspend(() => {
          stopped = true
          // No claim starts after the one in progress.
          return Effect.andThen(claiming.withPermit(Effect.void), FiberSet.awaitEmpty(fibers))
        })
      }
    })
  )
}
