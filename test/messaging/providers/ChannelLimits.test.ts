/** Permits and circuit breakers of channels, under a test clock. */
import { assert, describe, it } from "../../support/Vitest.ts"
import { Array, Deferred, Effect, Fiber, Option, Predicate } from "effect"
import { TestClock } from "effect/testing"
import { ChannelId, ProjectId } from "../../../src/api/schema/Ids.ts"
import * as ChannelLimits from "../../../src/messaging/providers/ChannelLimits.ts"
import { byFailure, byStatus, isUnanswered, type CallOutcome } from "../../../src/messaging/providers/Connector.ts"

const channelOf = (project: string, channel: string): ChannelLimits.Channel => ({
  projectId: ProjectId.make(project),
  channelId: ChannelId.make(channel)
})

/** How a call ends: by an outcome, or interrupted before it has one. */
const ends = {
  answered: Option.some<CallOutcome>({ _tag: "accepted", providerMessageId: "1" }),
  unanswered: Option.some(byFailure("timeout")),
  interrupted: Option.none<CallOutcome>()
}
type End = keyof typeof ends

const scene = Effect.map(ChannelLimits.make, (channels) => {
  const { limits } = channels
  const free = (project: string, channel: string) => {
    const { channels, free, newChannel } = limits()
    const known = channels.find(({ channelId, projectId }) => projectId === project && channelId === channel)
    return Math.min(free, known?.free ?? newChannel)
  }
  /** Takes a permit of a channel, and begins its call; returns the end of the call, or undefined if no call is admitted. */
  const begin = Effect.fnUntraced(function* (project: string, channel = "c") {
    const permit = channels.take(channelOf(project, channel))
    const outcome = yield* Deferred.make<CallOutcome>()
    let isMade = false
    const call = Effect.suspend(() => {
      isMade = true
      return Deferred.await(outcome)
    })
    const fiber = yield* Effect.forkChild(permit.use(call), { startImmediately: true })
    const end = (how: End) =>
      Option.match(ends[how], {
        onNone: () => Fiber.interrupt(fiber),
        onSome: (ended) => Effect.andThen(Deferred.succeed(outcome, ended), Fiber.join(fiber))
      }).pipe(Effect.andThen(Effect.sync(permit.end)))
    if (isMade) return end
    permit.end()
    return undefined
  })
  /** Calls channel `c` of a project once; returns whether the call was made. */
  const call = Effect.fnUntraced(function* (project: string, how: End) {
    const end = yield* begin(project)
    if (end !== undefined) yield* end(how)
    return end !== undefined
  })
  return {
    limits,
    free,
    begin,
    call,
    /** Takes all free permits of a channel, and begins a call with each. */
    fill: (project: string, channel: string) =>
      Effect.map(
        Effect.replicateEffect(begin(project, channel), free(project, channel)),
        Array.filter(Predicate.isNotUndefined)
      ),
    end: (calls: ReadonlyArray<(how: End) => Effect.Effect<void>>, how: End) =>
      Effect.forEach(calls, (end) => end(how), { discard: true }),
    fail: (project: string) => Effect.replicateEffect(call(project, "unanswered"), 5, { discard: true }),
    /** The number of calls that the circuit of channel `c` admits; undefined while it is closed. */
    admits: (project: string) => {
      if (limits().blocked.some(({ projectId }) => projectId === project)) return 0
      return free(project, "c") === 1 ? 1 : undefined
    }
  }
})
type Scene = Effect.Success<typeof scene>

/** Grows the limit of a channel to its maximum. */
const grow = Effect.fnUntraced(function* ({ end, fill }: Scene, project: string, channel: string) {
  const sizes = []
  for (let round = 0; round < 9; round++) {
    const calls = yield* fill(project, channel)
    sizes.push(calls.length)
    yield* end(calls, "answered")
  }
  return sizes
})

describe("the permits of channels", () => {
  it.effect("double while a channel uses all of its permits and answers, up to the limit of a channel", function* () {
    const sizes = yield* grow(yield* scene, "a", "c")
    assert.deepStrictEqual(sizes.slice(0, 9), [4, 8, 16, 32, 64, 128, 256, 512, 512])
  })

  it.effect("shrink to the first size after a call without an answer, and a permit is returned once", function* () {
    const shop = yield* scene
    const { end, fill, free, limits } = shop
    yield* grow(shop, "a", "c")
    const permits = yield* fill("a", "c")
    yield* end(permits.slice(0, 1), "unanswered")
    yield* end(permits, "interrupted")
    yield* end(permits, "interrupted")
    assert.strictEqual(free("a", "c"), 4)
    assert.strictEqual(limits().free, 1_024)
  })

  it.effect("leave three quarters to others when two hundred channels of many projects hang", function* () {
    const { end, fill, free, limits } = yield* scene
    // Each channel fails once by calls that hang, and is tried again as often as permitted.
    for (let n = 0; n < 200; n++) yield* end(yield* fill(`project ${n}`, "hangs"), "unanswered")
    let taken = 0
    for (let n = 0; n < 200; n++) taken += (yield* fill(`project ${n}`, "hangs")).length
    assert.strictEqual(taken, 256)
    assert.strictEqual(limits().free, 768)
    assert.strictEqual(free("new", "c"), 4)
  })

  it.effect("count a channel that has grown among the suspect ones when it hangs for a second", function* () {
    const shop = yield* scene
    const { end, fill, free } = shop
    yield* grow(shop, "a", "c")
    const hanging = yield* fill("a", "c")
    assert.lengthOf(hanging, 512)
    yield* end(yield* fill("b", "fails"), "unanswered")
    assert.strictEqual(free("b", "fails"), 4)
    yield* TestClock.adjust("1 second")
    // The calls of "a" are slow, and are all that suspect channels may have.
    assert.strictEqual(free("b", "fails"), 0)
    assert.strictEqual(free("d", "c"), 4)
    // Once one of them answers, the others count as slow, not as failed.
    yield* end(hanging.slice(0, 400), "answered")
    assert.strictEqual(free("b", "fails"), 4)
    assert.isAbove(free("a", "c"), 4)
  })

  it.effect("are counted for each project over its channels, and a project alone may take all", function* () {
    const { fill, limits } = yield* scene
    yield* fill("b", "c")
    for (let n = 0; n < 260; n++) yield* fill("a", String(n))
    assert.deepStrictEqual(limits().projects, [
      { projectId: ProjectId.make("b"), held: 4 },
      { projectId: ProjectId.make("a"), held: 1_020 }
    ])
  })

  it.effect("let a channel that answers slowly grow, within the share of the suspect ones", function* () {
    const { end, fill, free } = yield* scene
    for (let round = 0; round < 20; round++) {
      const permits = yield* fill("a", "slow")
      yield* TestClock.adjust("2 seconds")
      yield* end(permits, "answered")
    }
    assert.strictEqual(free("a", "slow"), 512)
  })

  it.effect("do not count a permit for or against its channel that was not used", function* () {
    const { end, fill, free } = yield* scene
    yield* end(yield* fill("a", "c"), "interrupted")
    assert.strictEqual(free("a", "c"), 4)
  })

  it.effect("forget a channel ten minutes after its last call", function* () {
    const shop = yield* scene
    const { free, limits } = shop
    yield* grow(shop, "a", "c")
    yield* TestClock.adjust("599 seconds")
    assert.strictEqual(free("a", "c"), 512)
    yield* TestClock.adjust("1 second")
    limits()
    assert.strictEqual(free("a", "c"), 4)
  })
})

