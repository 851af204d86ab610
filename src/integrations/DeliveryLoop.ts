/**
 * Delivers the outbox: fibers that claim what is due, send it, and record what became of it. Any number of processes may
 * run it. It is woken by NOTIFY and looks by itself, too; it claims no more than it has free slots for.
 */
import { PgClient } from "@effect/sql-pg"
import {
  Clock,
  Context,
  Duration,
  Effect,
  FiberSet,
  Latch,
  Layer,
  Option,
  Queue,
  Random,
  Schedule,
  Semaphore
} from "effect"
import { SqlClient } from "effect/sql"
import { randomUUID } from "node:crypto"
import { maintenanceLayer, statement } from "../platform/Database.ts"
import { every } from "../platform/Every.ts"
import { Measured } from "../platform/Measured.ts"
import { endpointOf } from "../platform/outbox/Wake.ts"
import { SecretBox } from "../platform/SecretBox.ts"
import { Settings } from "../platform/Settings.ts"
import { untraced } from "../platform/Telemetry.ts"
import { attempt } from "./Deliveries/Attempt.ts"
import { type Claim, claim } from "./Deliveries/Claims.ts"
import * as Lines from "./Deliveries/Lines.ts"
import * as Metrics from "./Deliveries/Metrics.ts"
import { notices } from "./Deliveries/Notices.ts"
import { disable, extend } from "./Deliveries/Repairs.ts"
import { record } from "./Deliveries/Results.ts"
import { isGone, resultOf } from "./Deliveries/Schedule.ts"
import * as Secrets from "./Deliveries/Secrets.ts"
import { type Ended, keyOf, returned, type UnderWay } from "./Deliveries/UnderWay.ts"
import { upkeep } from "./Deliveries/Upkeep.ts"
import { Sender } from "./Sender.ts"

