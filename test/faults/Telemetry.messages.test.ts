/** The telemetry of sends, and the secrets that it must not contain (contract §8, §15). */
import { assert } from "@effect/vitest"
import { describe, it } from "vitest"
import { freePort, inGoodOrder } from "../support/Process.ts"
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
import { database } from "./Projects.support.ts"
import { accept, acceptSilently, type Answering, busy, secrets } from "./Providers.support.ts"
import { send } from "./Requests.support.ts"
import { eventually } from "../support/Waiting.ts"

const databaseUrl = await database()

const traceId = "4bf92f3577b34da6a3ce929d0e0e4736"
const caller = { traceparent: `00-${traceId}-00f067aa0ba902b7-01` }
const route = "/api/v1/developer/messaging/conversations/:conversationId/messages"

const refuse: Answering = ({ response }) =>
  void response.writeHead(400).end(`{"ok":false,"error_code":400,"description":"${secrets.token}"}`)

/** Returns the provider calls of a trace. */
const callsIn = (spans: ReadonlyArray<Span>) =>
  spans.filter(({ kind, name }) => kind === spanKind.client && name === "POST")

const traceOf = (collector: Collector) => collector.spans().filter((span) => span.traceId === traceId)

describe("the span of a provider call", () => {
  it("is a client span in the request's trace, and is sent to the provider", async () => {
    const [scene, collector] = await Promise.all([openScene(databaseUrl), startCollector()])
    const service = await startExporting(databaseUrl, collector)
    const all = testMessages("traced")
    for (const each of all) assert.strictEqual(resultOf(await scene.post(service, each, caller)), sent)
    await service.stop()

    const trace = traceOf(collector)
    const servers = trace.filter(({ kind }) => kind === spanKind.server)
    assert.deepStrictEqual(
      servers.map(({ name, parentSpanId }) => [name, parentSpanId]),
      all.map(() => [`POST ${route}`, "00f067aa0ba902b7"])
    )
    const calls = callsIn(trace)
    assert.lengthOf(calls, 2)
    for (const server of servers) {
      assert.lengthOf(
        calls.filter((call) => isBelow(trace, call, server)),
        1
      )
      assert.isAtLeast(statementsBelow(trace, server).length, 2)
    }
    for (const call of calls) {
      const attributes = attributesOf(call.attributes)
      assertMatches(attributes, {
        "http.request.method": "POST",
        "http.response.status_code": 200,
        "message.id": /^msg_/,
        "server.address": "127.0.0.1",
        "server.port": Number(new URL(scene.provider.url).port),
        "url.full": `${new URL(scene.provider.url).origin}/REDACTED`
      })
      assert.notInclude(Object.keys(attributes), "url.path")
    }
    const [http, telegram] = scene.provider.calls
    const ofHttp = calls.find(({ attributes }) => attributesOf(attributes)["message.id"] === http?.key)
    assert.strictEqual(http?.headers["traceparent"], `00-${traceId}-${ofHttp?.spanId}-01`)
    assert.notProperty(telegram?.headers, "traceparent")
  })

  it("is in the same trace when another process repeats the call or the process is killed", async () => {
    const [scene, collector] = await Promise.all([openScene(databaseUrl), startCollector()])
    const env = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url }
    const [later, lost] = [testMessages("later"), testMessages("lost")]
    const api = await start(databaseUrl, "api", env)
    scene.provider.answerWith(busy)
    for (const each of later) assert.strictEqual(resultOf(await scene.post(api, each, caller)), retrying)
    const { reached } = scene.provider.trap(lost.length, acceptSilently)
    const cut = lost.map((each) => scene.post(api, each, caller).then(resultOf, () => "cut"))
    await reached
    // Waits for the export of the earlier calls.
    await eventually(() => assert.isAtLeast(callsIn(traceOf(collector)).length, 2))
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
    const calls = callsIn(traceOf(collector))
    const answered503 = calls.filter(({ attributes }) => attributesOf(attributes)["error.type"] === "http_503")
    assert.deepStrictEqual(
      answered503.map(({ status }) => status?.code),
      [spanStatus.error, spanStatus.error]
    )
    // Two postponed calls, their two retries, and the retry of the lost call that may be repeated.
    assert.lengthOf(calls, 5)
    for (const { headers, key } of scene.provider.calls.slice(4).filter(({ kind }) => kind === "http")) {
      const span = calls.find(({ spanId }) => headers["traceparent"] === `00-${traceId}-${spanId}-01`)
      assert.strictEqual(attributesOf(span?.attributes)["message.id"], key)
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
    assert.isAtLeast(callsIn(collector.spans()).length, 10)
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
