/**
 * The telemetry of one scene: requests, deliveries and sends, by an API server and a worker with one collector (contract §2, §8, §10,
 * §14, §15). The tests after it start services whose settings differ.
 */
import { Schema } from "effect"
import { randomBytes } from "node:crypto"
import { assert } from "@effect/vitest"
import { describe, it } from "vitest"
import { messagesPath } from "../contract/Messages.support.ts"
import { inTurn, ok, reset, settings, status } from "../webhooks/delivery/Deliveries.support.ts"
import { assertMatches } from "../support/Matches.ts"
import { freePort, inGoodOrder, startService } from "../support/Process.ts"
import { eventually } from "../support/Waiting.ts"
import {
  attributesOf,
  isBelow,
  isLinked,
  type Span,
  spanKind,
  spanStatus,
  startBoth,
  startCollector,
  statementsBelow,
  statementsIn
} from "./Collector.support.ts"
import { openScene, recipients, resultOf, retrying, sent, start, testMessages, unknown } from "./Messages.support.ts"
import { database, project, serviceEnv, session } from "./Projects.support.ts"
import { accept, type Answering, busy, secrets } from "./Providers.support.ts"
import { type Answer, bearer, clients, createClient, listClients, send } from "./Requests.support.ts"
import { listen, openShop } from "./Shop.support.ts"

const databaseUrl = await database()
const token = await project(databaseUrl)
const caller = "00f067aa0ba902b7"

/** Creates the headers of a request with a new trace, whose caller records it unless `flags` say otherwise, and a new request id. */
const newCall = (flags = "01") => {
  const [traceId, requestId] = [randomBytes(16).toString("hex"), `req-${randomBytes(6).toString("hex")}`]
  return { traceId, requestId, headers: { traceparent: `00-${traceId}-${caller}-${flags}`, "x-request-id": requestId } }
}
type NewCall = ReturnType<typeof newCall>

type Asking = (url: string, call: NewCall) => Promise<Answer>

const get =
  (path: string, headers: Readonly<Record<string, string>> = bearer(token), method = "GET"): Asking =>
  (url, call) =>
    send(`${url}${path}`, { method, headers: { ...headers, ...call.headers } })

const create =
  (key: string, name: string): Asking =>
  (url, call) =>
    createClient(url, token, key, name, call)

const listByTool: Asking = (url, { headers }) =>
  send(`${url}/mcp`, {
    method: "POST",
    headers: { ...bearer(token), ...headers },
    json: { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "listClients" } }
  })

/** Requests, with the method and the route of the span, the answer, and the name of the span if it is another. */
const asked: ReadonlyArray<
  readonly [at: string, status: number, code: string | undefined, ask: Asking, name?: string]
> = [
  [`GET ${clients}`, 200, undefined, get(clients)],
  [`POST ${clients}`, 201, undefined, create("command-one", "Ada")],
  [`POST ${clients}`, 400, "validation_failed", create("command-two", "")],
  [`POST ${clients}`, 409, "idempotency_key_reused", create("command-one", "Grace")],
  [`GET ${clients}`, 401, "credential_invalid", get(clients, bearer("nonsense"))],
  [`GET ${clients}/:clientId`, 404, "client_not_found", get(`${clients}/nobody`)],
  // The call of a tool has the method of its protocol and the name of the tool beside it.
  ["POST /mcp", 200, undefined, listByTool],
  // Paths and methods that no operation has are in no name, as callers could create any number of names.
  ["GET nowhere", 404, "route_not_found", get("//nowhere"), "GET"],
  ["DELETE nowhere", 405, "method_not_allowed", get(clients, bearer(token), "DELETE"), "DELETE"]
]

const refuse: Answering = ({ response }) =>
  void response.writeHead(400).end(`{"ok":false,"error_code":400,"description":"${secrets.token}"}`)

const hidden = { title: "words-of-a-deal", path: "path-of-a-url", query: "query-of-a-url", text: "words-of-a-message" }
const Configured = Schema.Struct({ signingSecret: Schema.String })

