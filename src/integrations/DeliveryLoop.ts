/**
 * Delivers the outbox: fibers that claim what is due, send it, and record what became of it. Any number of processes may
 * run it. It is woken by NOTIFY and looks by itself, too; it claims no more than it has free slots for.
 */
import { PgClient } from "@effect/sql-pg"
import { Clock, Context, Duration, Effect, FiberSet, Latch, Layer, Queue, Random, Schedule, Semaphore } from "effect"
import { SqlClient } from "effect/sql"
import { listenerLayer, maintenanceLayer, statement } from "../platform/Database.ts"
import { channel } from "../platform/outbox/Wake.ts"
import { SecretBox } from "../platform/SecretBox.ts"
import { Settings } from "../platform/Settings.ts"
import { untraced } from "../platform/Telemetry.ts"
import { attempt } from "./Deliveries/Attempt.ts"
import { type Claim, claim } from "./Deliveries/Claims.ts"
import * as Metrics from "./Deliveries/Metrics.ts"
import { disable, extend, giveUp, prune, reclaim, retentionDays } from "./Deliveries/Repairs.ts"
import { record, type Result } from "./Deliveries/Results.ts"
import { isGone, resultOf } from "./Deliveries/Schedule.ts"
import { Sender } from "./Sender.ts"

/** Attempts under way in one process: so many that a hundred endpoints that hang leave enough for the others. */
const slots = 512
/** How often the queue is looked at without being told: half of what a retry may be late. */
const lookEvery = Duration.millis(250)
/** How much longer than an attempt its lease lasts. */
const leaseMargin = Duration.seconds(15)
const repairEvery = Duration.seconds(1)
const pruneEvery = Duration.minutes(1)
const pruneBatch = 1_000
const measureEvery = Duration.seconds(15)

export class DeliveryLoop extends Context.Service<
  DeliveryLoop,
  {
    /** Claims nothing more, and waits until what is being sent is recorded. */
    readonly drain: Effect.Effect<void>
  }
>()("developer-api/integrations/DeliveryLoop") {
  static readonly layer = Layer.effect(
    DeliveryLoop,
    Effect.suspend(() => loop)
  )
}

