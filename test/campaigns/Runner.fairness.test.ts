/** Campaigns over providers that hang or can't be reached, beside campaigns of other projects (contract §9). */
import { assert, describe, it } from "../support/Vitest.ts"
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { taken } from "../contract/Messages.support.ts"
import { hang } from "../integrations/deliveries/Deliveries.support.ts"
import { startServer } from "../support/TestServer.ts"
import { campaignOf, clientId, provider } from "./Runner.support.ts"
import { until, untilRows } from "../support/Waiting.ts"

/** A timeout longer than a test, so that calls that hang do not end. */
const longTimeout = { PROVIDER_TIMEOUT: "10m" }

describe("a campaign", () => {
  // In the second case there are more recipients than accepted calls and permits of the channel.
  for (const [what, accepted, campaigns, recipients] of [
    ["ten other projects have campaigns over providers that hang", 0, 10, 200],
    ["the provider of another project hangs after many accepted calls", 700, 1, 1_400]
  ] as const) {
    it.live(`is sent while ${what}`, function* () {
      const server = yield* startServer(longTimeout)
      const stuck = yield* provider((hit, n) => (n < accepted ? taken : hang)(hit, n))
      const healthy = yield* provider()
      for (let n = 0; n < campaigns; n++) {
        yield* campaignOf(server, { recipients, primary: stuck.url, sendsPerMinute: 60_000 })
      }
      // All permits of a channel hang; their number depends on how quickly the accepted calls came.
      yield* until(() => stuck.hits.length > accepted + 3 * campaigns)
      const { settled } = yield* campaignOf(server, { recipients: 100, primary: healthy.url })
      yield* settled("completed")
      assert.strictEqual(healthy.hits.length, 100)
      // A channel holds no more than its permits.
      assert.isAtMost(stuck.hits.length, accepted + 512 * campaigns)
    })
  }

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

    // The rest waits, and nothing is written while nothing changes, but by the probes of the channel.
    const hasIdled = Effect.gen(function* () {
      const before = yield* walOf(sql)
      yield* Effect.sleep("1 second")
      return (yield* walOf(sql)) === before
    })
    yield* untilRows(hasIdled, (idle) => idle)
  })
})

/** The position of the write-ahead log. */
const walOf = (sql: SqlClient.SqlClient) =>
  Effect.map(
    Effect.orDie(sql<{ readonly at: string }>`SELECT pg_current_wal_insert_lsn()::text AS at`),
    ([row]) => row?.at
  )
