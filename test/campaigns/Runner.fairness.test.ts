/** Campaigns over providers that hang or can't be reached, beside campaigns of other projects (contract §9). */
import { assert, describe, it } from "../support/Vitest.ts"
import { Effect } from "effect"
import { taken } from "../contract/Messages.support.ts"
import { type Answering, hang } from "../integrations/deliveries/Deliveries.support.ts"
import { startServer } from "../support/TestServer.ts"
import { campaignOf, clientId, provider } from "./Runner.support.ts"
import { until } from "../support/Waiting.ts"

/** A timeout longer than a test, so that calls that hang do not end. */
const longTimeout = { PROVIDER_TIMEOUT: "10m" }

/** Accepts this many messages, then hangs. */
const hangAfter =
  (count: number): Answering =>
  (hit, n) =>
    (n < count ? taken : hang)(hit, n)

describe("a campaign", () => {
  it.live("is sent while ten other projects have campaigns over providers that hang", function* () {
    const server = yield* startServer(longTimeout)
    const stuck = yield* provider(hang)
    const healthy = yield* provider()
    yield* Effect.forEach(Array.from({ length: 10 }), () =>
      campaignOf(server, { recipients: 200, primary: stuck.url, sendsPerMinute: 60_000 })
    )
    yield* until(() => stuck.hits.length >= 20)
    const { settled } = yield* campaignOf(server, { recipients: 100, primary: healthy.url, sendsPerMinute: 6_000 })
    yield* settled("completed")
    assert.strictEqual(healthy.hits.length, 100)
  })

  it.live("is sent while the provider of another project hangs after many accepted calls", function* () {
    const server = yield* startServer(longTimeout)
    const stuck = yield* provider(hangAfter(300))
    const healthy = yield* provider()
    // More than the accepted calls and the permits of the channel.
    yield* campaignOf(server, { recipients: 600, primary: stuck.url, sendsPerMinute: 60_000 })
    // All permits of the channel hang; their number depends on how quickly the accepted calls came.
    yield* until(() => stuck.hits.length > 303)
    const { settled } = yield* campaignOf(server, { recipients: 100, primary: healthy.url, sendsPerMinute: 6_000 })
    yield* settled("completed")
    assert.strictEqual(healthy.hits.length, 100)
    // One channel holds no more than its permits.
    assert.isAtMost(stuck.hits.length, 300 + 128)
  })

  it.live("pauses while its provider is unreachable and continues when it is back", function* () {
    const server = yield* startServer(longTimeout)
    let calls = 0
    let isUp = false
    const { url } = yield* provider((hit, n) => {
      calls++
      if (isUp) taken(hit, n)
      else hit.response.socket?.destroy()
    })
    const { recipients, settled } = yield* campaignOf(server, { recipients: 60, primary: url, sendsPerMinute: 6_000 })
    const attempted = Effect.map(recipients, (rows) => rows.filter(({ attempts }) => attempts > 0))
    // The circuit breaker opens: most recipients have no attempt, and calls stop.
    yield* until(() => calls >= 5)
    yield* Effect.sleep("2 seconds")
    assert.isAtMost(calls, 20)
    assert.isAtMost((yield* attempted).length, 20)
    isUp = true
    yield* settled("completed")
    assert.isTrue((yield* recipients).every(({ status }) => status === "sent"))
  })

  it.live("is sent over a healthy route while many recipients before wait for an unreachable one", function* () {
    const server = yield* startServer(longTimeout)
    const healthy = yield* provider()
    const { begin, projectId, recipients, sql } = yield* campaignOf(server, {
      recipients: 600,
      primary: "http://127.0.0.1:1/hook",
      fallback: healthy.url,
      sendsPerMinute: 6_000,
      status: "scheduled",
      scheduledIn: 3_600_000
    })
    // The first half can be reached over the primary route alone, the second half over the fallback alone.
    yield* Effect.orDie(sql`
      DELETE FROM client_addresses WHERE project_id = ${projectId}
        AND channel_id = CASE WHEN client_id < ${clientId(300)} THEN 'fallback' ELSE 'primary' END`)
    yield* begin
    yield* until(() => healthy.hits.length === 300)
    const rows = yield* recipients
    assert.isFalse(rows.slice(0, 300).some(({ status }) => status === "sent" || status === "failed"))
  })
})
