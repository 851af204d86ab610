/**
 * Delivers the outbox. Any number of processes may run this loop. `src/README.md` describes the way of a delivery.
 *
 * One fiber talks to the database, one statement after the other; attempts run beside it:
 *
 *   ┌──▶ waiting ── results, notice or timer ──▶ disabling ──▶ recording ──▶ claiming ──┐
 *   │                                            (if 410)      (if results)  (if taking)│
 *   └───────────────────────────────────────────────────────────────────────────────────┘
 *
 *   attempt:  claimed ──▶ queued by endpoint ──▶ sending ──▶ ended ──▶ recorded
 *                               └── returned unsent ──────────▲
 *
 *   mode:     taking ── drain ──▶ draining ── nothing leased ──▶ idle
 *
 * - waiting: until a result, a notice (new deliveries, a changed webhook) or the timer, whichever comes first.
 * - disabling: the webhooks whose endpoints answered 410 are disabled before the answers are recorded. Otherwise a delivery that
 *   is dead could be retried while its webhook is still enabled.
 * - recording: one statement records a batch of results. Then webhooks that have failed for too long are disabled. If the
 *   database fails, the results are kept. After a defect they are dropped, and the leases expire. The result of an expired lease
 *   is discarded. If another transaction has locked a row, the results of that endpoint are deferred: each poll tries them again.
 * - claiming: a claim leases as many deliveries as there are free slots, for named endpoints. An endpoint is named by a notice, by a
 *   recorded result that leaves a delivery due, or when its queue runs short. Every `pollEvery`, a claim is a poll: it runs even
 *   if no endpoint is named, and also leases for endpoints whose rows are due.
 */
import { Clock, Context, Duration, Effect, FiberSet, Latch, Layer, Queue, Random } from "effect"
import { SqlClient } from "effect/sql"
import { Supervisor } from "../../work/Supervisor.ts"
import { DeliveryPace } from "../../work/DeliveryPace.ts"
import { Worker } from "../../work/Worker.ts"
import { MetricsEnabled, untraced } from "../../telemetry/Telemetry.ts"
import { monotonicMillis } from "../../platform/MonotonicTime.ts"
import { listen } from "../../outbox/Outbox.ts"
import { SecretBox } from "../../secrets/SecretBox.ts"
import { Settings } from "../../platform/Settings.ts"
import { attempt, type Lease, type LoopTimes, type Result, secretsOf } from "./Attempt.ts"
import { claim, leasesOf } from "./DeliveryLoop/Claim.ts"
import * as EndpointQueues from "./DeliveryLoop/EndpointQueues.ts"
import { makeRecording, tried } from "./DeliveryLoop/Record.ts"
import * as Results from "./DeliveryLoop/Results.ts"
import { isUnsent, resultOf, returnedBy } from "./DeliveryLoop/Results.ts"
import { makeSlots } from "./DeliveryLoop/Visits.ts"
import { type Endpoint, keyOf, maxAge } from "../Endpoint.ts"
import { maintain } from "./DeliveryMaintenance.ts"
import * as Metrics from "./DeliveryMetrics.ts"
import { type AttemptOutcome, Sender } from "../address/Sender.ts"

/** Interval of polls. It is half of 500 ms, because a due retry has to start within 500 ms (contract §10). */
const pollEvery = Duration.millis(250)
/** Pause before the next poll, if a claim has found the row of an endpoint locked. */
const lockedFor = Duration.millis(25)
/** Time that a lease lasts beyond the timeout of its attempt. A lease is never extended. */
const leaseMargin = Duration.seconds(15)
/** Time for which claims skip locked deliveries, after one has met such a delivery. */
const skipsFor = Duration.seconds(10)
/** Pause after a failure of the database. */
const againAfter = Duration.millis(500)
/** Pause after an attempt for which this host had no means. It is well within the margin of a lease. */
const exhaustedFor = Duration.seconds(1)
/** Without progress for this time, the loop counts as stalled. A statement may take 4 s and be tried again. */
const stalledAfter = Duration.seconds(30)

/**
 * Maximum number of turns of the event loop in which a prompt answer arrives. Such an answer is there when the event loop next reads
 * from sockets, so the attempt has waited for this process. If the loop has been idle for half of the attempt, the attempt has waited
 * for the endpoint.
 */
