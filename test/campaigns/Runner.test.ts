/** The start of campaigns, commands on running ones, and their sends: texts, recipients and spans (contract §9, §15). */
import { assert, it, layer } from "../support/Vitest.ts"
import { Deferred, Effect, Exit, Fiber, Layer, Option, Redacted, Scope } from "effect"
import * as Runner from "../../src/campaigns/Runner.ts"
import { MessageLoop } from "../../src/messaging/MessageLoop.ts"
import { sqlClients, DatabaseUrl } from "../../src/sql/Connections.ts"
import { Supervisor } from "../../src/work/Supervisor.ts"
import { held, taken } from "../contract/Messages.support.ts"
import { attributesOf, spanKind, startCollector } from "../faults/Collector.support.ts"
import { status } from "../webhooks/delivery/Deliveries.support.ts"
import { startServer, TestServer } from "../support/TestServer.ts"
import { addressOf, campaignOf, provider, sendOf } from "./Runner.support.ts"
import { nowhere, termsOf } from "./Runner.scene.support.ts"
import { until, untilRows } from "../support/Waiting.ts"

const minute = 60_000
const late = -6 * 60 * minute

/** A plan that takes six seconds at its rate. */
const sixty = { recipients: 60, sendsPerMinute: 600 }
const everyone = Array.from({ length: sixty.recipients }, (_, index) => addressOf(index)).sort()

/** Milliseconds from a call to the end of its lease, with the settings of the server. */
const lease = 15_000

/** A campaign that is sending. */
const underWay = Effect.gen(function* () {
  const { hits, url } = yield* provider()
  const campaign = yield* campaignOf(yield* TestServer, { ...sixty, primary: url })
  const { projectId, recipients, sql } = campaign
  yield* until(() => hits.length > 2)
  /**
   * Waits until all leased recipients are settled, which takes a second at most. Returns the number of calls; no further
   * call follows within a second.
   */
  const countWhenIdle = Effect.gen(function* () {
    const now = Date.now()
    const leased = yield* Effect.orDie(sql<{ readonly until: Date }>`
      SELECT available_at AS until FROM messages WHERE project_id = ${projectId} AND attempting`)
    for (const { until } of leased) assert.isAtMost(until.getTime() - lease - now, 1_000)
    yield* untilRows(recipients, (rows) => rows.every(({ status }) => status !== "sending"))
    const count = hits.length
    yield* Effect.sleep("1 seconds")
    assert.strictEqual(hits.length, count)
    return count
  })
  return { ...campaign, countWhenIdle, hits }
})

layer(TestServer.layer(), { excludeTestServices: true })("a campaign", (it) => {
  for (const [when, scheduledIn] of [
    ["at its time, not before", 1_500],
    ["when it is almost six hours late", late + minute]
  ] as const) {
    it.effect(`begins ${when}`, function* () {
      const { hits, url } = yield* provider()
      const plan = { recipients: 2, primary: url, status: "scheduled", scheduledIn } as const
      const { projectId, settled, sql } = yield* campaignOf(yield* TestServer, plan)
      yield* settled("completed")
      assert.strictEqual(hits.length, 2)
      const [row] = yield* Effect.orDie(sql<{ readonly at: Date }>`
        SELECT scheduled_for AS at FROM campaigns WHERE project_id = ${projectId}`)
      assert.isAtLeast(hits[0]?.at ?? 0, row?.at.getTime() ?? Infinity)
    })
  }

  it.effect("is paused when it is six hours late, and begins when it is resumed", function* () {
    const server = yield* TestServer
    const { hits, url } = yield* provider()
    const plan = { recipients: 2, primary: url, status: "scheduled", scheduledIn: late - minute } as const
    const { campaign, command, settled } = yield* campaignOf(server, plan)
    yield* settled("paused")
    assert.deepStrictEqual(yield* campaign, { status: "paused", version: 2, pausedFrom: "scheduled" })
    assert.strictEqual(hits.length, 0)
    assert.isTrue((yield* command("resume")).changed)
    yield* settled("completed")
    assert.strictEqual(hits.length, 2)
    // Three versions later: resumed, begun and completed.
    assert.strictEqual((yield* campaign).version, 5)
  })

  it.effect("sends nothing while it is paused, and sends the remaining messages when it is resumed", function* () {
    const { campaign, command, countWhenIdle, hits, projectId, settled, sql } = yield* underWay
    yield* command("pause")
    assert.isBelow(yield* countWhenIdle, sixty.recipients)
    assert.strictEqual((yield* campaign).pausedFrom, "running")
    // The others need not be spread over seconds.
    yield* Effect.orDie(sql`UPDATE campaigns SET sends_per_minute = 60000 WHERE project_id = ${projectId}`)
    yield* command("resume")
    yield* settled("completed")
    assert.deepStrictEqual(hits.map((hit) => sendOf(hit).recipient).sort(), everyone)
  })

  it.effect("sends nothing after it is cancelled", function* () {
    const { campaign, command, countWhenIdle, recipients } = yield* underWay
    yield* command("cancel")
    const sent = yield* countWhenIdle
    assert.isBelow(sent, sixty.recipients)
    assert.strictEqual((yield* campaign).status, "cancelled")
    assert.strictEqual((yield* recipients).filter(({ status }) => status === "sent").length, sent)
    assert.strictEqual((yield* recipients).filter(({ status }) => status === "pending").length, 60 - sent)
  })
})

