/**
 * Sends campaigns: fibers that begin those whose time has come, send to their recipients at their pace, and complete
 * them. Any number of processes may run it.
 */
import { Clock, Context, Duration, Effect, FiberSet, Layer, Queue, Semaphore } from "effect"
import { SqlClient } from "effect/sql"
import { createHash } from "node:crypto"
import { MessageId } from "../api/Ids.ts"
import { providerTypes } from "../api/messaging/Messaging.ts"
import * as Metrics from "../messaging/Messages/Metrics.ts"
import { maxAttempts } from "../messaging/Messages/Schedule.ts"
import { outcomes, Providers } from "../messaging/Providers.ts"
import { statement } from "../platform/Database.ts"
import { every } from "../platform/Every.ts"
import { Settings } from "../platform/Settings.ts"
import { untraced } from "../platform/Telemetry.ts"
import { spanOf } from "../platform/TraceContext.ts"
import { type Claim, claim, reclaim } from "./Runner/Claims.ts"
import { advance } from "./Runner/Progress.ts"
import { recipientResult, record, released, type Result } from "./Runner/Results.ts"
import { rendered } from "./Runner/Template.ts"

/** Calls under way, or about to be, in one process. */
const slots = 512
/** How far ahead sends are claimed: for so long a campaign goes on that is paused. */
const horizon = Duration.millis(300)
const claimEvery = Duration.millis(150)
const advanceEvery = Duration.millis(500)
const reclaimEvery = Duration.seconds(1)
/** How much longer than a call its lease lasts. */
const leaseMargin = Duration.seconds(5)

export class Runner extends Context.Service<
  Runner,
  {
    /** Claims nothing more, and waits until what has been claimed is recorded. */
    readonly drain: Effect.Effect<void>
  }
>()("developer-api/campaigns/Runner") {
  static readonly layer = Layer.effect(
    Runner,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const providers = yield* Providers
      const { providerTimeout } = yield* Settings
      const idempotent = providerTypes.filter(providers.isIdempotent)
      const leaseMillis = Duration.toMillis(Duration.sum(providerTimeout, leaseMargin))
      const now = Effect.map(Clock.currentTimeMillis, (millis) => new Date(millis))

      const results = yield* Queue.unbounded<Result>()
      let unrecorded = 0
      let running = false
      let draining = false
      let ending = false
      const claiming = yield* Semaphore.make(1)

      // The first finalizer is the last to run: by then nothing is being sent any more.
      yield* Effect.addFinalizer(() =>
        Effect.flatMap(Queue.clear(results), (left) =>
          left.length === 0 ? Effect.void : Effect.asVoid(statement(record(sql, left)))
        ).pipe(Effect.timeoutOption(Duration.seconds(2)), Effect.ignore)
      )
      const sends = yield* FiberSet.make<void>()

      const finish = (result: Result) => Queue.offer(results, result)

      const send = (claim: Claim) => {
        let calling = false
        const settle = Effect.fnUntraced(function* (outcome: Parameters<typeof recipientResult>[2]) {
          const result = recipientResult(claim, providers.isIdempotent(claim.providerType), outcome, yield* now)
          yield* Metrics.count(claim.providerType, result.on)
          yield* finish(result)
        })
        return Effect.gen(function* () {
          yield* Effect.sleep(Duration.millis(Math.max(0, claim.sendAt.getTime() - (yield* Clock.currentTimeMillis))))
          calling = true
          const { address, template } = claim
          const message = { messageId: messageIdOf(claim), conversationId: null, recipient: address }
          return yield* providers.send(claim, { ...message, text: rendered(template, claim) })
        }).pipe(
          // The process ends: nobody was called yet, or nobody knows what came of it.
          Effect.onInterrupt(() => (calling ? settle(outcomes.interrupted) : finish(released(claim)))),
          Effect.flatMap(settle),
          Effect.withSpan("Runner.send", {
            parent: spanOf(claim.traceparent),
            attributes: { "project.id": claim.projectId, "campaign.id": claim.campaignId }
          })
        )
      }

      // What a claim has leased is sent, or given back, whatever ends meanwhile.
      const claimNext = Effect.gen(function* () {
        if (draining || !running || unrecorded >= slots) return
        const at = yield* now
        const until = new Date(at.getTime() + Duration.toMillis(horizon))
        const terms = { now: at, until, leaseMillis, slots: slots - unrecorded, idempotent }
        const claims = yield* untraced(statement(claim(sql, terms)))
        unrecorded += claims.length
        yield* Effect.forEach(
          claims,
          (claim) =>
            ending
              ? Effect.asVoid(finish(released(claim)))
              : Effect.asVoid(FiberSet.run(sends, Effect.interruptible(send(claim)))),
          { discard: true }
        )
      }).pipe(claiming.withPermit, Effect.uninterruptible)

      yield* every(claimEvery, "Recipients were not claimed", claimNext)
      yield* every(
        advanceEvery,
        "Campaigns were not moved on",
        Effect.gen(function* () {
          const [campaigns] = yield* untraced(statement(advance(sql, yield* now)))
          running = campaigns?.running === true
        })
      )
      yield* every(
        reclaimEvery,
        "Lost sends were not found",
        Effect.flatMap(now, (at) => untraced(statement(reclaim(sql, at, idempotent, maxAttempts))))
      )

      yield* Queue.takeBetween(results, 1, 500).pipe(
        Effect.flatMap((batch) =>
          statement(record(sql, batch)).pipe(
            Effect.as(batch.length),
            // Until the database is back; their leases may run out, and then nobody knows what became of them.
            Effect.catch(() => Effect.as(Effect.delay(Queue.offerAll(results, batch), Duration.millis(500)), 0)),
            // The process ends: they are recorded with the last.
            Effect.onInterrupt(() => Queue.offerAll(results, batch)),
            // One batch must not hold up all that follow.
            Effect.catchDefect((defect) =>
              Effect.as(Effect.logError("Results of sends can't be recorded", defect), batch.length)
            )
          )
        ),
        Effect.map((settled) => {
          unrecorded -= settled
        }),
        Effect.forever,
        Effect.forkScoped
      )

      // The last finalizer is the first to run: what a claim brings from now on is given back.
      yield* Effect.addFinalizer(() => Effect.sync(() => void (ending = true)))

      return {
        drain: Effect.suspend(() => {
          draining = true
          // A claim that is under way is the last.
          return Effect.andThen(
            claiming.withPermit(Effect.void),
            Effect.sleep(Duration.millis(20)).pipe(Effect.repeat({ until: () => unrecorded === 0 }))
          )
        })
      }
    })
  )
}

/** The same for each attempt on a route: the key by which an idempotent provider knows that it is one message. */
const messageIdOf = ({ audienceId, clientId, projectId, route }: Claim): MessageId => {
  const digest = createHash("sha256")
    .update(JSON.stringify([projectId, audienceId, clientId, route]))
    .digest("hex")
  return MessageId.make(`msg_${digest.slice(0, 32)}`)
}