describe("the circuit of a channel", () => {
  it("counts only calls whose provider cannot be reached or hangs, and those whose config can't be opened", () => {
    const failures = ["timeout", "connect_failed", "config_unreadable"] as const
    for (const failure of failures) assert.isTrue(isUnanswered(byFailure(failure)), failure)
    const answers = [byFailure("unreadable_answer"), ...[400, 500, 503].map((s) => byStatus("http", s, Option.none()))]
    for (const answer of answers) assert.isFalse(isUnanswered(answer))
  })

  it.effect("opens after five calls without an answer, and admits one probe after 5 s, 10 s and so on", function* () {
    const { admits, call, free, limits } = yield* scene
    for (let n = 0; n < 4; n++) yield* call("p", "unanswered")
    assert.isUndefined(admits("p"))
    yield* call("p", "unanswered")
    assert.strictEqual(free("p", "c"), 0)
    for (const rest of [5, 10, 20, 40, 60, 60]) {
      assert.strictEqual(admits("p"), 0)
      yield* TestClock.adjust(`${rest * 1_000 - 1} millis`)
      assert.isFalse(yield* call("p", "unanswered"))
      yield* TestClock.adjust("1 millis")
      assert.strictEqual(admits("p"), 1)
      assert.isTrue(yield* call("p", "unanswered"))
    }
    yield* TestClock.adjust("60 seconds")
    assert.isTrue(yield* call("p", "answered"))
    assert.isUndefined(admits("p"))
    assert.deepStrictEqual(limits().blocked, [])
  })

  it.effect("admits a probe after 5 s, though the clock is set back", function* () {
    const { call, fail } = yield* scene
    yield* TestClock.setTime(7_200_000)
    yield* fail("p")
    yield* TestClock.setTime(3_600_000)
    yield* TestClock.adjust("5 seconds")
    assert.isTrue(yield* call("p", "answered"))
  })

  it.effect("stays closed while the provider answers anything", function* () {
    const { admits, call } = yield* scene
    for (let n = 0; n < 20; n++) assert.isTrue(yield* call("p", n % 4 === 0 ? "answered" : "unanswered"))
    assert.isUndefined(admits("p"))
  })

  it.effect("admits one probe at a time, separately from other channels", function* () {
    const { admits, begin, call, fail } = yield* scene
    yield* fail("p")
    yield* TestClock.adjust("5 seconds")
    const interrupted = yield* begin("p")
    assert.strictEqual(admits("p"), 0)
    assert.isFalse(yield* call("p", "answered"))
    assert.isTrue(yield* call("other", "answered"))
    if (interrupted !== undefined) yield* interrupted("interrupted")
    assert.strictEqual(admits("p"), 1)
    assert.isTrue(yield* call("p", "answered"))
    assert.isUndefined(admits("p"))
  })

  it.effect("ignores the results of calls that began before it opened", function* () {
    const { admits, call, end, fail, fill } = yield* scene
    const [early, ...others] = yield* fill("p", "c")
    yield* fail("p")
    yield* end(early === undefined ? [] : [early], "answered")
    assert.strictEqual(admits("p"), 0)
    yield* TestClock.adjust("5 seconds")
    assert.isTrue(yield* call("p", "answered"))
    yield* end(others, "unanswered")
    assert.isUndefined(admits("p"))
  })

  it.effect("is open for longer if it opens again before it was closed for as long as it was open", function* () {
    const { admits, call, fail } = yield* scene
    for (const [rest, closed] of [
      [5, 4],
      [10, 9],
      [20, 20],
      [5, 0]
    ] as const) {
      yield* fail("p")
      yield* TestClock.adjust(`${rest * 1_000 - 1} millis`)
      assert.strictEqual(admits("p"), 0)
      yield* TestClock.adjust("1 millis")
      assert.isTrue(yield* call("p", "answered"))
      yield* TestClock.adjust(`${closed} seconds`)
    }
  })
})
