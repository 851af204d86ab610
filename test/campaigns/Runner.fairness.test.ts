/** Campaigns over providers that hang or can't be reached, beside campaigns of other projects (contract §9). */
import * as Runner from "../../src/campaigns/Runner.ts"
import { assert, describe, it } from "../support/Vitest.ts"
import { Clock, Duration, Effect, Layer, Option, Redacted } from "effect"
import type { SqlClient } from "effect/sql"
import { taken } from "../contract/Messages.support.ts"
import { hang } from "../webhooks/delivery/Deliveries.support.ts"
import { startServer } from "../support/TestServer.ts"
import { campaignOf, clientId, provider } from "./Runner.support.ts"
import { passUntil, until, untilLive, untilRows } from "../support/Waiting.ts"
import { TestClock } from "effect/testing"
import { Calls } from "../../src/messaging/Calls.ts"
import { MessageLoop } from "../../src/messaging/MessageLoop.ts"
import { Supervisor } from "../../src/work/Supervisor.ts"
import { Worker } from "../../src/work/Worker.ts"
import { sqlClients, DatabaseUrl } from "../../src/sql/Connections.ts"
import { worker } from "../webhooks/delivery/Due.support.ts"
import { databaseClock } from "../support/Claims.ts"
import { accepted, nowhere } from "./Runner.scene.support.ts"

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
      const before = yield* writtenIn(sql)
      yield* Effect.sleep("1 second")
      return (yield* writtenIn(sql)) === before
    })
    yield* untilRows(hasIdled, (idle) => idle)
  })
})

/** Returns the number of rows of each table, and the newest transactions that wrote or locked one: other databases do not count. */
const writtenIn = (sql: SqlClient.SqlClient) =>
  Effect.map(
    Effect.orDie(sql<{ readonly written: string }>`
      SELECT string_agg(query_to_xml(format(
        'SELECT count(*), max(xmin::text::bigint), max(xmax::text::bigint) FROM %s', oid::regclass
      ), false, true, '')::text, '') AS written
      FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace`),
    ([row]) => row?.written
  )

/** Milliseconds between two runs of the runner, when a release takes no time. */
const interval = 150
const answersAfter = 5

/** Runs a campaign for some seconds, each release of which takes `releaseTakes` milliseconds; returns the times of its sends. */
const sendsOf = Effect.fnUntraced(function* (sendsPerMinute: number, seconds: number, releaseTakes: number) {
  yield* TestClock.setTime(Date.UTC(2026, 10, 20, 10))
  const server = yield* startServer({}, "api")
  yield* campaignOf(server, { recipients: (sendsPerMinute / 60) * seconds, primary: nowhere, sendsPerMinute })
  const sends: Array<number> = []
  let runs = 0
  const calls = Calls.of({
    lease: Duration.minutes(1),
    make: (_, guard) => {
      const call = Effect.map(Clock.currentTimeMillis, (now) => sends.push(now)).pipe(
        Effect.andThen(Effect.sleep(answersAfter)),
        Effect.as(accepted)
      )
      return Effect.as(guard === undefined ? call : guard(call), Option.none())
    },
    lose: () => Effect.succeedNone,
    postpone: () => Effect.succeedNone,
    drain: Effect.void
  })
  const slow = Layer.effect(
    MessageLoop,
    Effect.map(MessageLoop, (loop) => ({
      ...loop,
      make: (claims) =>
        Effect.andThen(loop.make(claims), () => {
          runs++
          return Effect.interruptible(Effect.sleep(releaseTakes))
        })
    }))
  ).pipe(Layer.provide(MessageLoop.layer))
  yield* Runner.layer.pipe(
    Layer.provide(slow),
    Layer.provide(Layer.succeed(Calls, calls)),
    Layer.provide(Layer.succeed(Worker, worker)),
    Layer.provide(Supervisor.layer),
    Layer.provide(sqlClients.workers),
    Layer.provide(Layer.succeed(DatabaseUrl, Redacted.make(server.databaseUrl))),
    Layer.provide(databaseClock),
    Layer.build
  )
  yield* passUntil(
    Effect.sync(() => runs),
    (count) => count > 0
  )
  // Each step lasts until the next run, so that a busy machine has all the time that it needs.
  for (let at = 0; at < 1_000 * seconds; at += interval + releaseTakes) {
    const before = runs
    yield* TestClock.adjust(interval + releaseTakes)
    yield* untilLive(() => runs > before)
  }
  return sends.map((at) => at - (sends[0] ?? 0))
})

describe("a campaign", () => {
  for (const [sendsPerMinute, seconds, what, releaseTakes] of [
    [60_000, 4, "60,000 sends a minute, the most that may be asked for", 0],
    [6_000, 8, "its pace though a release takes most of a second", 850]
  ] as const) {
    it.effect(`reaches ${what}, once the permits of its channel have doubled often enough`, function* () {
      const sends = yield* sendsOf(sendsPerMinute, seconds, releaseTakes)
      const counts = [seconds - 2, seconds - 1].map(
        (second) => sends.filter((at) => Math.floor(at / 1_000) === second).length
      )
      assert.deepStrictEqual(counts, [sendsPerMinute / 60, sendsPerMinute / 60])
    })
  }
})
