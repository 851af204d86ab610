/** The sends of a running campaign: texts, recipients, times and spans (contract §9, §15). */
import { assert, describe, it } from "../support/Vitest.ts"
import { Effect, Exit, Fiber, Scope } from "effect"
import { attributesOf, spanKind, startCollector } from "../faults/Collector.support.ts"
import { status } from "../integrations/deliveries/Deliveries.support.ts"
import { startServer } from "../support/TestServer.ts"
import { until, untilRows } from "../support/Waiting.ts"
import { addressOf, campaignOf, provider, sendOf, take } from "./Runner.support.ts"

describe("a campaign", () => {
  it.live("begins when it is due, sends each recipient its text once, and is completed", function* () {
    const server = yield* startServer({})
    const { hits, url } = yield* provider()
    const { campaign, recipients, settled } = yield* campaignOf(server, {
      recipients: 120,
      primary: url,
      status: "scheduled",
      body: "{{firstName}} {{lastName}}|{{displayName}}|{{other}}"
    })
    yield* settled("completed")
    assert.strictEqual((yield* campaign).version, 3)
    const sends = hits.map(sendOf)
    assert.sameMembers(
      sends.map(({ recipient }) => recipient),
      Array.from({ length: 120 }, (_, index) => addressOf(index))
    )
    assert.strictEqual(new Set(sends.map(({ messageId }) => messageId)).size, 120)
    assert.include(
      sends.map(({ text }) => text),
      "First 7 |Client 7|{{other}}"
    )
    assert.isTrue((yield* recipients).every(({ attempts, status }) => status === "sent" && attempts === 1))
  })

  it.live("records the outcomes of its calls when the process ends during the recording", function* () {
    const server = yield* startServer({}, "api")
    const held: Array<() => void> = []
    const { url } = yield* provider((hit, n) => void held.push(() => take(hit, n)))
    const { projectId, sql } = yield* campaignOf(server, { recipients: 3, primary: url })
    const scope = yield* Scope.make()
    yield* startServer({ DATABASE_URL: server.databaseUrl }, "worker").pipe(Scope.provide(scope))
    const isRecording = Effect.map(
      sql`SELECT FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))`,
      (rows) => rows.length > 0
    )
    const ended = yield* Effect.gen(function* () {
      yield* until(() => held.length === 3)
      // No result of the calls can be recorded until the transaction ends.
      yield* sql`SELECT FROM messages WHERE project_id = ${projectId} FOR UPDATE`
      for (const answer of held) answer()
      yield* untilRows(Effect.orDie(isRecording), (holds) => holds)
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
})

it.live(
  "each send of a campaign is in the trace of the command that started it, and carries it to the provider",
  function* () {
    const collector = yield* Effect.promise(() => startCollector())
    const { hits, url } = yield* provider((hit, n) => (n === 0 ? status(403) : take)(hit, n))
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