/** Plays the scene; returns what was seen from outside, and what the processes exported and printed. */
const play = async () => {
  const [scene, collector, admin] = await Promise.all([openScene(databaseUrl), startCollector(), freePort()])
  const env = {
    ...settings,
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    LOG_LEVEL: "trace",
    LOG_FORMAT: "json",
    PROVIDER_TIMEOUT: "2s"
  }
  const api = await start(databaseUrl, "api", env)
  const worker = await start(databaseUrl, "worker", { ...env, ADMIN_PORT: String(admin) })

  const calls: Array<NewCall> = []
  for (const [, expected, code, ask] of asked) {
    const call = newCall()
    const answer = await ask(api.url, call)
    assert.deepStrictEqual([answer.status, answer.headers["x-request-id"]], [expected, call.requestId], code)
    calls.push(call)
  }

  const receiver = await listen(inTurn(status(500), reset, ok))
  const shop = await openShop(databaseUrl, api, `http://127.0.0.1:${receiver.port}/${hidden.path}?key=${hidden.query}`)
  const deal = newCall()
  await shop.create(hidden.title, api, deal.headers)

  const post = async (what: Answering, name: string, expected: string) => {
    scene.provider.answerWith(what)
    for (const each of testMessages(`${hidden.text}-${name}`))
      assert.strictEqual(resultOf(await scene.post(api, each, message.headers)), expected)
  }
  const message = newCall()
  await post(accept, "accepted", sent)
  await post(refuse, "refused", "409 provider_conflict")
  await post(({ response }) => response.destroy(), "dropped", unknown)
  await post(busy, "busy", retrying)
  scene.provider.answerWith(accept)
  await scene.endPauses()
  await eventually(async () => {
    for (const each of testMessages(`${hidden.text}-busy`)) assertMatches(await scene.state(each), { status: "sent" })
    assert.strictEqual(await shop.inState("pending", "delivering"), 0)
  })
  const metrics = (await send(`http://127.0.0.1:${admin}/metrics`)).text
  for (const process of [api, worker]) assert.deepStrictEqual(await process.stop(), inGoodOrder)
  const { signingSecret } = Schema.decodeUnknownSync(Configured)(shop.configured.json)
  const printed = [api, worker].map((process) => process.stderr()).join("\n")
  return { calls, collector, deal, message, metrics, printed, receiver, scene, shop, signingSecret }
}
const { calls, collector, deal, message, metrics, printed, receiver, scene, shop, signingSecret } = await play()

const spansOf = ({ traceId }: NewCall) => collector.spans().filter((span) => span.traceId === traceId)
const serverSpans = (spans: ReadonlyArray<Span>) => spans.filter(({ kind }) => kind === spanKind.server)
/** Returns the client spans that are no database statements. */
const callsIn = (spans: ReadonlyArray<Span>) =>
  spans.filter(({ attributes, kind }) => kind === spanKind.client && !("db.system.name" in attributesOf(attributes)))

