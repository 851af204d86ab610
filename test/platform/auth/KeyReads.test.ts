/** Reads of API keys: at once for those that are known, at a bounded rate for all that is invented. */
import { assert, describe, it } from "@effect/vitest"
import { Duration, Effect, Fiber, Option } from "effect"
import { TestClock } from "effect/testing"
import { KeyId } from "../../../src/api/Ids.ts"
import { ServiceUnavailable } from "../../../src/api/Problems.ts"
import { pacedReads } from "../../../src/platform/auth/KeyReads.ts"

const idOf = (n: number) => KeyId.make(`key${String(n).padStart(9, "0")}`)
const [valid, other] = [KeyId.make("validvalid01"), KeyId.make("validvalid02")]

/** A table of two keys, and the reads of it. */
const open = Effect.gen(function* () {
  const reads: Array<ReadonlyArray<KeyId>> = []
  const table = { available: true, keys: new Set([valid]) }
  const read = yield* pacedReads((keyIds) =>
    Effect.suspend(() => {
      reads.push(keyIds)
      return table.available
        ? Effect.succeed(keyIds.filter((keyId) => table.keys.has(keyId)).map((keyId) => ({ keyId })))
        : Effect.fail(new ServiceUnavailable({ detail: "" }))
    })
  )
  const isFound = (keyId: KeyId) => Effect.map(read(keyId), ({ row }) => Option.isSome(row))
  /** Many callers at once; their answers are there when time has passed. */
  const invent = (count: number, from = 0) =>
    Effect.forkChild(
      Effect.forEach(
        Array.from({ length: count }, (_, n) => idOf(from + n)),
        isFound,
        { concurrency: "unbounded" }
      )
    )
  return { reads, table, isFound, invent }
})

describe("reads of API keys", () => {
  it.effect("are few for many invented tokens", () =>
    Effect.gen(function* () {
      const { invent, reads } = yield* open
      for (let round = 0; round < 10; round++) {
        const answers = yield* invent(200, round * 200)
        yield* TestClock.adjust(Duration.millis(100))
        assert.deepStrictEqual(new Set(yield* Fiber.join(answers)), new Set([false]))
      }
      assert.isAtMost(reads.length, 20 + 10 + 10)
    }).pipe(Effect.scoped)
  )

  it.effect("are made at once for a key that was found before, whatever others invent", () =>
    Effect.gen(function* () {
      const { invent, isFound, reads } = yield* open
      assert.isTrue(yield* isFound(valid))
      const answers = yield* invent(300)
      yield* Effect.yieldNow
      const before = reads.length
      assert.isTrue(yield* isFound(valid))
      assert.deepStrictEqual(reads.slice(before), [[valid]])
      yield* Fiber.interrupt(answers)
    }).pipe(Effect.scoped)
  )

  it.effect("find a new key among invented ones, though it was tried before it was there", () =>
    Effect.gen(function* () {
      const { invent, isFound, table } = yield* open
      yield* invent(100)
      yield* TestClock.adjust(Duration.millis(50))
      const before = yield* Effect.forkChild(isFound(other))
      yield* TestClock.adjust(Duration.millis(50))
      assert.isFalse(yield* Fiber.join(before))
      table.keys.add(other)
      yield* invent(100, 100)
      const after = yield* Effect.forkChild(isFound(other))
      yield* TestClock.adjust(Duration.millis(50))
      assert.isTrue(yield* Fiber.join(after))
    }).pipe(Effect.scoped)
  )

  it.effect("wait in bounded number: a token beyond is taken for unknown without a read", () =>
    Effect.gen(function* () {
      const { invent, reads } = yield* open
      const answers = yield* invent(6_000)
      yield* TestClock.adjust(Duration.millis(50))
      assert.deepStrictEqual(new Set(yield* Fiber.join(answers)), new Set([false]))
      assert.strictEqual(reads.flat().length, 20 + 5_000)
    }).pipe(Effect.scoped)
  )

  it.effect("fail for all that wait where the database does not answer, and work again afterwards", () =>
    Effect.gen(function* () {
      const { invent, isFound, table } = yield* open
      yield* invent(20)
      yield* Effect.yieldNow
      table.available = false
      const waiting = yield* Effect.forkChild(Effect.exit(isFound(valid)))
      yield* TestClock.adjust(Duration.millis(50))
      assert.strictEqual((yield* Fiber.join(waiting))._tag, "Failure")
      table.available = true
      const again = yield* Effect.forkChild(isFound(valid))
      yield* TestClock.adjust(Duration.millis(50))
      assert.isTrue(yield* Fiber.join(again))
    }).pipe(Effect.scoped)
  )
})