it.live("a campaign records the outcomes of its calls when the process ends during the recording", function* () {
  const server = yield* startServer({}, "api")
  const gate = held()
  const { hits, url } = yield* provider(gate.answering)
  const { projectId, sql } = yield* campaignOf(server, { recipients: 3, primary: url })
  const scope = yield* Scope.make()
  yield* startServer({ DATABASE_URL: server.databaseUrl }, "worker").pipe(Scope.provide(scope))
  const ended = yield* Effect.gen(function* () {
    yield* until(() => hits.length === 3)
    // No result of the calls can be recorded until the transaction ends.
    yield* sql`SELECT FROM messages WHERE project_id = ${projectId} FOR UPDATE`
    gate.letGo()
    yield* Effect.sleep("200 millis")
    const ended = yield* Effect.forkScoped(Scope.close(scope, Exit.void))
    yield* Effect.sleep("500 millis")
    return ended
  }).pipe(sql.withTransaction)
  yield* Fiber.join(ended)
  assert.deepStrictEqual(yield* sql`SELECT status FROM messages WHERE project_id = ${projectId}`, [
    { status: "sent" },
    { status: "sent" },
    { status: "sent" }
  ])
})

it.live("a release that has begun when its runner is interrupted hands over all that it leases", function* () {
  const server = yield* startServer({}, "api")
  const { sql } = yield* campaignOf(server, { recipients: 3, primary: nowhere })
  const scope = yield* Scope.make()
  const interrupted = yield* Deferred.make<void>()
  let made = 0
  const loop = MessageLoop.of({
    terms: Effect.gen(function* () {
      yield* Effect.forkDetach(Effect.andThen(Scope.close(scope, Exit.void), Deferred.done(interrupted, Exit.void)))
      yield* Effect.sleep("50 millis")
      return Option.some(termsOf(sql, Date.now(), Date.now() + 1_000, 3))
    }).pipe(Effect.uninterruptible),
    make: (claims) => Effect.sync(() => (made += claims.length)),
    drain: Effect.void
  })
  yield* Runner.layer.pipe(
    Layer.provide(Layer.succeed(MessageLoop, loop)),
    Layer.provide(Supervisor.layer),
    Layer.provide(sqlClients.workers),
    Layer.provide(Layer.succeed(DatabaseUrl, Redacted.make(server.databaseUrl))),
    Layer.buildWithScope(scope)
  )
  yield* Deferred.await(interrupted)
  assert.strictEqual(made, 3)
})

it.live(
  "each send of a campaign is in the trace of the command that started it, and carries it to the provider",
  function* () {
    const collector = yield* Effect.promise(() => startCollector())
    const { hits, url } = yield* provider((hit, n) => (n === 0 ? status(403) : taken)(hit, n))
    yield* Effect.gen(function* () {
      const server = yield* startServer({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url })
      const later = { status: "scheduled", scheduledIn: 3_600_000 } as const
      const { begin, settled } = yield* campaignOf(server, { recipients: 5, primary: url, ...later })
      yield* begin
      yield* settled("completed")
    }).pipe(Effect.scoped)

    assert.strictEqual(hits.length, 5)
    const spans = collector.spans()
    const command = spans.find(({ kind, name }) => kind === spanKind.server && name.startsWith("PATCH "))
    assert.isDefined(command)
    for (const [n, { headers }] of hits.entries()) {
      const traceparent = String(headers["traceparent"])
      const call = spans.find(({ spanId, traceId }) => traceparent === `00-${traceId}-${spanId}-01`)
      const send = spans.find(({ spanId }) => spanId === call?.parentSpanId)
      assert.deepStrictEqual([call?.name, call?.kind, send?.name], ["POST", spanKind.client, "Calls.make"])
      assert.strictEqual(send?.traceId, command?.traceId)
      assert.strictEqual(attributesOf(call?.attributes)["error.type"], n === 0 ? "http_403" : undefined)
      assert.strictEqual(attributesOf(send?.attributes)["campaign.id"], "cmp")
    }
  }
)
