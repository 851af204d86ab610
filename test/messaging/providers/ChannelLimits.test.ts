/** Permits and circuit breakers of channels, under a test clock. */
import { assert, describe, it } from "../../support/Vitest.ts"
import { Effect, Option } from "effect"
import { TestClock } from "effect/testing"
import { ChannelId, ProjectId } from "../../../src/api/schema/Ids.ts"
import * as ChannelLimits from "../../../src/messaging/providers/ChannelLimits.ts"
import { byFailure, byStatus, isUnanswered } from "../../../src/messaging/providers/Outcomes.ts"

const channelOf = (project: string, channel: string): ChannelLimits.Channel => ({
  projectId: ProjectId.make(project),
  channelId: ChannelId.make(channel)
})

const scene = Effect.map(ChannelLimits.make, (channels) => {
  const { limits } = channels
  const free = (project: string, channel: string) => {
    const { channels, free, newChannel } = limits()
    const known = channels.find(({ channelId, projectId }) => projectId === project && channelId === channel)
    return Math.min(free, known?.free ?? newChannel)
  }
  /** Takes a permit of channel `c` of a project, and begins its call; undefined if no call is admitted. */
  const begin = (project: string) => {
    const permit = channels.take(channelOf(project, "c"))
    if (permit.begin()) return permit
    permit.end("unused")
    return undefined
  }
  /** Calls channel `c` of a project once; returns whether the call was made. */
  const call = (project: string, how: ChannelLimits.End) => {
    const permit = begin(project)
    permit?.end(how)
    return permit !== undefined
  }
  return {
    limits,
    free,
    begin,
    call,
    /** Takes all free permits of a channel, and begins a call with each. */
    fill: (project: string, channel: string) => {
      const permits = Array.from({ length: free(project, channel) }, () => channels.take(channelOf(project, channel)))
      for (const permit of permits) permit.begin()
      return permits
    },
    end: (permits: ReadonlyArray<ChannelLimits.Permit>, how: ChannelLimits.End) => {
      for (const permit of permits) permit.end(how)
    },
    fail: (project: string) => {
      for (let n = 0; n < 5; n++) call(project, "unanswered")
    },
    /** The number of calls that the circuit of channel `c` admits; undefined while it is closed. */
    admits: (project: string) => {
      if (limits().blocked.some(({ projectId }) => projectId === project)) return 0
      return free(project, "c") === 1 ? 1 : undefined
    }
  }
})
type Scene = Effect.Success<typeof scene>

/** Grows the limit of a channel to its maximum. */
const grow = ({ end, fill }: Scene, project: string, channel: string) => {
  const sizes = []
  for (let round = 0; round < 9; round++) {
    const permits = fill(project, channel)
    sizes.push(permits.length)
    end(permits, "answered")
  }
  return sizes
}

