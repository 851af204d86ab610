/** The rate of a campaign over all replicas (contract §9): sends are evenly spaced, and missed ones are not made up for. */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { release } from "../../src/campaigns/Runner/Release.ts"
import { TestServer } from "../support/TestServer.ts"
import { nowhere, termsOf } from "./Runner.scene.support.ts"
import { campaignOf, cancelAll } from "./Runner.support.ts"

const sendsPerMinute = 600
const gap = 60_000 / sendsPerMinute
const horizon = 300

const begin = Date.UTC(2026, 10, 20, 10)

// A server in the role `api`: only the test claims.
layer(TestServer.layer({}, "api"), { excludeTestServices: true })("claims of a campaign", (it) => {
  /** Creates a campaign; returns a function that claims at a time in milliseconds. */
  const claims = Effect.fnUntraced(function* (recipients: number) {
    const server = yield* TestServer
    yield* cancelAll(server)
    yield* campaignOf(server, { recipients, primary: nowhere, sendsPerMinute })
    return (at: number, slots = 512) =>
      Effect.map(
        Effect.orDie(release(server.sql, termsOf(server.sql, begin + at, begin + at + horizon, slots))),
        (claims) => claims.map((claim) => ({ ...claim, sendAt: at + claim.delayMillis }))
      )
  })
  const times = (claimed: ReadonlyArray<{ readonly sendAt: number }>) => claimed.map(({ sendAt }) => sendAt)

  it.effect("space sends evenly across claims", function* () {
    const claimAt = yield* claims(7)
    assert.deepStrictEqual(times(yield* claimAt(0)), [0, gap, 2 * gap, 3 * gap])
    assert.deepStrictEqual(times(yield* claimAt(50)), [])
    assert.deepStrictEqual(times(yield* claimAt(150)), [4 * gap])
    assert.deepStrictEqual(times(yield* claimAt(350)), [5 * gap, 6 * gap])
    assert.deepStrictEqual(times(yield* claimAt(1_000)), [])
  })

  it.effect("do not make up for a period in which nothing was sent", function* () {
    const claimAt = yield* claims(20)
    yield* claimAt(0)
    // One send may have been saved up.
    const [first = assert.fail("nothing is claimed"), ...others] = times(yield* claimAt(60_000))
    assert.isAtMost(others.length, horizon / gap + 1)
    assert.isAtLeast(first, 60_000 - gap)
    assert.deepStrictEqual(
      others,
      others.map((_, n) => first + (n + 1) * gap)
    )
  })

  it.effect("take each recipient and each send time once when they run concurrently", function* () {
    const claimAt = yield* claims(40)
    const all = []
    for (let at = 0; at < 3_000; at += 100) {
      const claimed = yield* Effect.all(
        Array.from({ length: 5 }, () => claimAt(at)),
        { concurrency: "unbounded" }
      )
      all.push(...claimed.flat())
    }
    assert.deepStrictEqual(
      times(all).sort((a, b) => a - b),
      Array.from({ length: all.length }, (_, n) => n * gap)
    )
    assert.strictEqual(new Set(all.map(({ messageId }) => messageId)).size, all.length)
    assert.isAtLeast(all.length, 30)
  })

  it.effect("return no more recipients than free slots", function* () {
    const claimAt = yield* claims(10)
    assert.deepStrictEqual(times(yield* claimAt(0, 2)), [0, gap])
    assert.deepStrictEqual(times(yield* claimAt(0)), [2 * gap, 3 * gap])
  })

  it.effect("skip a campaign whose recipients all wait for a retry, even with one slot", function* () {
    const claimAt = yield* claims(1)
    const { sql } = yield* TestServer
    assert.strictEqual((yield* claimAt(0)).length, 1)
    yield* Effect.orDie(sql`
      UPDATE campaign_recipients SET status = 'pending', available_at = ${new Date(begin + 60_000)}
      WHERE status = 'sending'`)
    yield* Effect.orDie(sql`
      UPDATE messages SET status = 'retrying', attempting = false, available_at = NULL WHERE attempting`)
    const plan = { recipients: 1, primary: nowhere, sendsPerMinute }
    const { projectId } = yield* campaignOf(yield* TestServer, plan)
    // This campaign is due later than the one whose recipient waits.
    yield* Effect.orDie(sql`
    UPDATE campaigns SET next_send_at = ${new Date(begin + 5_000)} WHERE project_id = ${projectId}`)
    assert.deepStrictEqual(times(yield* claimAt(5_000, 1)), [5_000])
    assert.deepStrictEqual(times(yield* claimAt(60_000, 1)), [60_000])
  })
})