const loop = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const maintenance = Context.get(yield* Layer.build(maintenanceLayer), PgClient.PgClient)
  const parts = { box: yield* SecretBox, sender: yield* Sender }
  const { webhooks } = yield* Settings
  const measured = yield* Metrics.enabled
  const lease = Duration.sum(webhooks.timeout, leaseMargin)

  const now = Effect.map(Clock.currentTimeMillis, (millis) => new Date(millis))
  const leaseEnd = Effect.map(Clock.currentTimeMillis, (millis) => new Date(millis + Duration.toMillis(lease)))

  /** What this process has claimed and not yet recorded. */
  const underWay = new Map<string, UnderWay>()
  let draining = false
  const claiming = yield* Semaphore.make(1)
  const idle = yield* Latch.make(false)
  const results = yield* Queue.unbounded<Result>()
  const bell = yield* Queue.sliding<void>(1)
  const ring = Queue.offer(bell, undefined)

  // The first finalizer is the last to run: by then nothing is being sent any more.
  yield* Effect.addFinalizer(() =>
    Effect.gen(function* () {
      const at = yield* now
      const known = yield* Queue.clear(results)
      for (const result of known) underWay.delete(keyOf(result))
      const left = [...known, ...[...underWay.values()].map((claim) => released(claim, at))]
      if (left.length > 0) yield* record(sql, left, at)
    }).pipe(Effect.timeoutOption(Duration.seconds(2)), Effect.ignore)
  )
  const run = yield* FiberSet.makeRuntime<never>()

  const deliver = Effect.fnUntraced(function* (claim: Claim) {
    const startedAt = yield* now
    const outcome = yield* attempt(parts, claim, startedAt.getTime()).pipe(
      // Whatever goes wrong with one delivery is that delivery's failure.
      Effect.catchDefect((defect) =>
        Effect.as(Effect.logError("An attempt of a delivery failed", defect), {
          _tag: "failed",
          code: "internal"
        } as const)
      )
    )
    if (isGone(outcome)) yield* persistently(disable(sql, claim, yield* now))
    const times = { startedAt, finishedAt: yield* now }
    yield* Queue.offer(results, resultOf(claim, outcome, times, webhooks.retrySchedule, yield* Random.next))
  })

  // What a claim has leased has to be known here, whatever ends meanwhile.
  const claimDue = Effect.gen(function* () {
    const free = slots - underWay.size
    if (free === 0 || draining) return
    const terms = { now: yield* now, leaseEnd: yield* leaseEnd, slots: free }
    const claims = yield* untraced(
      statement(claim(sql, { ...terms, endpointConcurrency: webhooks.endpointConcurrency }))
    )
    for (const claim of claims) {
      underWay.set(keyOf(claim), { ...claim, startedAt: terms.now })
      run(deliver(claim))
    }
  }).pipe(claiming.withPermit, Effect.uninterruptible)

  yield* Queue.take(bell).pipe(
    Effect.timeoutOption(lookEvery),
    Effect.andThen(claimDue),
    Effect.catchCause((cause) =>
      Effect.andThen(Effect.logWarning("Due deliveries were not claimed", cause), Effect.sleep(repairEvery))
    ),
    Effect.forever,
    Effect.forkScoped
  )

  yield* Queue.takeBetween(results, 1, 500).pipe(
    Effect.flatMap((batch) =>
      Effect.gen(function* () {
        yield* persistently(Effect.flatMap(now, (at) => statement(record(sql, batch, at)))).pipe(
          // Their leases run out, and they are delivered again: one batch must not hold up all that follow.
          Effect.catchDefect((defect) => Effect.logError("Results of deliveries can't be recorded", defect))
        )
        for (const result of batch) underWay.delete(keyOf(result))
        if (draining && underWay.size === 0) yield* Latch.open(idle)
        yield* ring
        if (measured) yield* Metrics.count(batch)
      })
    ),
    Effect.forever,
    Effect.forkScoped
  )

  yield* every(
    Duration.millis(Duration.toMillis(lease) / 3),
    "Leases were not extended",
    Effect.suspend(() =>
      underWay.size === 0
        ? Effect.void
        : Effect.flatMap(leaseEnd, (end) => statement(extend(sql, [...underWay.values()], end)))
    )
  )

  yield* every(
    repairEvery,
    "Lost deliveries were not returned",
    Effect.gen(function* () {
      const at = yield* now
      const lost = yield* statement(reclaim(sql, at, Duration.toMillis(lease)))
      if (lost.length > 0) yield* ring
      yield* statement(giveUp(sql, at))
    })
  )

  yield* every(
    pruneEvery,
    "Old deliveries were not removed",
    Effect.gen(function* () {
      const horizon = new Date((yield* Clock.currentTimeMillis) - Duration.toMillis(Duration.days(retentionDays)))
      return (yield* statement(prune(maintenance, horizon, pruneBatch)))[0]?.more === true
    }).pipe(Effect.repeat({ while: (more) => more }))
  )

  if (measured) {
    yield* every(
      measureEvery,
      "The queue of deliveries was not measured",
      Effect.flatMap(now, (at) => Metrics.gauge(sql, at))
    )
  }

  // Its end is not waited for: a database that hangs does not even take leave.
  const listener = yield* Effect.forkDetach(listening(ring))
  yield* Effect.addFinalizer(() => Effect.sync(() => listener.interruptUnsafe()))

  return {
    drain: Effect.suspend(() => {
      draining = true
      // A claim that is under way is the last.
      return Effect.andThen(
        claiming.withPermit(Effect.void),
        Effect.suspend(() => (underWay.size === 0 ? Effect.void : Latch.await(idle)))
      )
    })
  }
})

/** With the attempt: a delivery whose lease was lost may come back while its first attempt is still under way. */
const keyOf = ({ attempt, id, projectId }: Pick<Claim, "projectId" | "id" | "attempt">) =>
  `${attempt}/${projectId}/${id}`

interface UnderWay extends Claim {
  readonly startedAt: Date
}

const released = ({ attempt, id, installationId, projectId, startedAt }: UnderWay, at: Date): Result => ({
  projectId,
  installationId,
  id,
  attempt,
  on: "released",
  statusCode: null,
  errorCode: "interrupted",
  startedAt,
  finishedAt: at,
  availableAt: at,
  restUntil: null,
  spread: 1
})

/** Until it succeeds: while the database is away the leases run on, and then others deliver again. */
const persistently = <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A> =>
  effect.pipe(
    Effect.tapError((error) => Effect.logWarning("Results of deliveries were not recorded", error)),
    Effect.retry(Schedule.spaced(Duration.millis(500))),
    Effect.orDie
  )

/** Does something now and again for as long as the scope lives; a failure is logged, and the next time comes. */
const every = <A, E>(pause: Duration.Duration, complaint: string, effect: Effect.Effect<A, E>) =>
  effect.pipe(
    untraced,
    Effect.catchCause((cause) => Effect.logWarning(complaint, cause)),
    Effect.repeat(Schedule.spaced(pause)),
    Effect.forkScoped
  )

/** Rings at each NOTIFY, on a connection of its own, anew when that breaks. */
const listening = (ring: Effect.Effect<unknown>) =>
  Effect.gen(function* () {
    const client = Context.get(yield* Layer.build(listenerLayer), PgClient.PgClient)
    const heard = yield* client.listen(channel)
    return yield* Effect.forever(Effect.andThen(Queue.take(heard), ring))
  }).pipe(
    Effect.scoped,
    Effect.catchCause((cause) => Effect.logDebug("Listening for deliveries broke off", cause)),
    Effect.repeat(Schedule.spaced(Duration.seconds(1)))
  )
