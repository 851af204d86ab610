/** The time that a request may wait for the database: one limit for all waits, counted from its arrival (contract §15). */
import { assert, describe, it } from "../../support/Vitest.ts"
import { Deferred, Duration, Effect, Exit, Fiber } from "effect"
import type { ServiceUnavailable } from "../../../src/api/Problems.ts"
import { ProjectId } from "../../../src/api/schema/Ids.ts"
import { CurrentRequest, newRequestState } from "../../../src/platform/CurrentRequest.ts"
import { type Call, coalesce, makeBatches } from "../../../src/sql/Batches.ts"
import { statement, StatementTimeout, withOwnTime } from "../../../src/sql/Database.ts"
import { capacity, FairQueue, type Queued as QueuedCall } from "../../../src/commands/Grouped.ts"
import { until } from "../../support/Waiting.ts"

/** Provides a request that arrived this many milliseconds ago. */
const arrivedBefore = (millis: number) => {
  const request = { ...newRequestState(undefined, "/"), arrivedAt: performance.now() - millis }
  return Effect.provideService(CurrentRequest, request)
}

const late = arrivedBefore(3_600_000)

/** A timeout that is longer than every test. */
const long = Effect.provideService(StatementTimeout, Duration.minutes(10))

type Queued = QueuedCall["input"]

const tagOf = <A, E extends { readonly _tag: string }>(effect: Effect.Effect<A, E>) =>
  Effect.match(effect, { onFailure: ({ _tag }) => _tag, onSuccess: () => "answered" })

const mutation = (n: number, projectId = "busy"): Queued => ({
  projectId: ProjectId.make(projectId),
  names: [n]
})

/** A queue of mutations whose groups run until they are released. */
const openQueue = Effect.gen(function* () {
  const released = yield* Deferred.make<void>()
  const sent: Array<Queued> = []
  const run = makeBatches({
    line: new FairQueue<Call<Queued, string, ServiceUnavailable>>(),
    maxBatch: 32,
    maxInFlight: 2,
    isEager: false,
    run: (requests: ReadonlyArray<Queued>) =>
      Effect.suspend(() => {
        sent.push(...requests)
        return Effect.as(
          Deferred.await(released),
          requests.map(() => "done")
        )
      }),
    settle: (_, answer) => answer
  })
  return { run, sent, released }
})

describe("the time of a request", () => {
  it.live("is that of all its statements together", function* () {
    assert.strictEqual(yield* tagOf(statement(Effect.never).pipe(long, late)), "service_unavailable")
    const inTime = yield* Effect.forkChild(tagOf(statement(Effect.never).pipe(long, arrivedBefore(1_000))))
    const outside = yield* Effect.forkChild(tagOf(statement(Effect.never).pipe(long)))
    // When another late statement has failed, these two have been sent and still wait.
    yield* tagOf(statement(Effect.never).pipe(long, late))
    assert.deepStrictEqual([inTime.pollUnsafe(), outside.pollUnsafe()], [undefined, undefined])
    yield* Fiber.interruptAll([inTime, outside])
  })

  it.live("does not end work with a time of its own, such as the record of a provider's call", function* () {
    const answered = statement(Effect.delay(Effect.succeed("recorded"), 20))
    assert.strictEqual(yield* tagOf(withOwnTime(answered).pipe(long, late)), "answered")
  })

  it.live("does not end the look-ups of others in the same batch", function* () {
    const released = yield* Deferred.make<void>()
    const lookup = coalesce(64, (inputs: ReadonlyArray<number>) => Effect.as(Deferred.await(released), inputs))
    const [first, second] = [
      yield* Effect.forkChild(tagOf(lookup(1).pipe(long, late))),
      yield* Effect.forkChild(tagOf(lookup(2).pipe(long)))
    ]
    assert.strictEqual(yield* Fiber.join(first), "service_unavailable")
    yield* Deferred.succeed(released, undefined)
    assert.strictEqual(yield* Fiber.join(second), "answered")
  })

  it.live("includes the queue of its mutation, and does not end the group of others", function* () {
    const { released, run } = yield* openQueue
    const [first, second] = [
      yield* Effect.forkChild(tagOf(run(mutation(1)).pipe(long, arrivedBefore(599_990)))),
      yield* Effect.forkChild(tagOf(run(mutation(2)).pipe(long)))
    ]
    assert.strictEqual(yield* Fiber.join(first), "service_unavailable")
    yield* Deferred.succeed(released, undefined)
    assert.strictEqual(yield* Fiber.join(second), "answered")
  })
})

describe("a queue of mutations", () => {
  it.live("refuses a mutation that was not sent in three quarters of its time", function* () {
    const { released, run, sent } = yield* openQueue
    const running = [yield* Effect.forkChild(run(mutation(0)).pipe(long))]
    yield* until(() => sent.length === 1)
    running.push(yield* Effect.forkChild(run(mutation(1)).pipe(long)))
    yield* until(() => sent.length === 2)
    const refused = yield* Effect.flip(run(mutation(2)).pipe(long, arrivedBefore(599_800)))
    assert.match(refused.detail ?? "", /^Too many requests of this kind are waiting/)
    yield* Deferred.succeed(released, undefined)
    assert.deepStrictEqual(yield* Fiber.joinAll(running), ["done", "done"])
    assert.lengthOf(sent, 2)
  })

  it.live(
    "that is full refuses the project that fills it without a wait, takes mutations of others, and runs all that it has taken",
    function* () {
      const { released, run, sent } = yield* openQueue
      const start = (request: Queued) => Effect.forkChild(Effect.exit(run(request).pipe(long)))
      const first = yield* start(mutation(0))
      yield* until(() => sent.length === 1)
      const second = yield* start(mutation(1))
      yield* until(() => sent.length === 2)
      const waiting = yield* Effect.forEach(
        Array.from({ length: capacity }, (_, n) => mutation(n + 2)),
        start
      )
      yield* Effect.yieldNow
      const refused = yield* Effect.flip(run(mutation(capacity + 2)).pipe(long))
      assert.match(refused.detail ?? "", /^Too many requests of this kind are waiting/)
      const other = yield* start(mutation(0, "other"))
      yield* Deferred.succeed(released, undefined)
      const exits = yield* Fiber.joinAll([first, second, other, ...waiting])
      assert.isTrue(exits.every(Exit.isSuccess))
      assert.strictEqual(yield* run(mutation(capacity + 2)), "done")
    }
  )
})
