/** Traces and logs of deliveries, and the values that they must not contain (contract §10, §14, §15). */
import { Effect, Schema } from "effect"
import { randomBytes } from "node:crypto"
import { assert } from "@effect/vitest"
import { describe, it } from "vitest"
import { run } from "../cli/Cli.support.ts"
import {
  type Answering,
  type Hit,
  inTurn,
  ok,
  reset,
  settings,
  status
} from "../integrations/deliveries/Deliveries.support.ts"
import { assertMatches } from "../support/Matches.ts"
import {
  attributesOf,
  type Collector,
  isBelow,
  type Span,
  spanKind,
  spanStatus,
  startCollector,
  startExporting,
  statementsBelow
} from "./Collector.support.ts"
import { database, serviceEnv } from "./Projects.support.ts"
import { listen, openShop, type Shop } from "./Shop.support.ts"
import { eventually } from "../support/Waiting.ts"

const databaseUrl = await database()

type Role = "all" | "api" | "worker"

const startWith = (collector: Collector, role?: Role, env: Readonly<Record<string, string>> = {}) =>
  startExporting(databaseUrl, collector, { ...settings, ...env }, role)

/** Creates a trace of a caller, with the header `traceparent`. */
const newTrace = (flags = "01") => {
  const traceId = randomBytes(16).toString("hex")
  return { traceId, headers: { traceparent: `00-${traceId}-00f067aa0ba902b7-${flags}` } }
}

const flushed = async (...services: ReadonlyArray<Awaited<ReturnType<typeof startWith>>>) => {
  for (const { stop } of services) await stop()
}

const settled = (shop: Shop) =>
  eventually(async () => assert.strictEqual(await shop.inState("pending", "delivering"), 0))

/** Returns the client spans that are no database statements. */
const attemptsIn = (spans: ReadonlyArray<Span>) =>
  spans.filter(({ attributes, kind }) => kind === spanKind.client && !("db.system.name" in attributesOf(attributes)))

/** Returns the `traceparent` that a receiver got. */
const receivedTraceparent = ({ headers }: Hit) => headers["traceparent"]

const traceparentOf = ({ spanId, traceId }: Span) => `00-${traceId}-${spanId}-01`

/** Returns the span of the attempt that a hit belongs to. */
const spanOf = (spans: ReadonlyArray<Span>, hit: Hit | undefined): Span => {
  const [span, ...more] = spans.filter((span) => hit !== undefined && traceparentOf(span) === receivedTraceparent(hit))
  if (span === undefined || more.length > 0)
    throw new Error(`${hit && receivedTraceparent(hit)} is not one of the spans`)
  return span
}

const Configured = Schema.Struct({ signingSecret: Schema.String })

/** Creates a deal in a trace, with these answers of its receiver; returns the exported spans of the trace. */
const tracedDeal = async (...answers: ReadonlyArray<Answering>) => {
  const collector = await startCollector()
  const env = { LOG_LEVEL: "trace" }
  const [api, worker] = [await startWith(collector, "api", env), await startWith(collector, "worker", env)]
  const receiver = await listen(inTurn(...answers))
  const [path, query] = [randomBytes(12).toString("hex"), randomBytes(12).toString("hex")]
  const shop = await openShop(databaseUrl, api, `http://127.0.0.1:${receiver.port}/${path}?key=${query}`)
  const { headers, traceId } = newTrace()
  const title = `deal-${randomBytes(12).toString("hex")}`
  await shop.create(title, api, headers)
  await settled(shop)
  await flushed(api, worker)
  const spans = collector.spans().filter((span) => span.traceId === traceId)
  const [server, ...others] = spans.filter(({ kind }) => kind === spanKind.server)
  if (server === undefined || others.length > 0) throw new Error("The request has one span")
  const { signingSecret } = Schema.decodeUnknownSync(Configured)(shop.configured.body)
  const signatures = receiver.hits.flatMap(({ headers }) => String(headers["webhook-signature"]).split(" "))
  const secrets = [
    signingSecret.slice("whsec_".length),
    ...signatures.map((signature) => signature.slice(3)),
    "whsec_",
    title,
    path,
    query,
    shop.token.slice(16)
  ]
  assert.deepStrictEqual(
    receiver.hits.map((hit) => hit.path),
    answers.map(() => `/${path}?key=${query}`)
  )
  return { collector, receiver, secrets, server, spans, attempts: attemptsIn(spans) }
}

