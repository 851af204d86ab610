/** The spans of a campaign's sends (contract §15). */
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { attributesOf, spanKind, startCollector } from "../faults/Collector.support.ts"
import { status } from "../integrations/Deliveries.support.ts"
import { startServer } from "../support/TestServer.ts"
import { campaignOf, provider, take } from "./Runner.support.ts"

it.live("each send of a campaign is in the trace of the command that started it, and carries it to the provider", () =>
  Effect.gen(function* () {
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
      const told = String(headers["traceparent"])
      const call = spans.find(({ spanId, traceId }) => told === `00-${traceId}-${spanId}-01`)
      const send = spans.find(({ spanId }) => spanId === call?.parentSpanId)
      assert.deepStrictEqual([call?.name, call?.kind, send?.name], ["POST", spanKind.client, "Runner.send"])
      assert.strictEqual(send?.traceId, command?.traceId)
      assert.strictEqual(attributesOf(call?.attributes)["error.type"], n === 0 ? "http_403" : undefined)
      assert.strictEqual(attributesOf(send?.attributes)["campaign.id"], "cmp")
    }
  }).pipe(Effect.scoped)
)
