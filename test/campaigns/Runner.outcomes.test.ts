/** The states of recipients, and the outcomes of calls with and without a fallback (contract §9, with the rules of §8). */
import { assert, it, layer } from "../support/Vitest.ts"
import { Effect, Struct } from "effect"
import { startsOf, stepOf } from "../../src/api/schema/States.ts"
import { open, recipients } from "../../src/campaigns/Runner/Recipients.ts"
import { byFailure, type Outcome } from "../../src/messaging/providers/Outcomes.ts"
import { TestServer } from "../support/TestServer.ts"
import { accepted, nowhere, postponed, refused, scene, unclear } from "./Runner.scene.support.ts"
import type { Plan } from "./Runner.support.ts"

const hour = 3_600_000

it("the state machine of recipients starts in open states and reaches every other state", () => {
  const moves = Struct.keys(recipients.moves)
  assert.sameMembers([...new Set(moves.flatMap((move) => startsOf(recipients, move)))], [...open])
  assert.sameMembers([...new Set(moves.map((move) => stepOf(recipients, move).to))], [...recipients.states])
})

const toTheFallback = { fallback: nowhere }

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("a campaign's calls of a provider", (it) => {
  /** Makes attempts with these outcomes, an hour apart; returns the states of the recipient after each. */
  const statesAfter = Effect.fnUntraced(function* (plan: Partial<Plan>, ...outcomes: ReadonlyArray<Outcome>) {
    const { claimed, record, recipientState } = yield* scene(plan)
    const states: Array<string> = []
    for (const [n, outcome] of outcomes.entries()) {
      yield* record(yield* claimed(n * hour), outcome, n * hour)
      states.push(yield* recipientState)
    }
    return states
  })

  it.effect("complete the recipient when one is accepted", function* () {
    assert.deepStrictEqual(yield* statesAfter({}, accepted), ["sent primary 1"])
    assert.deepStrictEqual(yield* statesAfter({}, unclear, accepted), [
      "pending primary 1 in doubt",
      "sent primary 2 in doubt"
    ])
  })

  it.effect("move the recipient to the fallback, if any, when one is refused", function* () {
    assert.deepStrictEqual(yield* statesAfter({}, refused), ["failed primary 1"])
    assert.deepStrictEqual(yield* statesAfter(toTheFallback, refused, refused), [
      "pending fallback 0",
      "failed fallback 1"
    ])
  })

  it.effect(
    "are repeated up to five times when none was processed, and then move the recipient to the fallback",
    function* () {
      const busy = Array<Outcome>(5).fill(postponed)
      const waits = [1, 2, 3, 4].map((attempt) => `pending primary ${attempt}`)
      assert.deepStrictEqual(yield* statesAfter({ primaryType: "telegram" }, ...busy), [...waits, "failed primary 5"])
      assert.deepStrictEqual(yield* statesAfter(toTheFallback, ...busy), [...waits, "pending fallback 0"])
    }
  )

  it.effect("are awaited as long as the channel's config can't be opened, whatever the fallback", function* () {
    const unreadable = Array<Outcome>(7).fill(byFailure("config_unreadable"))
    const waits = unreadable.map((_, n) => `pending primary ${n + 1}`)
    assert.deepStrictEqual(yield* statesAfter(toTheFallback, ...unreadable, accepted), [...waits, "sent primary 8"])
  })

  it.effect("are repeated after an unknown outcome only when the provider has idempotency keys", function* () {
    assert.deepStrictEqual(yield* statesAfter(toTheFallback, ...Array<Outcome>(5).fill(unclear)), [
      ...[1, 2, 3, 4].map((attempt) => `pending primary ${attempt} in doubt`),
      "unknown primary 5 in doubt"
    ])
    assert.deepStrictEqual(yield* statesAfter({ ...toTheFallback, primaryType: "telegram" }, unclear), [
      "unknown primary 1 in doubt"
    ])
  })

  it.effect("move no recipient to the fallback after an unknown outcome", function* () {
    assert.deepStrictEqual((yield* statesAfter(toTheFallback, unclear, refused))[1], "failed primary 2 in doubt")
    const busy = Array<Outcome>(4).fill(postponed)
    assert.deepStrictEqual((yield* statesAfter(toTheFallback, unclear, ...busy))[4], "unknown primary 5 in doubt")
  })
})