describe("the span of a delivery attempt", () => {
  it("is a client span below the request that caused it, one for each attempt, and is sent to the receiver", async () => {
    const { attempts, collector, receiver, secrets, server, spans } = await tracedDeal(status(500), reset, ok)
    assert.strictEqual(server.name, "POST /api/v1/developer/crm/deals")
    assert.lengthOf(receiver.hits, 3)
    assert.lengthOf(attempts, 3)
    const each = receiver.hits.map((hit) => spanOf(attempts, hit))
    assert.strictEqual(new Set(each.map(({ spanId }) => spanId)).size, 3)
    for (const attempt of each) {
      assert.strictEqual(attempt.name, "POST")
      assert.isTrue(isBelow(spans, attempt, server))
      assertMatches(attributesOf(attempt.attributes), {
        "http.request.method": "POST",
        "server.address": "127.0.0.1",
        "server.port": receiver.port,
        "url.full": `http://127.0.0.1:${receiver.port}/REDACTED`
      })
    }
    assert.deepStrictEqual(
      each.map(({ attributes, status }) => {
        const { "error.type": error, "http.response.status_code": code } = attributesOf(attributes)
        return [status?.code === spanStatus.error, error, code]
      }),
      [
        [true, "500", 500],
        [true, "connection_lost", undefined],
        [false, undefined, 200]
      ]
    )
    const statements = statementsBelow(spans, server)
    assert.notDeepEqual(statements, [])
    const { hostname, pathname, port } = new URL(databaseUrl)
    for (const { attributes } of statements) {
      assertMatches(attributesOf(attributes), {
        "db.namespace": pathname.slice(1),
        "server.address": hostname,
        "server.port": Number(port)
      })
    }
    assert.include(
      collector.metrics().map(({ name }) => name),
      "webhook_deliveries_total"
    )
    // No exported span, metric or line of the log has a secret, a signature, the body or a part of the URL.
    assert.include(new Set(collector.received.map(({ path }) => path)), "/v1/logs")
    const exported = collector.received.map(({ text }) => text).join("\n")
    for (const secret of secrets) assert.notInclude(exported, secret)
  })

  it("has an internal error when the delivery can't be signed", async () => {
    const collector = await startCollector()
    const service = await startWith(collector, "api")
    const receiver = await listen(ok)
    const shop = await openShop(databaseUrl, service, receiver.url)
    const { headers, traceId } = newTrace()
    const worker = await startWith(collector, "worker")
    // As if it had been sealed with another key.
    await shop.query(`UPDATE webhook_secrets SET sealed = sha512(sealed) WHERE project_id = '${shop.id}'`)
    await shop.create("deal-unsigned", service, headers)
    await settled(shop)
    await flushed(service, worker)
    const attempts = attemptsIn(collector.spans().filter((span) => span.traceId === traceId))
    assert.isAbove(attempts.length, 0)
    for (const { attributes, status } of attempts) {
      assert.deepStrictEqual([status?.code, attributesOf(attributes)["error.type"]], [spanStatus.error, "internal"])
    }
    assert.deepStrictEqual(receiver.hits, [])
  })

  it.each([
    ["its caller does not record is recorded all the same, under the caller's trace id", {}, "01", 1],
    ["the sampler does not record is not recorded", { OTEL_TRACES_SAMPLER: "parentbased_always_off" }, "00", 0]
  ] as const)("in a trace that %s, and the receiver gets the same flag", async (_, env, flags, recorded) => {
    const collector = await startCollector()
    const service = await startWith(collector, "all", env)
    const receiver = await listen(ok)
    const shop = await openShop(databaseUrl, service, receiver.url)
    const { headers, traceId } = newTrace("00")
    await shop.create("deal-unsampled", service, headers)
    await settled(shop)
    await flushed(service)
    assertMatches(receiver.hits.map(receivedTraceparent), [new RegExp(`^00-${traceId}-[0-9a-f]{16}-${flags}$`)])
    const spans = collector.spans().filter((span) => span.traceId === traceId)
    assert.strictEqual(attemptsIn(spans).length, recorded)
    if (recorded === 0) assert.deepStrictEqual(spans, [])
  })

  it("is in the trace of the operator's command that caused it", async () => {
    const collector = await startCollector()
    const service = await startWith(collector)
    const receiver = await listen(ok)
    const shop = await openShop(databaseUrl, service, receiver.url, ["crm.task.created.v1"])
    for (const title of ["One", "Two"]) {
      const args = ["task", "create", "--project", shop.id, "--title", title]
      const { status } = await Effect.runPromise(run(args, { env: serviceEnv(databaseUrl) }))
      assert.strictEqual(status, 0)
    }
    await eventually(() => assert.lengthOf(receiver.hits, 2))
    await settled(shop)
    await flushed(service)
    const attempts = receiver.hits.map((hit) => spanOf(attemptsIn(collector.spans()), hit))
    const servers = collector.spans().filter(({ kind }) => kind === spanKind.server)
    const traces = [...attempts, ...servers].map(({ traceId }) => traceId)
    assert.strictEqual(new Set(traces).size, 2 + servers.length)
  })
})