describe("one scene", () => {
  it("has a server span for each request, with the operation, the status, and the code of a problem", () => {
    const described = calls.map((call) => {
      const [server = assert.fail("There is no span"), ...more] = serverSpans(spansOf(call))
      assert.deepStrictEqual([more, server.parentSpanId], [[], caller])
      const attributes = attributesOf(server.attributes)
      return {
        at: `${attributes["http.request.method"]} ${attributes["http.route"] ?? "nowhere"}`,
        name: server.name,
        ofTools: [attributes["mcp.method.name"], attributes["gen_ai.tool.name"]],
        status: attributes["http.response.status_code"],
        type: attributes["error.type"],
        failed: server.status?.code === spanStatus.error
      }
    })
    assert.deepStrictEqual(
      described,
      asked.map(([at, status, type, , name = at]) => {
        const ofTools = at === "POST /mcp" ? ["tools/call", "listClients"] : [undefined, undefined]
        return { at, name, ofTools, status, type, failed: status >= 500 }
      })
    )
  })

  it("has a client span for each attempt of a delivery, below the request that caused it, which its receiver gets", () => {
    const spans = spansOf(deal)
    const [server] = serverSpans(spans)
    const attempts = receiver.hits.map(({ headers, path }) => {
      assert.strictEqual(path, `/${hidden.path}?key=${hidden.query}`)
      const isSent = ({ spanId, traceId }: Span) => `00-${traceId}-${spanId}-01` === headers["traceparent"]
      const span = callsIn(spans).find(isSent) ?? assert.fail("There is no span")
      assert.isTrue(isBelow(spans, span, server))
      assertMatches(attributesOf(span.attributes), {
        "http.request.method": "POST",
        "server.address": "127.0.0.1",
        "server.port": receiver.port,
        "url.full": `http://127.0.0.1:${receiver.port}/REDACTED`
      })
      const { "error.type": error, "http.response.status_code": code } = attributesOf(span.attributes)
      return [span.status?.code === spanStatus.error, error, code]
    })
    assert.deepStrictEqual(attempts, [
      [true, "500", 500],
      [true, "connection_lost", undefined],
      [false, undefined, 200]
    ])
    const statements = statementsBelow(spans, server)
    assert.notDeepEqual(statements, [])
    const { hostname, pathname, port } = new URL(databaseUrl)
    for (const { attributes } of statements) {
      assertMatches(attributesOf(attributes), {
        "db.system.name": "postgresql",
        "db.namespace": pathname.slice(1),
        "server.address": hostname,
        "server.port": Number(port)
      })
    }
  })

  it("names statements by their verb and table, and has no text of SQL", async () => {
    const query = await session(databaseUrl)
    const rows = await query(
      "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
    )
    const tables = new Set(rows.map(({ relname }) => String(relname)))
    const statements = statementsIn(collector.spans())
    for (const { attributes, name } of statements) {
      const of = attributesOf(attributes)
      const [operation, table, ...more] = name.split(" ")
      assert.deepStrictEqual(
        [of["db.query.summary"], of["db.operation.name"], of["db.collection.name"], of["db.query.text"], more],
        [name, operation, table, undefined, []]
      )
      if (table !== undefined) assert.isTrue(tables.has(table), name)
    }
    assert.includeMembers(
      [...new Set(statements.map(({ name }) => name))],
      [
        "INSERT clients",
        "INSERT deals",
        "INSERT messages",
        "SELECT api_keys",
        "SELECT clients",
        "SELECT idempotency_keys"
      ]
    )
  })

  it("has the calls of a provider in the trace of their request, those that another process repeats included", () => {
    const spans = spansOf(message)
    const servers = serverSpans(spans)
    assert.deepStrictEqual(
      new Set(servers.map(({ name }) => name)),
      new Set([`POST ${messagesPath(":conversationId")}`])
    )
    const made = callsIn(spans)
    assert.lengthOf(made, scene.provider.calls.length)
    const below = made.filter((call) => servers.some((server) => isBelow(spans, call, server)))
    assert.isAtLeast(below.length, 8)
    const errors = made.map(({ attributes }) => attributesOf(attributes)["error.type"])
    assert.lengthOf(
      errors.filter((error) => error === "http_503"),
      2
    )
  })

  it("tells its processes apart by service.instance.id, on every signal", () => {
    const ids = collector.resources().map((resource) => resource["service.instance.id"])
    assert.lengthOf([...new Set(ids)], 2)
    assert.notInclude(ids, undefined)
  })

  const Line = Schema.fromJsonString(
    Schema.Struct({
      message: Schema.String,
      request_id: Schema.optionalKey(Schema.String),
      project_id: Schema.optionalKey(Schema.String),
      key_id: Schema.optionalKey(Schema.String),
      traceId: Schema.optionalKey(Schema.String)
    })
  )

  it("has the ids of request, project and key in the lines of the log, printed and exported, and in the span", () => {
    const lines = printed.split("\n").filter((line) => line.startsWith("{"))
    const exported = collector.logRecords().map(({ attributes, body, traceId }) => {
      const of = attributesOf(attributes)
      const text = (name: string) => (of[name] === undefined ? undefined : String(of[name]))
      const ids = { request_id: text("request_id"), project_id: text("project_id"), key_id: text("key_id") }
      return { message: body.stringValue ?? "", ...ids, traceId }
    })
    const printedLines = lines.map((line) => Schema.decodeSync(Line)(line))
    for (const [code, line, isKnown] of [
      ["client_not_found", `GET ${clients}/nobody 404 client_not_found`, true],
      ["route_not_found", "GET //nowhere 404 route_not_found", false]
    ] as const) {
      const { requestId, traceId } = calls[asked.findIndex(([, , of]) => of === code)] ?? assert.fail(code)
      const span = attributesOf(serverSpans(spansOf({ traceId, requestId, headers: newCall().headers }))[0]?.attributes)
      assert.strictEqual(span["request_id"], requestId)
      for (const all of [printedLines, exported]) {
        const [found = assert.fail(line), ...more] = all.filter((each) => each.request_id === requestId)
        assert.deepStrictEqual([found.message.replace(/ \d+ ms$/, ""), found.traceId, more], [line, traceId, []])
        assert.deepStrictEqual([found.key_id, found.project_id], [span["key_id"], span["project_id"]])
        assert.deepStrictEqual(found.key_id, isKnown ? token.slice(3, 15) : undefined)
        assert.strictEqual(found.project_id?.startsWith("p-") ?? false, isKnown)
      }
    }
  })

  it("says no text, address, signature or secret, in no signal", () => {
    assert.include(new Set(collector.received.map(({ path }) => path)), "/v1/logs")
    const everything = [...collector.received.map(({ text }) => text), printed, metrics].join("\n")
    const signatures = receiver.hits.flatMap(({ headers }) => String(headers["webhook-signature"]).split(" "))
    const unsaid = [
      ...Object.values(hidden),
      ...Object.values(recipients),
      secrets.token,
      secrets.token.slice(7),
      secrets.signingSecret.slice(6, 30),
      signingSecret.slice(6),
      "whsec_",
      scene.token,
      shop.token.slice(16),
      ...signatures.map((signature) => signature.slice(3))
    ]
    for (const text of unsaid) assert.notInclude(everything, text)
  })
})

