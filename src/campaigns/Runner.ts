/**
 * Runs campaigns: starts due campaigns, sends to their recipients at their pace, and completes them. Any number of
 * processes may run it. Supervised fibers share the work:
 *
 *   campaign progress   scheduled → running → completed (`Runner/Progress.ts`)
 *   campaign claims     pending → sending: leases the recipients of the next window (`Runner/Claims.ts`)
 *   (one per claim)     waits for its time, calls the provider (`Runner/Sends.ts`)
 *   campaign results    sending → sent, failed, pending …, in batches (`Runner/Recorder.ts`)
 *   campaign takeover   sending → pending or unknown, when a lease has ended or its worker is dead
 *
 * `Runner/States.ts` has the states of a recipient and the moves between them. A claim is limited by the permits of its
 * channel, its project and this process (`platform/background/Slots.ts`), and skips channels whose circuit is open
 * (`messaging/Circuits.ts`): their recipients wait. A lease lasts from the time of the send for the deadline of a call plus
 * 5 s, by the database's clock, and is never extended.
 */
import { Context, Duration, Effect, FiberSet, Layer, Semaphore } from "effect"
import { SqlClient } from "effect/sql"
import { providerTypes } from "../api/messaging/Messaging.ts"
import { withCircuits } from "../messaging/ChannelLimits.ts"
import { Circuits } from "../messaging/Circuits.ts"
import { maxAttempts } from "../messaging/RetrySchedule.ts"
import { Providers } from "../messaging/Providers.ts"
import { forkPeriodic } from "../platform/background/Periodic.ts"
import * as Slots from "../platform/background/Slots.ts"
import { Worker } from "../platform/background/Worker.ts"
import { statement } from "../platform/Database.ts"
import { databaseNow, later } from "../platform/DatabaseClock.ts"
import { Settings } from "../platform/Settings.ts"
import { untraced } from "../platform/Telemetry.ts"
import { claim, reclaim } from "./Runner/Claims.ts"
import { advance } from "./Runner/Progress.ts"
import * as Recorder from "./Runner/Recorder.ts"
import { released } from "./Runner/Results.ts"
import { send } from "./Runner/Sends.ts"

/** Maximum numbers of calls in flight, or about to start, in one process. */
const permits: Slots.Options = {
  total: 512,
  perKey: 128,
  perTenant: 256,
  initial: 4,
  failingShare: 0.25,
  slowAfter: Duration.seconds(1)
}
/** Maximum number of claims of one process that are not recorded yet. */
const openClaims = 1_024
/** Time ahead of now for which sends are claimed, in ms. A paused campaign continues for this long. */
const horizonMillis = 300
const claimEvery = Duration.millis(150)
const progressEvery = Duration.millis(500)
const takeoverEvery = Duration.millis(500)
const stalledAfter = Duration.seconds(30)
/** Time that a lease lasts beyond the deadline of its call. */
const leaseMargin = Duration.seconds(5)

export class Runner extends Context.Service<
  Runner,
  {
    /** Stops claiming, and waits until every claim is recorded. */
    readonly drain: Effect.Effect<void>
  }
>()("developer-api/campaigns/Runner") {
  static readonly layer = Layer.effect(
    Runner,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const providers = yield* Providers
      const circuits = yield* Circuits
      const worker = yield* Worker
      const clock = yield* databaseNow(sql)
      const slots = yield* Slots.make(permits)
      const { providerTimeout } = yield* Settings
      const idempotent = providerTypes.filter(providers.isIdempotent)
      const leaseMillis = Duration.toMillis(Duration.sum(providerTimeout, leaseMargin))

      let running = false
      let draining = false
      let ending = false
      const claiming = yield* Semaphore.make(1)
      // Finalizers run in reverse order: sends are interrupted before the recorder records its last batch.
      const recorder = yield* Recorder.make(sql)
      const sends = yield* FiberSet.make<void>()

      const limits = Effect.map(circuits.open, (openCircuits) => {
        const now = slots.limits()
        return withCircuits({ ...now, free: Math.min(now.free, openClaims - recorder.open()) }, openCircuits)
      })

      // A leased recipient is sent to or released, even if this fiber is interrupted meanwhile.
      const claimNext = Effect.gen(function* () {
        const admitted = yield* limits
        if (draining || !running || admitted.free <= 0) return
        const now = yield* clock
        const until = later(sql, now, horizonMillis)
        const terms = { now, until, leaseMillis, workerId: worker.leaseId(), limits: admitted, idempotent }
        const claims = yield* untraced(statement(claim(sql, terms)))
        recorder.expect(claims.length)
        for (const claim of claims) {
          if (ending) yield* recorder.finish(released(claim))
          else {
            const permit = slots.take(claim.projectId, claim.channelId)
            yield* FiberSet.run(sends, Effect.interruptible(send({ providers, circuits, recorder }, claim, permit)))
          }
        }
      }).pipe(claiming.withPermit, Effect.uninterruptible)

      const progress = Effect.gen(function* () {
        const [campaigns] = yield* untraced(statement(advance(sql, yield* clock)))
        running = campaigns?.running === true
      })

      const takeOver = Effect.gen(function* () {
        const now = yield* clock
        const isDead = worker.isDead(sql, sql`worker_id`)
        yield* untraced(statement(reclaim(sql, { now, idempotent, attempts: maxAttempts, isDead })))
      })

      yield* forkPeriodic("campaign claims", { interval: claimEvery, stalledAfter }, claimNext)
      yield* forkPeriodic("campaign progress", { interval: progressEvery, stalledAfter }, progress)
      yield* forkPeriodic("campaign takeover", { interval: takeoverEvery, stalledAfter }, takeOver)

      // Finalizers run in reverse order, so this one runs first: the recipients of a claim in progress are released.
      yield* Effect.addFinalizer(() => Effect.sync(() => void (ending = true)))

      return {
        drain: Effect.suspend(() => {
          draining = true
          // No claim starts after the one in progress.
          return Effect.andThen(
            claiming.withPermit(Effect.void),
            Effect.sleep(Duration.millis(20)).pipe(Effect.repeat({ until: () => recorder.open() === 0 }))
          )
        })
      }
    })
  )
}
