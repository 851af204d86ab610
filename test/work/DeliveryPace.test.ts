import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { make } from "../../src/work/DeliveryPace.ts"

const shop = "shop"

/** Starts `count` commands. `begun` has the numbers of those that have had their turn. */
const started = Effect.fnUntraced(function* (pace: ReturnType<typeof make>, count: number, projectId = shop) {
  const begun: Array<number> = []
  const fibers: Array<Fiber.Fiber<void>> = []
  for (let n = 0; n < count; n++) {
    const command = Effect.andThen(
      pace.waitForTurn(projectId),
      Effect.sync(() => void begun.push(n))
    )
    fibers.push(yield* Effect.forkChild(command, { startImmediately: true }))
  }
  return { begun, fibers }
})

const times = (count: number, run: () => void) => Array.from({ length: count }, run)

describe("commands", () => {
  it.effect("do not wait while deliveries are not behind", () =>
    Effect.gen(function* () {
      const { begun } = yield* started(make(), 3)
      assert.deepStrictEqual(begun, [0, 1, 2])
    })
  )

  it.effect("of other projects do not wait", () =>
    Effect.gen(function* () {
      const pace = make()
      pace.setBehind(new Set([shop]))
      yield* started(pace, 3)
      assert.deepStrictEqual((yield* started(pace, 2, "other")).begun, [0, 1])
    })
  )

  it.effect(
    "wait while deliveries are behind: 16 run together, in order of arrival, when 22 deliveries have ended",
    () =>
      Effect.gen(function* () {
        const pace = make()
        pace.setBehind(new Set([shop]))
        const { begun } = yield* started(pace, 40)
        times(21, pace.ended)
        assert.deepStrictEqual(begun, [])
        pace.ended()
        assert.deepStrictEqual(begun, [...Array(16).keys()])
        times(21, pace.ended)
        assert.deepStrictEqual(begun, [...Array(32).keys()])
      })
  )

  it.effect("run all together if fewer wait, and three without a wait when four deliveries have ended", () =>
    Effect.gen(function* () {
      const pace = make()
      pace.setBehind(new Set([shop]))
      const { begun } = yield* started(pace, 3)
      times(4, pace.ended)
      assert.deepStrictEqual(begun, [0, 1, 2])
      times(4, pace.ended)
      assert.deepStrictEqual((yield* started(pace, 4)).begun, [0, 1, 2])
    })
  )

  it.effect("wait for all deliveries that the commands before have appended", () =>
    Effect.gen(function* () {
      const pace = make()
      pace.setBehind(new Set([shop]))
      times(2, pace.ended)
      const { begun } = yield* started(pace, 2)
      assert.deepStrictEqual(begun, [0])
      pace.appended(shop, 5)
      times(5, pace.ended)
      assert.deepStrictEqual(begun, [0])
      pace.ended()
      assert.deepStrictEqual(begun, [0, 1])
    })
  )

  it.effect("are all released when deliveries have caught up", () =>
    Effect.gen(function* () {
      const pace = make()
      pace.setBehind(new Set([shop]))
      const { begun } = yield* started(pace, 3)
      pace.setBehind(new Set())
      assert.deepStrictEqual(begun, [0, 1, 2])
    })
  )

  it.effect("that nobody waits for leave their place", () =>
    Effect.gen(function* () {
      const pace = make()
      pace.setBehind(new Set([shop]))
      const { begun, fibers } = yield* started(pace, 2)
      yield* Effect.forEach(fibers.slice(0, 1), Fiber.interrupt)
      times(2, pace.ended)
      assert.deepStrictEqual(begun, [1])
    })
  )

  it.live("run after a while if no delivery ends", () =>
    Effect.gen(function* () {
      const pace = make()
      pace.setBehind(new Set([shop]))
      const { begun, fibers } = yield* started(pace, 2)
      yield* Effect.forEach(fibers, Fiber.join)
      assert.deepStrictEqual(begun, [0, 1])
    })
  )
})
