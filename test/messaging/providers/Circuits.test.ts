/** Circuit breakers of channels, under a test clock (contract §8). */
import { assert, layer } from "../../support/Vitest.ts"
import { Deferred, Effect, Fiber, Layer, Option } from "effect"
import { TestClock } from "effect/testing"
import { ChannelId, ProjectId } from "../../../src/api/schema/Ids.ts"
import { type Channel, Circuits } from "../../../src/messaging/providers/Circuits.ts"
import { byFailure, type Outcome } from "../../../src/messaging/providers/Outcomes.ts"

const channelOf = (id: string): Channel => ({ projectId: ProjectId.make("p"), channelId: ChannelId.make(id) })
const timeout: Outcome = { _tag: "unknown", errorCode: "timeout" }
const unreachable: Outcome = { _tag: "postponed", errorCode: "connect_failed", retryAfter: Option.none() }
const broken: Outcome = { _tag: "unknown", errorCode: "http_500" }
const busy: Outcome = { _tag: "postponed", errorCode: "http_503", retryAfter: Option.none() }

/** Calls a channel; returns the outcome, or that no call was made. */
const call = Effect.fnUntraced(function* (channel: Channel, outcome: Outcome) {
  const { guard } = yield* Circuits
  return yield* guard(channel, Effect.succeed(outcome)).pipe(
    Effect.map((outcome) => (outcome._tag === "accepted" ? "accepted" : outcome.errorCode)),
    Effect.catchTag("CircuitOpen", () => Effect.succeed("nobody is called"))
  )
})

const openCircuits = Effect.flatMap(Circuits, ({ open }) => open)

layer(Layer.fresh(Circuits.layer))("the circuit of a channel", (it) => {
  it.effect("opens after five calls without an answer, and admits one probe after 5 s, 10 s and so on", function* () {
    const channel = channelOf("opens")
    for (const outcome of [timeout, unreachable, timeout, unreachable]) yield* call(channel, outcome)
    assert.deepStrictEqual(yield* openCircuits, [])
    yield* call(channel, timeout)
    for (const rest of [5, 10, 20, 40, 60, 60]) {
      assert.deepStrictEqual(yield* openCircuits, [{ ...channel, admits: 0 }])
      yield* TestClock.adjust(`${rest * 1_000 - 1} millis`)
      assert.strictEqual(yield* call(channel, timeout), "nobody is called")
      yield* TestClock.adjust("1 millis")
      assert.deepStrictEqual(yield* openCircuits, [{ ...channel, admits: 1 }])
      assert.strictEqual(yield* call(channel, timeout), "timeout")
    }
    yield* TestClock.adjust("60 seconds")
    assert.strictEqual(yield* call(channel, busy), "http_503")
    assert.deepStrictEqual(yield* openCircuits, [])
  })

  it.effect("admits a probe after 5 s, though the clock is set back", function* () {
    const channel = channelOf("set back")
    yield* TestClock.setTime(7_200_000)
    for (let n = 0; n < 5; n++) yield* call(channel, timeout)
    yield* TestClock.setTime(3_600_000)
    yield* TestClock.adjust("5 seconds")
    assert.strictEqual(yield* call(channel, busy), "http_503")
  })

  it.effect("stays closed while the provider answers anything", function* () {
    const channel = channelOf("answers")
    for (let n = 0; n < 20; n++)
      assert.strictEqual(yield* call(channel, n % 4 === 0 ? broken : timeout), n % 4 === 0 ? "http_500" : "timeout")
    assert.deepStrictEqual(yield* openCircuits, [])
  })

  it.effect("opens when the channel's config can't be opened, and closes with the first call that can", function* () {
    const channel = channelOf("unreadable")
    const unreadable = byFailure("config_unreadable")
    for (let n = 0; n < 5; n++) yield* call(channel, unreadable)
    assert.deepStrictEqual(yield* openCircuits, [{ ...channel, admits: 0 }])
    yield* TestClock.adjust("5 seconds")
    assert.strictEqual(yield* call(channel, busy), "http_503")
    assert.deepStrictEqual(yield* openCircuits, [])
  })

  it.effect("admits one probe at a time, separately from other channels", function* () {
    const { guard } = yield* Circuits
    const channel = channelOf("probed")
    for (let n = 0; n < 5; n++) yield* call(channel, timeout)
    yield* TestClock.adjust("5 seconds")
    const answer = yield* Deferred.make<Outcome>()
    const probe = yield* Effect.forkChild(guard(channel, Deferred.await(answer)), { startImmediately: true })
    assert.deepStrictEqual(yield* openCircuits, [{ ...channel, admits: 0 }])
    assert.strictEqual(yield* call(channel, busy), "nobody is called")
    assert.strictEqual(yield* call(channelOf("other"), busy), "http_503")
    yield* Deferred.succeed(answer, { _tag: "accepted", providerMessageId: "p" })
    yield* Fiber.join(probe)
    assert.deepStrictEqual(yield* openCircuits, [])
  })
})