describe("the permits of channels", () => {
  it.effect("double while a channel uses all of its permits and answers, up to the limit of a channel", function* () {
    const sizes = grow(yield* scene, "a", "c")
    assert.deepStrictEqual(sizes.slice(0, 9), [4, 8, 16, 32, 64, 128, 256, 512, 512])
  })

  it.effect("shrink to the first size after a call without an answer, and a permit is returned once", function* () {
    const shop = yield* scene
    const { end, fill, free, limits } = shop
    grow(shop, "a", "c")
    const permits = fill("a", "c")
    end(permits.slice(0, 1), "unanswered")
    end(permits, "unused")
    end(permits, "unused")
    assert.strictEqual(free("a", "c"), 4)
    assert.strictEqual(limits().free, 1_024)
  })

  it.effect("leave three quarters to others when two hundred channels of many projects hang", function* () {
    const { end, fill, free, limits } = yield* scene
    // Each channel fails once by calls that hang, and is tried again as often as permitted.
    for (let n = 0; n < 200; n++) end(fill(`project ${n}`, "hangs"), "unanswered")
    let taken = 0
    for (let n = 0; n < 200; n++) taken += fill(`project ${n}`, "hangs").length
    assert.strictEqual(taken, 256)
    assert.strictEqual(limits().free, 768)
    assert.strictEqual(free("new", "c"), 4)
  })

  it.effect("count a channel that has grown among the suspect ones when it hangs for a second", function* () {
    const shop = yield* scene
    const { end, fill, free } = shop
    grow(shop, "a", "c")
    const hanging = fill("a", "c")
    assert.lengthOf(hanging, 512)
    end(fill("b", "fails"), "unanswered")
    assert.strictEqual(free("b", "fails"), 4)
    yield* TestClock.adjust("1 second")
    // The calls of "a" are slow, and are all that suspect channels may have.
    assert.strictEqual(free("b", "fails"), 0)
    assert.strictEqual(free("d", "c"), 4)
    // Once one of them answers, the others count as slow, not as failed.
    end(hanging.slice(0, 400), "answered")
    assert.strictEqual(free("b", "fails"), 4)
    assert.isAbove(free("a", "c"), 4)
  })

  it.effect("are counted for each project over its channels, and a project alone may take all", function* () {
    const { fill, limits } = yield* scene
    fill("b", "c")
    for (let n = 0; n < 260; n++) fill("a", String(n))
    assert.deepStrictEqual(limits().projects, [
      { projectId: ProjectId.make("b"), held: 4 },
      { projectId: ProjectId.make("a"), held: 1_020 }
    ])
  })

  it.effect("let a channel that answers slowly grow, within the share of the suspect ones", function* () {
    const { end, fill, free } = yield* scene
    for (let round = 0; round < 20; round++) {
      const permits = fill("a", "slow")
      yield* TestClock.adjust("2 seconds")
      end(permits, "answered")
    }
    assert.strictEqual(free("a", "slow"), 512)
  })

  it.effect("do not count a permit for or against its channel that was not used", function* () {
    const { end, fill, free } = yield* scene
    end(fill("a", "c"), "unused")
    assert.strictEqual(free("a", "c"), 4)
  })

  it.effect("forget a channel ten minutes after its last call", function* () {
    const shop = yield* scene
    const { free, limits } = shop
    grow(shop, "a", "c")
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
    for (let n = 0; n < 4; n++) call("p", "unanswered")
    assert.isUndefined(admits("p"))
    call("p", "unanswered")
    assert.strictEqual(free("p", "c"), 0)
    for (const rest of [5, 10, 20, 40, 60, 60]) {
      assert.strictEqual(admits("p"), 0)
      yield* TestClock.adjust(`${rest * 1_000 - 1} millis`)
      assert.isFalse(call("p", "unanswered"))
      yield* TestClock.adjust("1 millis")
      assert.strictEqual(admits("p"), 1)
      assert.isTrue(call("p", "unanswered"))
    }
    yield* TestClock.adjust("60 seconds")
    assert.isTrue(call("p", "answered"))
    assert.isUndefined(admits("p"))
    assert.deepStrictEqual(limits().blocked, [])
  })

  it.effect("admits a probe after 5 s, though the clock is set back", function* () {
    const { call, fail } = yield* scene
    yield* TestClock.setTime(7_200_000)
    fail("p")
    yield* TestClock.setTime(3_600_000)
    yield* TestClock.adjust("5 seconds")
    assert.isTrue(call("p", "answered"))
  })

  it.effect("stays closed while the provider answers anything", function* () {
    const { admits, call } = yield* scene
    for (let n = 0; n < 20; n++) assert.isTrue(call("p", n % 4 === 0 ? "answered" : "unanswered"))
    assert.isUndefined(admits("p"))
  })

  it.effect("admits one probe at a time, separately from other channels", function* () {
    const { admits, begin, call, fail } = yield* scene
    fail("p")
    yield* TestClock.adjust("5 seconds")
    const interrupted = begin("p")
    assert.strictEqual(admits("p"), 0)
    assert.isFalse(call("p", "answered"))
    assert.isTrue(call("other", "answered"))
    interrupted?.end("unused")
    assert.strictEqual(admits("p"), 1)
    assert.isTrue(call("p", "answered"))
    assert.isUndefined(admits("p"))
  })

  it.effect("ignores the results of calls that began before it opened", function* () {
    const { admits, begin, call, fail } = yield* scene
    const [early, ...others] = Array.from({ length: 6 }, () => begin("p"))
    fail("p")
    early?.end("answered")
    assert.strictEqual(admits("p"), 0)
    yield* TestClock.adjust("5 seconds")
    assert.isTrue(call("p", "answered"))
    for (const permit of others) permit?.end("unanswered")
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
      fail("p")
      yield* TestClock.adjust(`${rest * 1_000 - 1} millis`)
      assert.strictEqual(admits("p"), 0)
      yield* TestClock.adjust("1 millis")
      assert.isTrue(call("p", "answered"))
      yield* TestClock.adjust(`${closed} seconds`)
    }
  })
})