const promptTurns = 3

const loopTimes = (): LoopTimes => {
  const { idleTime, uvMetricsInfo } = performance.nodeTiming
  return { turns: uvMetricsInfo.loopCount, idle: idleTime }
}

export class DeliveryLoop extends Context.Service<
  DeliveryLoop,
  {
    /** Stops claiming, and waits until the results of all leased deliveries are recorded. */
    readonly drain: Effect.Effect<void>
  }
>()("developer-api-service/webhooks/delivery/DeliveryLoop") {
  static readonly layer = Layer.effect(
    DeliveryLoop,
    Effect.suspend(() => make)
  )
}

const make = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const supervisor = yield* Supervisor
  const worker = yield* Worker
  const pace = yield* DeliveryPace
  const sending = { secrets: secretsOf(yield* SecretBox), sender: yield* Sender }
  const { webhooks } = yield* Settings
  const measured = yield* MetricsEnabled
  const clock = yield* Clock.Clock
  const random = yield* Random.Random
  /** The time of day, for the attempt log and the signatures. */
  const now = () => clock.currentTimeMillisUnsafe()
  const concurrency = webhooks.endpointConcurrency
  const leaseMillis = Duration.toMillis(Duration.sum(webhooks.timeout, leaseMargin))

  const slots = makeSlots()
  const results = Results.make()
  /**
   * Endpoints whose webhook has changed since the last claim began. If that claim leases deliveries for such an endpoint, they
   * are returned unsent.
   */
  const changed = new Map<string, Endpoint>()
  /** Time of the next poll. Monotonic, in milliseconds. */
  let pollAt = 0
  /** Time until which claims skip locked deliveries. */
  let skipsUntil = 0
  let mode: "taking" | "draining" = "taking"
  const idle = yield* Latch.make(false)
  const signals = yield* Queue.sliding<void>(1)
  const signal = () => void Queue.offerUnsafe(signals, undefined)

  const add = (result: Result) => {
    if (results.add(result)) signal()
  }
  const returnAll = (leases: ReadonlyArray<Lease>) => {
    const at = now()
    for (const lease of leases) add(returnedBy(lease, "unsent", { startedAt: at, finishedAt: at }))
  }

  // The fiber set below adds its finalizer later. Finalizers run in reverse order, so this one runs after the fibers that send
  // deliveries have ended.
  yield* Effect.addFinalizer(() =>
    Effect.suspend(() => {
      returnAll(queues.drop())
      const ended = new Map(
        queues.leased().map((lease) => {
          const finishedAt = Math.max(lease.startedAt, now())
          return [lease, returnedBy(lease, "released", { startedAt: lease.startedAt, finishedAt })]
        })
      )
      for (const result of results.all()) ended.set(result.lease, result)
      return ended.size === 0 ? Effect.void : recording.recordBatch([...ended.values()])
    }).pipe(Effect.timeoutOption(Duration.seconds(2)), Effect.ignore)
  )
  const run = yield* FiberSet.makeRuntime<never>()

  const endAttempt = (lease: Lease, outcome: AttemptOutcome): Effect.Effect<void> => {
    slots.release(lease)
    const at = monotonicMillis(clock)
    const millis = Math.round(at - lease.beganAt)
    const loop = loopTimes()
    const isPrompt = loop.turns - lease.loop.turns <= promptTurns && loop.idle - lease.loop.idle < millis / 2
    const times = { startedAt: lease.startedAt, finishedAt: lease.startedAt + millis }
    const result = resultOf(lease, outcome, times, webhooks.retrySchedule, random.nextDoubleUnsafe())
    const succeeded = result.on === "succeeded" && mode === "taking"
    const { next, returned } = queues.next(lease, { succeeded, millis, now: at, isPrompt })
    pace.ended()
    add(result)
    returnAll(returned)
    return next === undefined ? Effect.void : deliver(next)
  }

  /** Makes attempts in one fiber, one after the other: first `lease`, then deliveries that wait for the endpoint. */
  const deliver = (lease: Lease): Effect.Effect<void> =>
    Effect.suspend(() => {
      slots.take(lease)
      lease.startedAt = now()
      lease.beganAt = monotonicMillis(clock)
      lease.loop = loopTimes()
      return attempt(sending, lease, lease.startedAt).pipe(
        // A defect counts as a failed attempt of this delivery, and does not stop the other deliveries of the fiber.
        Effect.catchDefect((defect) =>
          Effect.as(Effect.logError("An attempt of a delivery failed", defect), {
            _tag: "failed",
            code: "internal"
          } as const)
        ),
        Effect.flatMap((outcome) =>
          isUnsent(outcome)
            ? Metrics.countHostExhausted.pipe(
                Effect.andThen(Effect.sleep(exhaustedFor)),
                Effect.andThen(Effect.suspend(() => endAttempt(lease, outcome)))
              )
            : endAttempt(lease, outcome)
        )
      )
    })
  const queues = EndpointQueues.make<Lease>(concurrency, (lease) => run(deliver(lease)))

  const recording = makeRecording(sql, {
    results,
    queues,
    concurrency,
    disableAfterMillis: Duration.toMillis(webhooks.disableAfter),
    counter: worker.id,
    measured,
    signal
  })

  /** A claim is not interruptible, so the deliveries that it leases are always added to the queues. */
  const claimDue = Effect.suspend(() => {
    const workerId = worker.leaseId()
    const at = monotonicMillis(clock)
    const isPoll = at >= pollAt
    if (workerId === null) return Effect.void
    queues.refresh(at)
    if (!queues.isAnyNamed() && !isPoll) return Effect.void
    if (isPoll) pollAt = at + Duration.toMillis(pollEvery)
    changed.clear()
    const named = queues.takeNamed(at)
    if (named.length === EndpointQueues.namedPerClaim) signal()
    const terms = { workerId, leaseMillis, concurrency, rooms: slots.rooms(), isPoll, named }
    const skipping = Effect.suspend(() => tried(claim(sql, terms, true)))
    const claimed =
      at < skipsUntil
        ? skipping
        : Effect.catchTag(tried(claim(sql, terms)), "Contended", () => {
            skipsUntil = at + Duration.toMillis(skipsFor)
            return skipping
          })
    return untraced(claimed).pipe(
      Effect.tapError(() => Effect.sync(() => queues.name(named))),
      Effect.map(({ claims, locked }) => {
        const leases = leasesOf(claims, now())
        if (mode === "draining") return returnAll(leases)
        queues.add(leases, monotonicMillis(clock))
        if (locked.length > 0) pollAt = at + Duration.toMillis(lockedFor)
        queues.name(locked)
        // The claim may have read the webhooks in `changed` before they changed.
        for (const endpoint of changed.values()) returnAll(queues.drop(endpoint))
      }),
      Effect.uninterruptible
    )
  })

  const cycle = Effect.gen(function* () {
    const left = pollAt - monotonicMillis(clock)
    yield* Effect.timeoutOption(Queue.take(signals), mode === "taking" && left > 0 ? Duration.millis(left) : pollEvery)
    yield* recording.recordResults(() => monotonicMillis(clock) >= pollAt)
    if (mode === "taking") yield* claimDue
    else if (results.all().length === 0 && queues.leased().length === 0) yield* Latch.open(idle)
    pace.setBehind(mode === "taking" ? queues.behind(monotonicMillis(clock)) : new Set())
  })

  yield* supervisor.supervise("deliveries", { stalledAfter }, (progress) =>
    Effect.andThen(cycle, progress).pipe(
      Effect.catch((error) =>
        Effect.andThen(Effect.logWarning("The database of the deliveries is away", error), Effect.sleep(againAfter))
      ),
      Effect.forever
    )
  )

  const visit = (endpoints: ReadonlyArray<Endpoint>) => {
    queues.name(endpoints)
    if (endpoints.length > 0) signal()
  }
  yield* maintain({ sql, leaseMillis, maxAge: maxAge(webhooks.retrySchedule), visit })
  yield* listen(({ installationIds, on, projectId }) => {
    const endpoints = installationIds.map((installationId) => ({ projectId, installationId }))
    visit(endpoints)
    if (on === "changed") {
      for (const endpoint of endpoints) {
        changed.set(keyOf(endpoint), endpoint)
        returnAll(queues.drop(endpoint))
      }
    }
    return worker.isOnly()
  })

  return {
    drain: Effect.suspend(() => {
      mode = "draining"
      returnAll(queues.drop())
      signal()
      return Latch.await(idle)
    })
  }
})
