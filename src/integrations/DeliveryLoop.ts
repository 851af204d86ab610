/**
 * Delivers the outbox. Any number of processes may run it. `src/integrations/README.md` follows a delivery.
 *
 * One fiber talks to the database, one statement after the other; attempts run beside it:
 *
 *   ┌──▶ waiting ── results, notice or timer ──▶ disabling ──▶ recording ──▶ claiming ──┐
 *   │                                            (if 410)      (if results)  (if open)  │
 *   └───────────────────────────────────────────────────────────────────────────────────┘
 *
 *   attempt:  claimed ──▶ queued by endpoint ──▶ sending ──▶ ended ──▶ recorded
 *                               └── returned unsent ──────────▲
 *
 *   intake:   open ── drain ──▶ closed ── nothing leased ──▶ idle
 *
 * - waiting: a result, a notice (new deliveries, a changed webhook) or the timer ends it, whichever comes first.
 * - disabling: the webhooks whose endpoints answered 410, before these answers are recorded.
 * - recording: the results, in one statement (`Deliveries/Results.ts`). While the database is unreachable they are kept and
 *   tried again. The result of an expired lease is discarded.
 * - claiming: as many as `Slots` has free, for endpoints that are due by their row and for those that are named: by a notice,
 *   by a record after which they are due, or by an endpoint queue that runs low. While none is named, every `pollEvery`.
 */
import { Clock, Context, Duration, Effect, FiberSet, Latch, Layer, Queue, Random } from "effect"
import { SqlClient } from "effect/sql"
import { Supervisor } from "../platform/background/Supervisor.ts"
import { Worker } from "../platform/background/Worker.ts"
import { clients, statement } from "../platform/Database.ts"
import { monotonicMillis } from "../platform/MonotonicTime.ts"
import { MetricsEnabled } from "../platform/MetricsEnabled.ts"
import { SecretBox } from "../platform/SecretBox.ts"
import { Settings } from "../platform/Settings.ts"
import { untraced } from "../platform/Telemetry.ts"
import { attempt } from "./Deliveries/Attempt.ts"
import { claim } from "./Deliveries/Claim.ts"
import type { Endpoint } from "./Deliveries/Claim/Endpoints.ts"
import * as EndpointQueues from "./Deliveries/EndpointQueues.ts"
import { type Leased, leasesOf } from "./Deliveries/Leases.ts"
import { listen } from "./Deliveries/Listener.ts"
import { maintain } from "./Deliveries/Maintenance.ts"
import { record } from "./Deliveries/Record.ts"
import * as Results from "./Deliveries/Results.ts"
import { isGone, maxAge, resultOf, returnedBy } from "./Deliveries/Schedule.ts"
import * as Secrets from "./Deliveries/Secrets.ts"
import * as Slots from "./Deliveries/Slots.ts"
import { type Outcome, Sender } from "./Sender.ts"

/** Maximum number of deliveries leased to one process, in flight or waiting in their queues. */
const leasesInAll = 4_096
/** Maximum number of these that one statement claims beyond the concurrency of their endpoints. */
const aheadPerClaim = 1_000
/** Interval of claims without a notice: half of the maximum delay of a retry. */
const pollEvery = Duration.millis(250)
/** Time that a lease lasts beyond its attempt. It is never extended. */
const leaseMargin = Duration.seconds(15)
/** Pause before results are recorded again. */
const againAfter = Duration.millis(500)
/** A statement may take 4 s and be tried again. */
const stalledAfter = Duration.seconds(30)

export class DeliveryLoop extends Context.Service<
  DeliveryLoop,
  {
    /** Claims nothing more, and waits until what is being sent is recorded. */
    readonly drain: Effect.Effect<void>
  }
>()("developer-api/integrations/DeliveryLoop") {
  static readonly layer = Layer.effect(
    DeliveryLoop,
    Effect.suspend(() => make)
  )
}

/** Outcome of an attempt that ended with a defect. */
const internal = { _tag: "failed", code: "internal" } as const

