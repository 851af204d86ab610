/** Reads of API keys: of known keys whatever waits, of invented ones in bounded number (contract §3). */
import { assert, describe, it } from "../../support/Vitest.ts"
import { Clock, Duration, Effect, Fiber, Latch } from "effect"
import { TestClock } from "effect/testing"
import { KeyId } from "../../../src/api/schema/Ids.ts"
import { ServiceUnavailable } from "../../../src/api/Problems.ts"
import { makeKeyReads, maxWaiting } from "../../../src/http/auth/KeyReads.ts"

const idOf = (n: number) => KeyId.make(`key${String(n).padStart(9, "0")}`)
const [valid, other] = [KeyId.make("validvalid01"), KeyId.make("validvalid02")]

/** A table with one key, and the reads of it. */
const open = Effect.gen(function* () {
  const reads: Array<ReadonlyArray<KeyId>> = []
  const table = { available: true, keys: new Set([valid]), answers: yield* Latch.make(true) }
  const read = makeKeyReads(yield* Clock.Clock, (keyIds) => {
    reads.push(keyIds)
    return Effect.andThen(
      table.answers.await,
      Effect.suspend(() =>
        table.available
          ? Effect.succeed(keyIds.filter((keyId) => table.keys.has(keyId)).map((keyId) => ({ keyId })))
          : Effect.fail(new ServiceUnavailable({ detail: "" }))
      )
    )
  })
  const isFound = (keyId: KeyId) => Effect.map(read(keyId), ({ key }) => key !== undefined)
  const invent = (count: number) =>
    Effect.forEach(
      Array.from({ length: count }, (_, n) => idOf(n)),
      (keyId): Effect.Effect<boolean | string> => Effect.catch(isFound(keyId), () => Effect.succeed("refused")),
      { concurrency: "unbounded" }
    )
  return { reads, table, isFound, invent }
})

describe("reads of API keys", () => {
  it.effect("are few for the invented tokens of one turn, and none for an id that was just missing", function* () {
    const { invent, isFound, reads } = yield* open
    assert.deepStrictEqual(new Set(yield* invent(2_000)), new Set<boolean | string>([false]))
    assert.isAtMost(reads.length, 6)
    const before = reads.length
    assert.isFalse(yield* isFound(idOf(1_999)))
    assert.strictEqual(reads.length, before)
  })

  it.effect(
    "find a key within a second of its issue, even if it was presented before, and miss a revoked one",
    function* () {
      const { isFound, table } = yield* open
      assert.isFalse(yield* isFound(other))
      table.keys.add(other)
      yield* TestClock.adjust(Duration.millis(999))
      assert.isTrue(yield* isFound(other))
      table.keys.delete(other)
      yield* TestClock.adjust(Duration.millis(999))
      assert.isFalse(yield* isFound(other))
    }
  )

  it.effect("of unknown keys wait in bounded number, and never before those of known ones", function* () {
    const { invent, isFound, reads, table } = yield* open
    assert.isTrue(yield* isFound(valid))
    yield* TestClock.adjust(Duration.seconds(1))
    table.answers.closeUnsafe()
    const answers = yield* Effect.forkChild(invent(maxWaiting + 1_000))
    while (reads.length < 3) yield* Effect.yieldNow
    const known = yield* Effect.forkChild(isFound(valid))
    while (!reads.some((keyIds) => keyIds.includes(valid)) || reads.length < 4) yield* Effect.yieldNow
    assert.deepStrictEqual(reads.at(-1), [valid])
    table.answers.openUnsafe()
    assert.isTrue(yield* Fiber.join(known))
    const refused = (yield* Fiber.join(answers)).filter((answer) => answer === "refused")
    // Those of the statements in flight do not wait.
    assert.isTrue(refused.length > 0 && refused.length <= 1_000)
    assert.deepStrictEqual(new Set(yield* invent(1_000)), new Set<boolean | string>([false]))
  })

  it.effect("fail for all that wait when the database does not answer, and succeed again afterwards", function* () {
    const { invent, isFound, table } = yield* open
    table.available = false
    assert.deepStrictEqual(new Set(yield* invent(20)), new Set<boolean | string>(["refused"]))
    table.available = true
    assert.isTrue(yield* isFound(valid))
  })
})