describe("a collector", () => {
  it("that is away or hangs keeps no service from serving and from shutting down in good order", async () => {
    const silent = await startCollector({ silent: true })
    const urls = [`http://127.0.0.1:${await freePort()}`, silent.url]
    const services = await Promise.all(
      urls.map((url) =>
        startService({ env: { ...serviceEnv(databaseUrl), OTEL_EXPORTER_OTLP_ENDPOINT: url, SHUTDOWN_GRACE: "1s" } })
      )
    )
    for (const { url } of services) assert.strictEqual((await listClients(url, token)).status, 200)
    assert.deepStrictEqual(await Promise.all(services.map(({ stop }) => stop())), [inGoodOrder, inGoodOrder])
  })

  it("gets the service's name and attributes with every signal", async () => {
    const { collector, service } = await startBoth(databaseUrl, {
      LOG_LEVEL: "info",
      OTEL_SERVICE_NAME: "orders-api",
      OTEL_RESOURCE_ATTRIBUTES: "deployment.environment.name=test,team=a%20b,service.name=overruled"
    })
    await send(`${service.url}/nowhere`)
    await service.stop()
    const encodings = new Set(collector.received.map(({ headers }) => headers["content-encoding"]))
    assert.deepStrictEqual(encodings, new Set(["gzip"]))
    const paths = new Set(collector.received.map(({ path }) => path))
    assert.deepStrictEqual(paths, new Set(["/v1/traces", "/v1/metrics", "/v1/logs"]))
    for (const resource of collector.resources())
      assertMatches(resource, { "service.name": "orders-api", "deployment.environment.name": "test", team: "a b" })
  })

  // Background fibers poll several times a second: a poll that finds nothing must not export spans.
  it("gets no spans of an idle worker, nor of its checks and metrics", async () => {
    const [collector, databaseUrl, metrics] = await Promise.all([startCollector(), database(), freePort()])
    const query = await session(databaseUrl)
    const commits = async () => {
      const [row] = await query("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()")
      return Number(row?.["xact_commit"])
    }
    const env = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, METRICS_PORT: String(metrics) }
    const worker = await start(databaseUrl, "worker", env)
    for (const url of [`${worker.url}/healthz`, `${worker.url}/readyz`, `http://127.0.0.1:${metrics}/metrics`])
      assert.strictEqual((await send(url)).status, 200)
    const before = await commits()
    // By then each of the fibers has polled, most of them often.
    await eventually(async () => assert.isAbove(await commits(), before + 60))
    assert.deepStrictEqual(await worker.stop(), inGoodOrder)
    // The span of its start shows that the export works.
    assert.include(
      collector.spans().map(({ name }) => name),
      "migrate"
    )
    const roots = collector.spans().filter(({ parentSpanId }) => parentSpanId === undefined)
    assert.deepStrictEqual(statementsIn(roots), [])
    assert.deepStrictEqual(serverSpans(collector.spans()), [])
  })
})

