/** The telemetry of deliveries and sends, and the values that it must not contain (contract §8, §10, §14, §15). */
import { Effect, Schema } from "effect"
import { randomBytes } from "node:crypto"
import { assert } from "@effect/vitest"
import { describe, it } from "vitest"
import { run } from "../cli/Cli.support.ts"
import { messagesPath } from "../contract/Messages.support.ts"
import { type Hit, inTurn, ok, reset, settings, status } from "../integrations/deliveries/Deliveries.support.ts"
import { assertMatches } from "../support/Matches.ts"
import { freePort, inGoodOrder } from "../support/Process.ts"
import { eventually } from "../support/Waiting.ts"
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
import {
  expectTrue,
  openScene,
  pending,
  recipients,
  resultOf,
  retrying,
  sent,
  start,
  testMessages,
  unknown
} from "./Messages.support.ts"
import { database, serviceEnv } from "./Projects.support.ts"
import { accept, acceptSilently, type Answering, busy, secrets } from "./Providers.support.ts"
import { send } from "./Requests.support.ts"
import { listen, openShop, type Shop } from "./Shop.support.ts"

const databaseUrl = await database()

const startWith = (collector: Collector, role?: "all" | "api" | "worker", env: Readonly<Record<string, string>> = {}) =>
  startExporting(databaseUrl, collector, { ...settings, ...env }, role)

/** Creates a trace of a caller, with the header `traceparent`. */
const newTrace = (flags = "01") => {
  const traceId = randomBytes(16).toString("hex")
  return {
    headers: { traceparent: `00-${traceId}-00f067aa0ba902b7-${flags}` },
    traceId,
    /** Returns the spans of the trace that were exported. */
    spansOf: (collector: Collector) => collector.spans().filter((span) => span.traceId === traceId)
  }
}

const settled = (shop: Shop) =>
  eventually(async () => assert.strictEqual(await shop.inState("pending", "delivering"), 0))

/** Returns the client spans that are no database statements. */
const attemptsIn = (spans: ReadonlyArray<Span>) =>
  spans.filter(({ attributes, kind }) => kind === spanKind.client && !("db.system.name" in attributesOf(attributes)))

/** Returns the span of the attempt whose `traceparent` was sent. */
const spanOf = (spans: ReadonlyArray<Span>, headers: Hit["headers"]): Span => {
  const sentOn = headers["traceparent"]
  const [span, ...more] = spans.filter(({ spanId, traceId }) => `00-${traceId}-${spanId}-01` === sentOn)
  if (span === undefined || more.length > 0) throw new Error(`${String(sentOn)} is not one of the spans`)
  return span
}

const Configured = Schema.Struct({ signingSecret: Schema.String })