const make = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const claims = Context.get(yield* Layer.build(clients.claims), SqlClient.SqlClient)
  const maintenance = Context.get(yield* Layer.build(clients.maintenance), SqlClient.SqlClient)
  const supervisor = yield* Supervisor
  const worker = yield* Worker
  const parts = { secrets: Secrets.make(yield* SecretBox), sender: yield* Sender }
  const { webhooks } = yield* Settings
  const measured = yield* MetricsEnabled
  const clock = yield* Clock.Clock
  const random = yield* Random.Random
  /** The time of day, which the attempt log and the signatures have. */
  const now = () => clock.currentTimeMillisUnsafe()
  const monotonic = () => monotonicMillis(clock)
  const concurrency = webhooks.endpointConcurrency
  const leaseMillis = Duration.toMillis(Duration.sum(webhooks.timeout, leaseMargin))
  const terms = { concurrency, disableAfterMillis: Duration.toMillis(webhooks.disableAfter) }
  const slots = Slots.make()
  const leased = new Set<Leased>()
  /** Endpoints that the next claim visits, by key. */
  const named = new Map<string, Endpoint>()
  /** Endpoints whose webhook has changed since the last claim began: deliveries claimed ahead of it are returned. */
  const changed = new Map<string, Endpoint>()
  /** Time of the next claim if no endpoint is named before. Monotonic, in nanoseconds. */
  let pollAt = 0n
  let intake: "open" | "closed" = "open"
  const idle = yield* Latch.make(false)
  const signals = yield* Queue.sliding<void>(1)
  const signal = () => void Queue.offerUnsafe(signals, undefined)

  const name = (endpoint: Endpoint) => void named.set(EndpointQueues.keyOf(endpoint), endpoint)
  const returnAll = (leases: ReadonlyArray<Leased>) => {
    const at = now()
    for (const lease of leases) results.add(lease, returnedBy(lease, "unsent", { startedAt: at, finishedAt: at }))
  }

  // Finalizers run in reverse order, so this one runs after the fibers that send have ended.
  yield* Effect.addFinalizer(() =>
    Effect.suspend(() => {
      returnAll(queues.drop())
      const ended = new Map(results.left().map(({ lease, result }) => [lease, result]))
      const all = Array.from(
        leased,
        (lease) =>
          ended.get(lease) ??
          returnedBy(lease, "released", { startedAt: lease.startedAt, finishedAt: Math.max(lease.startedAt, now()) })
      )
      return all.length === 0 ? Effect.void : Effect.asVoid(record(sql, all, terms))
    }).pipe(Effect.timeoutOption(Duration.seconds(2)), Effect.ignore)
  )
  const run = yield* FiberSet.makeRuntime<never>()

  /** Adds the result of an attempt; returns what is sent next to the endpoint. */
  const ended = (lease: Leased, slot: Slots.Slot, outcome: Outcome) => {
    slots.release(slot)
    const at = monotonic()
    const millis = Math.round(at - slot.startedAt)
    const times = { startedAt: lease.startedAt, finishedAt: lease.startedAt + millis }
    const result = resultOf(lease, outcome, times, webhooks.retrySchedule, random.nextDoubleUnsafe())
    const succeeded = result.on === "succeeded" && intake === "open"
    const { next, returned } = queues.next(lease, { succeeded, millis, now: at })
    if (isGone(outcome)) results.addGone(lease)
    results.add(lease, result)
    if (returned.length > 0) returnAll(returned)
    return next
  }

  /** Makes attempts in one fiber, one after the other: that of `lease`, then those that wait for the endpoint. */
  const deliver = (lease: Leased): Effect.Effect<void> =>
    Effect.suspend(() => {
      lease.startedAt = now()
      const slot = slots.take(lease.suspect, monotonic())
      return attempt(parts, lease, lease.startedAt).pipe(
        // A defect in one attempt is the failure of that delivery alone.
        Effect.catchDefect((defect) => Effect.as(Effect.logError("An attempt of a delivery failed", defect), internal)),
        Effect.flatMap((outcome) => {
          const next = ended(lease, slot, outcome)
          return next === undefined ? Effect.void : deliver(next)
        })
      )
    })

  const queues = EndpointQueues.make<Leased>(concurrency, (lease) => run(deliver(lease)))
  const results = Results.make<Leased>({
    sql,
    terms,
    measured,
    signal,
    ended: (leases) => {
      for (const lease of leases) {
        leased.delete(lease)
        queues.recorded(lease)
      }
    },
    due: (endpoints) => endpoints.forEach(name)
  })

  /**
   * Claims what there are slots for, if an endpoint is named or nothing was claimed for `pollEvery`. What a claim has leased
   * is known here, even if the fiber is interrupted meanwhile.
   */
  const claimDue = Effect.suspend(() => {
    const workerId = worker.leaseId()
    const room = Math.max(0, leasesInAll - leased.size)
    if (workerId === null) return Effect.void
    const at = monotonic()
    queues.runningLow(at).forEach(name)
    const elapsed = clock.monotonicTimeNanosUnsafe()
    if (named.size === 0 && elapsed < pollAt) return Effect.void
    pollAt = elapsed + Duration.toNanosUnsafe(pollEvery)
    const visits = queues.named(named.values(), at, Math.min(aheadPerClaim, room))
    const { healthy, suspect } = slots.free(at)
    const limits = { concurrency, leaseMillis, slots: { healthy: Math.min(healthy, room), suspect } }
    named.clear()
    changed.clear()
    return untraced(statement(claim(claims, { ...limits, workerId, named: visits }))).pipe(
      Effect.map((rows) => {
        const leases = leasesOf(rows, now())
        for (const lease of leases) leased.add(lease)
        if (intake === "closed") return returnAll(leases)
        queues.add(leases, monotonic())
        // The claim may have read a webhook before it changed.
        for (const endpoint of changed.values()) returnAll(queues.drop(endpoint))
      }),
      Effect.uninterruptible
    )
  })

  const cycle = Effect.gen(function* () {
    const left = pollAt - clock.monotonicTimeNanosUnsafe()
    yield* Effect.timeoutOption(Queue.take(signals), intake === "open" && left > 0n ? Duration.nanos(left) : pollEvery)
    yield* results.record
    if (intake === "open") yield* claimDue
    else if (leased.size === 0) yield* Latch.open(idle)
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
    endpoints.forEach(name)
    if (endpoints.length > 0) signal()
  }

  yield* maintain({
    sql,
    maintenance,
    worker,
    leaseMillis,
    maxAge: maxAge(webhooks.retrySchedule),
    visit: (endpoints) => Effect.sync(() => visit(endpoints))
  })

  yield* listen(({ installationIds, on, projectId }) => {
    const endpoints = installationIds.map((installationId) => ({ projectId, installationId }))
    visit(endpoints)
    if (on === "appended") return
    for (const endpoint of endpoints) {
      changed.set(EndpointQueues.keyOf(endpoint), endpoint)
      returnAll(queues.drop(endpoint))
    }
  })

  return {
    drain: Effect.suspend(() => {
      intake = "closed"
      returnAll(queues.drop())
      signal()
      return Latch.await(idle)
    })
  }
})
