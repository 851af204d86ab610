import fc from "fast-check"
import { assert, describe, it, layer } from "../support/Vitest.ts"
import { SqlClient } from "effect/sql"
import { formatInstant, registerTimestamps } from "../../src/sql/Times.ts"
import { TestDatabase } from "../support/TestDatabase.ts"
import { Context, Deferred, Effect, Exit, Fiber, Layer, Option, Tracer } from "effect"
import { coalesce } from "../../src/sql/Batches.ts"
import { sqlClients, DatabaseUrl } from "../../src/sql/Connections.ts"
import { until } from "../support/Waiting.ts"
import { getHeapSpaceStatistics, setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"

registerTimestamps()

const instant = fc.date({
  min: new Date("0001-01-01T00:00:00Z"),
  max: new Date("9999-12-31T23:59:59.999Z"),
  noInvalidDate: true
})

const edges = ["0001-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z", "1999-12-31T23:59:59.999Z"]

layer(TestDatabase.layer)("instants of PostgreSQL", (it) => {
  it.effect("are formatted as the contract says in every year", function* () {
    const sql = yield* SqlClient.SqlClient
    const texts = [...fc.sample(instant, 200).map((date) => date.toISOString()), ...edges]
    const rows = yield* sql<{ readonly at: string }>`
      SELECT at AT TIME ZONE 'UTC' AS at FROM unnest(${texts}::timestamptz(3)[]) WITH ORDINALITY AS given (at, ordinal)
      ORDER BY ordinal`
    assert.deepStrictEqual(
      rows.map(({ at }) => at),
      texts
    )
  })

  it.effect("are the same as parameters and as columns in every year", function* () {
    const sql = yield* SqlClient.SqlClient
    for (const date of [...fc.sample(instant, 100), ...edges.map((edge) => new Date(edge))]) {
      const [row] = yield* sql<{ readonly same: boolean; readonly at: Date }>`
        SELECT ${date}::timestamptz = ${date.toISOString()}::timestamptz AS same, ${date}::timestamptz AS at`
      assert.deepStrictEqual(row, { same: true, at: date }, date.toISOString())
    }
  })
})

it("instants are formatted like Date.prototype.toISOString", () => {
  fc.assert(fc.property(instant, (date) => assert.strictEqual(formatInstant(date.getTime()), date.toISOString())))
})

/** Returns a coalesced function that doubles numbers, and the batches of its calls. */
const doubling = (maxBatch = 64) => {
  const batches: Array<ReadonlyArray<number>> = []
  const double = coalesce(maxBatch, (inputs: ReadonlyArray<number>) => {
    batches.push(inputs)
    return inputs.includes(13) ? Effect.fail("unlucky") : Effect.succeed(inputs.map((input) => input * 2))
  })
  return { batches, double }
}

/** Traces of callers: recorded, marked as recorded but not sampled by this process, and not marked. */
const parent = (digit: string, sampled = true) =>
  Tracer.externalSpan({ traceId: digit.repeat(32), spanId: digit.repeat(16), sampled })
const [recorded, refused, unmarked] = [parent("a"), parent("b"), parent("c", false)]

const upTo = (count: number) => Array.from({ length: count }, (_, number) => number)

describe("coalesced calls", () => {
  it.live("have spans, which all end, if their trace is recorded", function* () {
    const spans: Array<Tracer.Span> = []
    const tracer = Tracer.make({
      span: (options) => {
        const { traceId } = Option.getOrThrow(options.parent)
        const span = new Tracer.NativeSpan({ ...options, sampled: traceId !== refused.traceId })
        spans.push(span)
        return span
      }
    })
    const { double } = doubling()
    const callIn = (parent: Tracer.AnySpan) => Effect.withParentSpan(double(1), parent)
    const untraced = Effect.withTracerEnabled(callIn(recorded), false)
    yield* Effect.gen(function* () {
      const gone = yield* Effect.forkChild(callIn(recorded))
      yield* Effect.yieldNow
      yield* Fiber.interrupt(gone)
      const calls = [callIn(refused), callIn(unmarked), untraced, callIn(recorded), callIn(recorded)]
      yield* Effect.all(calls, { concurrency: "unbounded" })
    }).pipe(Effect.withTracer(tracer))
    const isOf = (of: Tracer.AnySpan) => (span: Tracer.Span) => Option.getOrThrow(span.parent) === of
    const batch = spans.find(({ name }) => name === "batch") ?? assert.fail("There is no batch")
    assert.deepStrictEqual(
      spans.filter(isOf(recorded)).map(({ links, name, status }) => [name, status._tag, links.map(({ span }) => span)]),
      [
        ["wait in queue", "Ended", []],
        ["wait in queue", "Ended", [batch]],
        ["wait in queue", "Ended", [batch]],
        ["batch", "Ended", [recorded, recorded]]
      ]
    )
    assert.lengthOf(spans.filter(isOf(refused)), 1)
    assert.lengthOf(spans.filter(isOf(unmarked)), 0)
  })

  it.live("answers the calls of one turn with one batch, each with its own answer", function* () {
    const { batches, double } = doubling()
    const answers = yield* Effect.forEach(upTo(10), double, { concurrency: "unbounded" })
    assert.deepStrictEqual(answers, [0, 2, 4, 6, 8, 10, 12, 14, 16, 18])
    assert.strictEqual(batches.length, 1)
  })

  it.live("answers calls of later turns with batches of their own", function* () {
    const { batches, double } = doubling()
    assert.deepStrictEqual([yield* double(1), yield* double(2)], [2, 4])
    assert.deepStrictEqual(batches, [[1], [2]])
  })

  it.live(
    "waits for the end of the turn after a batch of several calls, so that the next ones share a batch",
    function* () {
      const { batches, double } = doubling()
      yield* Effect.forEach([1, 2], double, { concurrency: "unbounded" })
      yield* Effect.promise(() => new Promise<void>((resolve) => setImmediate(resolve)))
      yield* Effect.forEach([3, 4], double, { concurrency: "unbounded" })
      assert.deepStrictEqual(batches, [
        [1, 2],
        [3, 4]
      ])
    }
  )

  it.live("sends what waits when a batch ends, and refuses calls beyond the capacity", function* () {
    const batches: Array<ReadonlyArray<number>> = []
    const released = yield* Deferred.make<void>()
    const call = coalesce(
      64,
      (inputs: ReadonlyArray<number>) => {
        batches.push(inputs)
        return Effect.as(Deferred.await(released), inputs)
      },
      { maxInFlight: 1, capacity: 2 }
    )
    const first = yield* Effect.forkChild(call(1))
    yield* until(() => batches.length === 1)
    const waiting = yield* Effect.forkChild(Effect.forEach([2, 3], call, { concurrency: "unbounded" }))
    yield* Effect.yieldNow
    assert.strictEqual((yield* Effect.flip(call(4)))._tag, "service_unavailable")
    yield* Deferred.succeed(released, undefined)
    assert.deepStrictEqual([yield* Fiber.join(first), yield* Fiber.join(waiting)], [1, [2, 3]])
    assert.deepStrictEqual(batches, [[1], [2, 3]])
  })

  it.live("splits calls that exceed the size of a batch", function* () {
    const { batches, double } = doubling(4)
    const answers = yield* Effect.forEach(upTo(10), double, { concurrency: "unbounded" })
    assert.deepStrictEqual(
      answers,
      upTo(10).map((number) => number * 2)
    )
    assert.deepStrictEqual(batches, [
      [0, 1, 2, 3],
      [4, 5, 6, 7],
      [8, 9]
    ])
  })

  it.live("leaves out a caller that was interrupted before the batch began, and answers the others", function* () {
    const { batches, double } = doubling()
    const [one, other] = [yield* Effect.forkChild(double(1)), yield* Effect.forkChild(double(2))]
    yield* Effect.yieldNow
    yield* Fiber.interrupt(one)
    assert.strictEqual(yield* Fiber.join(other), 4)
    assert.deepStrictEqual(batches, [[2]])
  })

  it.live("continues a batch for the other callers when one is interrupted", function* () {
    let answer: (answers: ReadonlyArray<number>) => void = () => {}
    let running: () => void = () => {}
    const begun = new Promise<void>((resolve) => (running = resolve))
    const call = coalesce<number, number, never>(64, () =>
      Effect.callback<ReadonlyArray<number>>((resume) => {
        answer = (answers) => resume(Effect.succeed(answers))
        running()
      })
    )
    const [one, other] = [yield* Effect.forkChild(call(1)), yield* Effect.forkChild(call(2))]
    yield* Effect.promise(() => begun)
    yield* Fiber.interrupt(one)
    answer([10, 20])
    assert.strictEqual(yield* Fiber.join(other), 20)
  })

  it.live("fails each caller of a batch that fails, and no caller of another", function* () {
    const { double } = doubling(2)
    const exits = yield* Effect.forEach([1, 13, 3, 4], (input) => Effect.exit(double(input)), {
      concurrency: "unbounded"
    })
    assert.deepStrictEqual(exits, [Exit.fail("unlucky"), Exit.fail("unlucky"), Exit.succeed(6), Exit.succeed(8)])
  })

  it.live("keeps nothing of the calls of a batch that has ended until the next full collection", function* () {
    const count = coalesce(64, (inputs: ReadonlyArray<ReadonlyArray<number>>) =>
      Effect.succeed(inputs.map(({ length }) => length))
    )
    const calls = Effect.forEach(
      Array.from({ length: 64 }, () => Effect.suspend(() => count(Array.from({ length: 10_000 }, (_, i) => i)))),
      (call) => call,
      { concurrency: "unbounded", discard: true }
    )
    const kept: Array<number> = []
    for (let round = 0; round < 5; round++) {
      yield* calls
      yield* Effect.sleep(10)
      // All that is in use is then in the old generation.
      collect("major")
      const before = oldGeneration()
      yield* calls
      yield* Effect.sleep(10)
      collect("minor")
      collect("minor")
      kept.push(oldGeneration() - before)
    }
    // The inputs take five megabytes. In some rounds, the process itself keeps something else.
    assert.isBelow(Math.min(...kept), 1_000_000)
  })
})

const reads = Layer.unwrap(
  Effect.map(TestDatabase, ({ url }) => Layer.provide(Layer.fresh(sqlClients.reads), DatabaseUrl.at(url)))
)

layer(TestDatabase.layer, { excludeTestServices: true })("a client", (it) => {
  it.effect(
    "keeps nothing of the parameters of a statement that has ended until the next full collection",
    function* () {
      const sql = Context.get(yield* Layer.build(reads), SqlClient.SqlClient)
      const statements = Effect.forEach(
        Array.from({ length: 16 }),
        () =>
          Effect.suspend(
            () => sql`SELECT pg_sleep(0.1) WHERE ${Array.from({ length: 8_000 }, (_, i) => i + 0.5)}::float[] <> '{}'`
          ),
        { concurrency: "unbounded", discard: true }
      )
      const kept: Array<number> = []
      for (let round = 0; round < 3; round++) {
        collect("major")
        const before = oldGeneration()
        const running = yield* Effect.forkChild(statements)
        yield* Effect.sleep(50)
        collect("minor")
        yield* Fiber.join(running)
        yield* Effect.sleep(10)
        collect("minor")
        collect("minor")
        kept.push(oldGeneration() - before)
      }
      // The parameters take three megabytes. In some rounds, the process itself keeps something else.
      assert.isBelow(Math.min(...kept), 1_500_000)
    }
  )

  it.effect("keeps nothing of the statements that have ended while others are in flight", function* () {
    const sql = Context.get(yield* Layer.build(reads), SqlClient.SqlClient)
    let ended = 0
    const statements = Effect.suspend(
      () => sql`SELECT pg_sleep(0.005) WHERE ${Array.from({ length: 5_000 }, (_, i) => i + 0.5)}::float[] <> '{}'`
    ).pipe(
      Effect.tap(() => Effect.sync(() => ended++)),
      Effect.forever
    )
    const held = Effect.fnUntraced(function* (after: number) {
      yield* until(() => ended >= after)
      collect("major")
      return oldGeneration()
    })
    const running = yield* Effect.forkChild(
      Effect.all(
        upTo(8).map(() => statements),
        { concurrency: "unbounded" }
      )
    )
    const before = yield* held(100)
    // The parameters of 200 statements take eight megabytes.
    assert.isBelow((yield* held(300)) - before, 2_000_000)
    yield* Fiber.interrupt(running)
  })
})

const collect = (type: "major" | "minor") => {
  setFlagsFromString("--expose-gc")
  const run: unknown = runInNewContext("gc")
  if (typeof run === "function") run({ type, execution: "sync" })
}

const oldGeneration = () =>
  getHeapSpaceStatistics()
    .filter(({ space_name }) => !space_name.startsWith("new_"))
    .reduce((sum, { space_used_size }) => sum + space_used_size, 0)