/** Attempts under way in one process: so many that a hundred endpoints that hang leave enough for the others. */
const allSlots = 512
/** So many times its concurrency an endpoint that is quick has claimed ahead, and so many deliveries are claimed in all. */
const aheadOfOne = 8
const aheadInAll = 4_096
/** Results that are recorded in one statement, and deliveries that are claimed along with them. */
const longestBatch = 500
/** How often the queue is looked at without being told: half of what a retry may be late. */
const lookEvery = Duration.millis(250)
/** How much longer than an attempt its lease lasts. */
const leaseMargin = Duration.seconds(15)
/** How long after a failure results are recorded again. */
const againAfter = Duration.millis(500)

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
  const parts = { secrets: Secrets.make(yield* SecretBox), sender: yield* Sender }
  const { webhooks } = yield* Settings
  const measured = yield* Measured
  const lease = Duration.sum(webhooks.timeout, leaseMargin)

  const now = Effect.map(Clock.currentTimeMillis, (millis) => new Date(millis))
  const { endpointConcurrency } = webhooks
  const holder = randomUUID()
  const terms = Effect.map(Clock.currentTimeMillis, (millis) => ({
    now: new Date(millis),
    leaseEnd: new Date(millis + Duration.toMillis(lease)),
    endpointConcurrency,
    ahead: endpointConcurrency * aheadOfOne,
    holder
  }))

  /** What this process has claimed and not yet recorded. */
  const underWay = new Map<string, UnderWay>()
  let draining = false
  /** Claims are made in two places, each one at a time; who takes both permits waits for what is under way. */
  const claiming = yield* Semaphore.make(2)
  const idle = yield* Latch.make(false)
  const results = yield* Queue.unbounded<Ended>()
  /** Whether endpoints have more due than there are slots: then they take turns, and none goes on by itself. */
  let scarce = false
  /** While results are recorded, their endpoints are passed over by whoever looks for what is due. */
  let recording = false
  let missed = false
  const bell = yield* Queue.sliding<void>(1)
  const ring = Queue.offer(bell, undefined)

  // The first finalizer is the last to run: by then nothing is being sent any more.
  yield* Effect.addFinalizer(() =>
    Effect.gen(function* () {
      const at = yield* now
      const known = yield* Queue.clear(results)
      const unsent = lines.clear()
      for (const { claim } of known) forget(claim)
      for (const claim of unsent) forget(claim)
      const left = [
        ...known.map(({ result }) => result),
        ...unsent.map((claim) => returned(claim, "unsent", at)),
        ...[...underWay.values()].map((claim) => returned(claim, "released", at))
      ]
      if (left.length > 0) yield* record(sql, left, { ...(yield* terms), slots: 0 })
    }).pipe(Effect.timeoutOption(Duration.seconds(2)), Effect.ignore)
  )
  const run = yield* FiberSet.makeRuntime<never>()

  /** Makes an attempt, and records what became of it; gives what is to be attempted next at the same endpoint. */
  const deliver = Effect.fnUntraced(function* (claim: UnderWay) {
    const startedAt = yield* now
    claim.startedAt = startedAt
    const outcome = yield* attempt(parts, claim, startedAt.getTime()).pipe(
      // Whatever goes wrong with one delivery is that delivery's failure.
      Effect.catchDefect((defect) =>
        Effect.as(Effect.logError("An attempt of a delivery failed", defect), {
          _tag: "failed",
          code: "internal"
        } as const)
      )
    )
    const finishedAt = yield* now
    const times = { startedAt, finishedAt }
    const result = resultOf(claim, outcome, times, webhooks.retrySchedule, yield* Random.next)
    const { back, next } = lines.next(claim, result.on === "succeeded" && !draining, finishedAt.getTime())
    if (isGone(outcome)) yield* persistently(disable(sql, claim, finishedAt))
    yield* Queue.offer(results, { claim, result })
    if (back.length > 0) yield* giveBack(back)
    return next
  })

  /** One after the other, by one fiber: a fiber for each costs as much as all else around the request. */
  const deliverAll = Effect.fnUntraced(function* (first: UnderWay) {
    for (let claim: UnderWay | undefined = first; claim !== undefined;) claim = yield* deliver(claim)
  })

  const lines = Lines.make<UnderWay>(endpointConcurrency, (claim) => run(deliverAll(claim)))

  const giveBack = (claims: ReadonlyArray<UnderWay>) =>
    Effect.flatMap(now, (at) =>
      Queue.offerAll(
        results,
        claims.map((claim) => ({ claim, result: returned(claim, "unsent", at) }))
      )
    )

  const begin = Effect.fnUntraced(function* (claims: ReadonlyArray<Claim>) {
    const startedAt = yield* now
    for (const one of claims) {
      const claim = { ...one, startedAt }
      underWay.set(keyOf(claim), claim)
      lines.add(claim, startedAt.getTime())
    }
  })

  /** Unless it has been claimed anew meanwhile. */
  const forget = (claim: UnderWay) => {
    if (underWay.get(keyOf(claim)) === claim) underWay.delete(keyOf(claim))
  }

  // What a claim has leased has to be known here, whatever ends meanwhile.
  const claimDue = Effect.gen(function* () {
    const slots = allSlots - lines.sending()
    if (slots === 0 || draining) return
    missed = recording
    const claims = yield* untraced(statement(claim(sql, { ...(yield* terms), slots })))
    scarce = claims.length === slots
    yield* begin(claims)
  }).pipe(claiming.withPermit, Effect.uninterruptible)

  yield* Queue.take(bell).pipe(
    Effect.timeoutOption(lookEvery),
    Effect.andThen(claimDue),
    Effect.catchCause((cause) =>
      Effect.andThen(Effect.logWarning("Due deliveries were not claimed", cause), Effect.sleep(againAfter))
    ),
    Effect.forever,
    Effect.forkScoped
  )

  /** Records results, and claims what comes next for their endpoints, unless others wait for a slot. */
  const settle = (batch: ReadonlyArray<Ended>) =>
    Effect.gen(function* () {
      recording = true
      const slots = scarce || draining ? 0 : Math.max(0, Math.min(longestBatch, aheadInAll - underWay.size))
      const results = batch.map(({ result }) => result)
      const claims = yield* statement(record(sql, results, { ...(yield* terms), slots }))
      for (const { claim } of batch) forget(claim)
      yield* begin(claims)
      missed ||= slots < batch.length
    }).pipe(Effect.ensuring(Effect.sync(() => void (recording = false))), claiming.withPermit, Effect.uninterruptible)

  /**
   * Nobody knows whether a statement that failed was done. What it gave back may be leased to another by now, under the
   * number of the same attempt: so that is not said again, and the lease runs out.
   */
  const settleAgain = (batch: ReadonlyArray<Ended>) => {
    for (const { claim, result } of batch) if (result.on === "unsent") forget(claim)
    return persistently(settle(batch.filter(({ result }) => result.on !== "unsent")))
  }

  yield* Queue.takeBetween(results, 1, longestBatch).pipe(
    Effect.flatMap((batch) =>
      Effect.gen(function* () {
        yield* settle(batch).pipe(
          Effect.catch((error) => Effect.andThen(complain(error), Effect.delay(settleAgain(batch), againAfter))),
          // Their leases run out, and they are delivered again: one batch must not hold up all that follow.
          Effect.catchDefect((defect) => {
            for (const { claim } of batch) forget(claim)
            return Effect.logError("Results of deliveries can't be recorded", defect)
          })
        )
        if (draining && underWay.size === 0) yield* Latch.open(idle)
        if (scarce || missed) yield* Effect.ignore(claimDue)
        if (measured) yield* Metrics.count(batch.map(({ result }) => result).filter(({ on }) => on !== "unsent"))
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
        : Effect.flatMap(terms, ({ leaseEnd }) =>
            untraced(statement(extend(sql, [...underWay.values()], leaseEnd)))
          ).pipe(
            // A result that is being recorded would lose its row.
            claiming.withPermits(2)
          )
    )
  )

  yield* upkeep({ sql, maintenance, lease, endpointConcurrency, ring })

  /** New deliveries, or a webhook that has changed: what was claimed ahead for that is claimed anew. */
  const heard = (payload: string) =>
    Option.match(endpointOf(payload), {
      onNone: () => ring,
      // What a claim that is under way brings may be of before the change, too.
      onSome: (endpoint) =>
        Effect.suspend(() => giveBack(lines.drop(endpoint))).pipe(claiming.withPermits(2), Effect.andThen(ring))
    })

  // Its end is not waited for: a database that hangs does not even take leave.
  const listener = yield* Effect.forkDetach(notices(heard))
  yield* Effect.addFinalizer(() => Effect.sync(() => listener.interruptUnsafe()))

  return {
    drain: Effect.suspend(() => {
      draining = true
      // A claim that is under way is the last; what of it is not sent yet won't be.
      return claiming
        .withPermits(2)(Effect.void)
        .pipe(
          Effect.andThen(Effect.suspend(() => giveBack(lines.clear()))),
          Effect.andThen(Effect.suspend(() => (underWay.size === 0 ? Effect.void : Latch.await(idle))))
        )
    })
  }
})

/** Until it succeeds: while the database is away the leases run on, and then others deliver again. */
const persistently = <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A> =>
  effect.pipe(Effect.tapError(complain), Effect.retry(Schedule.spaced(againAfter)), Effect.orDie)

const complain = (error: unknown) => Effect.logWarning("Results of deliveries were not recorded", error)