describe("the span of a delivery attempt", () => {
  it("is a client span below the request that caused it, one for each attempt, and is sent to the receiver", async () => {
    const collector = await startCollector()
    const env = { LOG_LEVEL: "trace" }
    const [api, worker] = [await startWith(collector, "api", env), await startWith(collector, "worker", env)]
    const receiver = await listen(inTurn(status(500), reset, ok))
    const [path, query] = [randomBytes(12).toString("hex"), randomBytes(12).toString("hex")]
    const shop = await openShop(databaseUrl, api, `http://127.0.0.1:${receiver.port}/${path}?key=${query}`)
    const { headers, spansOf } = newTrace()
    const title = `deal-${randomBytes(12).toString("hex")}`
    await shop.create(title, api, headers)
    await settled(shop)
    for (const { stop } of [api, worker]) await stop()

    const spans = spansOf(collector)
    const [server, ...others] = spans.filter(({ kind }) => kind === spanKind.server)
    assert.deepStrictEqual(others, [])
    const attempts = attemptsIn(spans)
    assert.deepStrictEqual([server?.name, attempts.length], ["POST /api/v1/developer/crm/deals", 3])
    assert.deepStrictEqual(
      receiver.hits.map((hit) => hit.path),
      attempts.map(() => `/${path}?key=${query}`)
    )
    const each = receiver.hits.map((hit) => spanOf(attempts, hit.headers))
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
    for (const { attributes, kind } of statements) {
      assert.strictEqual(kind, spanKind.client)
      assertMatches(attributesOf(attributes), {
        "db.system.name": "postgresql",
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
    const { signingSecret } = Schema.decodeUnknownSync(Configured)(shop.configured.body)
    const signatures = receiver.hits.flatMap(({ headers }) => String(headers["webhook-signature"]).split(" "))
    const hidden = [signingSecret.slice("whsec_".length), ...signatures.map((signature) => signature.slice(3))]
    for (const text of [...hidden, "whsec_", title, path, query, shop.token.slice(16)]) {
      assert.notInclude(exported, text)
    }
  })

  it("has an internal error when the delivery can't be signed", async () => {
    const collector = await startCollector()
    const service = await startWith(collector, "api")
    const receiver = await listen(ok)
    const shop = await openShop(databaseUrl, service, receiver.url)
    const { headers, spansOf } = newTrace()
    const worker = await startWith(collector, "worker")
    // As if it had been sealed with another key.
    await shop.query(`UPDATE webhook_secrets SET sealed = sha512(sealed) WHERE project_id = '${shop.id}'`)
    await shop.create("deal-unsigned", service, headers)
    await settled(shop)
    for (const { stop } of [service, worker]) await stop()
    const attempts = attemptsIn(spansOf(collector))
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
    const { headers, spansOf, traceId } = newTrace("00")
    await shop.create("deal-unsampled", service, headers)
    await settled(shop)
    await service.stop()
    assertMatches(receiver.hits, [{ headers: { traceparent: new RegExp(`^00-${traceId}-[0-9a-f]{16}-${flags}$`) } }])
    const spans = spansOf(collector)
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
    await service.stop()
    const attempts = receiver.hits.map((hit) => spanOf(attemptsIn(collector.spans()), hit.headers))
    const servers = collector.spans().filter(({ kind }) => kind === spanKind.server)
    const traces = [...attempts, ...servers].map(({ traceId }) => traceId)
    assert.strictEqual(new Set(traces).size, 2 + servers.length)
  })
})

const refuse: Answering = ({ response }) =>
  void response.writeHead(400).end(`{"ok":false,"error_code":400,"description":"${secrets.token}"}`)

describe("the span of a provider call", () => {
  it("is in the same trace when another process repeats the call or the process is killed", async () => {
    const [scene, collector] = await Promise.all([openScene(databaseUrl), startCollector()])
    const env = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url }
    const { headers, spansOf } = newTrace()
    const [later, lost] = [testMessages("later"), testMessages("lost")]
    const api = await start(databaseUrl, "api", env)
    scene.provider.answerWith(busy)
    for (const each of later) assert.strictEqual(resultOf(await scene.post(api, each, headers)), retrying)
    const { reached } = scene.provider.trap(lost.length, acceptSilently)
    const cut = lost.map((each) => scene.post(api, each, headers).then(resultOf, () => "cut"))
    await reached
    // Waits for the export of the earlier calls.
    await eventually(() => assert.isAtLeast(attemptsIn(spansOf(collector)).length, 2))
    api.kill("SIGKILL")
    assert.deepStrictEqual(await Promise.all(cut), ["cut", "cut"])

    scene.provider.answerWith(accept)
    await scene.endWaits()
    await scene.endLeases()
    await scene.endPauses()
    const worker = await start(databaseUrl, "worker", env)
    await eventually(async () => {
      const states = await Promise.all([...later, ...lost].map(scene.state))
      assertMatches(
        states,
        ["sent", "sent", "sent", "unknown"].map((status) => ({ status }))
      )
    })
    assert.deepStrictEqual(await worker.stop(), inGoodOrder)
    const trace = spansOf(collector)
    const calls = attemptsIn(trace)
    const answered503 = calls.filter(({ attributes }) => attributesOf(attributes)["error.type"] === "http_503")
    assert.deepStrictEqual(
      answered503.map(({ status }) => status?.code),
      [spanStatus.error, spanStatus.error]
    )
    // These are below the requests that made them.
    for (const server of trace.filter(({ kind }) => kind === spanKind.server)) {
      assert.strictEqual(server.name, `POST ${messagesPath(":conversationId")}`)
      assert.lengthOf(
        answered503.filter((call) => isBelow(trace, call, server)),
        1
      )
    }
    // Two postponed calls, their two retries, and the retry of the lost call that may be repeated.
    assert.lengthOf(calls, 5)
    for (const { headers, key } of scene.provider.calls.slice(4).filter(({ kind }) => kind === "http")) {
      assert.strictEqual(attributesOf(spanOf(calls, headers).attributes)["message.id"], key)
    }
    await expectTrue(scene, lost)
  })
})

describe("the telemetry of provider calls", () => {
  it("counts attempts by provider and outcome, and contains no text, address or secret", async () => {
    const [scene, collector, adminPort] = await Promise.all([openScene(databaseUrl), startCollector(), freePort()])
    const { provider } = scene
    const service = await start(databaseUrl, "all", {
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      ADMIN_PORT: String(adminPort),
      LOG_LEVEL: "trace",
      PROVIDER_TIMEOUT: "2s",
      SHUTDOWN_GRACE: "1s"
    })
    const secretText = "whisper-of-the-text"
    const post = async (what: Answering, name: string, expected: string) => {
      provider.answerWith(what)
      for (const each of testMessages(`${secretText}-${name}`)) {
        assert.include([expected, pending], resultOf(await scene.post(service, each)))
      }
    }
    await post(accept, "accepted", sent)
    await post(refuse, "refused", "409 provider_conflict")
    await post(({ response }) => response.destroy(), "dropped", unknown)
    await post(acceptSilently, "timeout", unknown)
    await post(busy, "busy", retrying)
    const bodies = await Promise.all(
      testMessages(`${secretText}-refused`).map(async (each) => (await scene.post(service, each)).text)
    )

    const metrics = (await send(`http://127.0.0.1:${adminPort}/metrics`)).text
    const counted = (of: string, outcome: string) =>
      metrics
        .split("\n")
        .filter((line) => line.startsWith("message_attempts_total{"))
        .filter((line) => line.includes(`provider="${of}"`) && line.includes(`outcome="${outcome}"`))
        .map((line) => Number(line.split(" ").at(-1)))
    for (const kind of ["http", "telegram"]) {
      assert.strictEqual(counted(kind, "accepted").length, 1)
      assert.deepStrictEqual(counted(kind, "refused"), [1])
      assert.isAtLeast(Number(counted(kind, "postponed")[0]), 1)
      assert.isAtLeast(Number(counted(kind, "unclear")[0]), 2)
    }
    assert.deepStrictEqual(counted("telegram", "accepted"), [1])
    service.kill("SIGINT")
    await service.exited
    assert.isAtLeast(attemptsIn(collector.spans()).length, 10)
    assert.include(collector.logs().join("\n"), "/messages 409")

    const everything = [
      ...collector.received.map(({ text }) => text),
      service.stdout(),
      service.stderr(),
      metrics,
      ...bodies
    ].join("\n")
    for (const hidden of [secretText, ...Object.values(recipients), secrets.token, scene.token]) {
      assert.notInclude(everything, hidden)
    }
    assert.notInclude(everything, secrets.token.split(":")[1] ?? "")
    assert.notInclude(everything, secrets.signingSecret.slice(6, 30))
  })
})