const waiting = "wait in queue"

describe("requests that share a statement", () => {
  it("all lead to it: below the span of the request, or by the link of its wait to their batch", async () => {
    const env = {
      OTEL_TRACES_SAMPLER: "parentbased_traceidratio",
      OTEL_TRACES_SAMPLER_ARG: "0.5",
      TRACE_SQL_TEXT: "true"
    }
    const { collector, service } = await startBoth(databaseUrl, env)
    const creates = Array.from({ length: 60 }, (_, index) =>
      createClient(service.url, token, `shared-${index}`, "Ada", newCall())
    )
    assert.deepStrictEqual(new Set((await Promise.all(creates)).map(({ status }) => status)), new Set([201]))
    await service.stop()
    const spans = collector.spans()
    const inserts = statementsIn(spans).filter(({ name }) => name === "INSERT clients")
    const batches = spans.filter(({ name }) => name === "batch")
    const sampled = serverSpans(spans)
    assert.isBelow(sampled.length, creates.length)
    const ledBy = sampled.map((server) => {
      if (inserts.some((insert) => isBelow(spans, insert, server))) return "parent"
      const waits = spans.filter((span) => span.name === waiting && isBelow(spans, span, server))
      const reached = batches.filter((batch) => waits.some((wait) => isLinked(wait, batch)))
      const batch = reached.find((batch) => inserts.some((insert) => isBelow(spans, insert, batch)))
      return batch !== undefined && isLinked(batch, server) ? "link" : "nothing"
    })
    assert.deepStrictEqual(new Set(ledBy), new Set(["parent", "link"]))
    for (const { attributes } of batches)
      assert.isAtLeast(Number(attributesOf(attributes)["db.operation.batch.size"]), 2)
    for (const { attributes } of inserts)
      assert.include(attributesOf(attributes)["db.query.text"], "INSERT INTO clients")
  })
})

describe("samplers", () => {
  const none = { one: false, two: false, own: false }
  const every = { one: true, two: true, own: true }

  it.each([
    [{ OTEL_TRACES_SAMPLER: "traceidratio", OTEL_TRACES_SAMPLER_ARG: "0" }, none],
    // A caller can neither force nor disable its traces.
    [{ OTEL_TRACES_SAMPLER: "parentbased_always_off" }, none],
    [{}, every]
  ])("%j", async (env, expected) => {
    const { collector, service } = await startBoth(databaseUrl, env)
    const [one, two] = [newCall("01"), newCall("00")]
    for (const call of [one, two, {}]) await listClients(service.url, token, call)
    await service.stop()
    const traces = serverSpans(collector.spans()).map(({ traceId }) => traceId)
    if (expected === none)
      assert.notInclude(
        collector.spans().map(({ name }) => name),
        waiting
      )
    const own = traces.some((traceId) => traceId !== one.traceId && traceId !== two.traceId)
    assert.deepStrictEqual({ one: traces.includes(one.traceId), two: traces.includes(two.traceId), own }, expected)
  })
})
