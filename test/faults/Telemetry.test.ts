/** The telemetry that an OpenTelemetry collector receives, and the log (contract §2, §14, §15). */
import { Schema } from "effect"
import { randomBytes } from "node:crypto"
import { createServer } from "node:net"
import { assert } from "@effect/vitest"
import { describe, it } from "vitest"
import { defer } from "../support/Finalizers.ts"
import { assertMatches } from "../support/Matches.ts"
import { freePort, inGoodOrder, startService } from "../support/Process.ts"
import { eventually } from "../support/Waiting.ts"
import {
  attributesOf,
  type Collector,
  spanKind,
  spanStatus,
  startBoth,
  startCollector,
  startProcess
} from "./Collector.support.ts"
import { database, project, serviceEnv, session } from "./Projects.support.ts"
import { type Answer, bearer, clients, createClient, listClients, send } from "./Requests.support.ts"

const databaseUrl = await database()
const token = await project(databaseUrl)

const caller = "00f067aa0ba902b7"

/** Creates the headers of a request with a new trace, whose caller records it unless `flags` say otherwise, and a new request id. */
const newCall = (flags = "01") => {
  const [traceId, requestId] = [randomBytes(16).toString("hex"), `req-${randomBytes(6).toString("hex")}`]
  return {
    traceId,
    requestId,
    headers: { traceparent: `00-${traceId}-${caller}-${flags}`, "x-request-id": requestId }
  }
}
type NewCall = ReturnType<typeof newCall>

const serverSpans = ({ spans }: Collector) => spans().filter(({ kind }) => kind === spanKind.server)

/** Returns what a call's only server span says of the call and of its result. */
const spanOf = (collector: Collector, { traceId }: NewCall) => {
  const [server = assert.fail("There is no span"), ...more] = serverSpans(collector).filter(
    (span) => span.traceId === traceId
  )
  assert.deepStrictEqual([more, server.parentSpanId], [[], caller])
  const attributes = attributesOf(server.attributes)
  return {
    at: `${attributes["http.request.method"]} ${attributes["http.route"] ?? "nowhere"}`,
    name: server.name,
    ofTools: attributes["mcp.method.name"],
    status: attributes["http.response.status_code"],
    type: attributes["error.type"],
    failed: server.status?.code === spanStatus.error
  }
}

/** A service with its collector; `stop` flushes what it exports. */
interface Running {
  readonly collector: Collector
  readonly service: { readonly url: string; readonly stop: () => Promise<unknown> }
}

type Asking = (service: { readonly url: string }, call: NewCall) => Promise<Answer>

/** A request, with the method and the route of its span, and the name of the span if it is another. */
type Asked = readonly [at: string, status: number, type: string | undefined, ask: Asking, name?: string]

/** Makes calls in sequence, and asserts that each server span describes its request and its answer. */
const expectSpans = async ({ collector, service }: Running, asked: ReadonlyArray<Asked>) => {
  const calls: Array<NewCall> = []
  for (const [, status, code, ask] of asked) {
    const call = newCall()
    const answer = await ask(service, call)
    assert.deepStrictEqual([answer.status, answer.headers["x-request-id"]], [status, call.requestId], code)
    calls.push(call)
  }
  await service.stop()
  assert.deepStrictEqual(
    calls.map((call) => spanOf(collector, call)),
    asked.map(([at, status, type, , name = at]) => {
      const ofTools = at === "POST /mcp" ? "tools/call" : undefined
      return { at, name, ofTools, status, type, failed: status >= 500 }
    })
  )
  return calls
}

const get =
  (path: string, headers: Readonly<Record<string, string>> = bearer(token), method = "GET"): Asking =>
  ({ url }, call) =>
    send(`${url}${path}`, { method, headers: { ...headers, ...call.headers } })

const create =
  (key: string, name: string): Asking =>
  ({ url }, call) =>
    createClient(url, token, key, name, call)

const listByTool: Asking = ({ url }, { headers }) =>
  send(`${url}/mcp`, {
    method: "POST",
    headers: { ...bearer(token), ...headers },
    json: { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "listClients" } }
  })

describe("the server span of a request", () => {
  it("has the operation, the status, and the code of a problem, wherever it came from", async () => {
    await expectSpans(await startBoth(databaseUrl), [
      [`GET ${clients}`, 200, undefined, get(clients)],
      [`POST ${clients}`, 201, undefined, create("command-one", "Ada")],
      [`POST ${clients}`, 400, "validation_failed", create("command-two", "")],
      [`POST ${clients}`, 409, "idempotency_key_reused", create("command-one", "Grace")],
      [`GET ${clients}`, 400, "cursor_invalid", get(`${clients}?cursor=nonsense`)],
      [`GET ${clients}`, 401, "credential_missing", get(clients, {})],
      [`GET ${clients}`, 401, "credential_invalid", get(clients, bearer("nonsense"))],
      [`GET ${clients}/:clientId`, 404, "client_not_found", get(`${clients}/nobody`)],
      // The call of a tool has the name of its operation, and the method of its protocol beside it.
      ["POST /mcp", 200, undefined, listByTool, `GET ${clients}`],
      // Paths and methods that no operation has are in no name, as callers could create any number of names.
      ["GET nowhere", 404, "route_not_found", get("/no/such/path"), "GET"],
      ["GET nowhere", 404, "route_not_found", get("//nowhere"), "GET"],
      ["DELETE nowhere", 405, "method_not_allowed", get(clients, bearer(token), "DELETE"), "DELETE"],
      ["DELETE nowhere", 405, "method_not_allowed", get("/healthz", {}, "DELETE"), "DELETE"],
      ["GET /readyz", 200, undefined, get("/readyz"), "GET"]
    ])
  })

  it("fails for a problem of the service itself", async () => {
    await expectSpans(await startBoth(databaseUrl, { REDIS_URL: `redis://127.0.0.1:${await freePort()}` }), [
      [`GET ${clients}`, 503, "rate_limiter_unavailable", get(clients)],
      ["GET /readyz", 503, "service_unavailable", get("/readyz"), "GET"]
    ])
  })
})

const LogLine = Schema.fromJsonString(
  Schema.Struct({
    message: Schema.String,
    requestId: Schema.optionalKey(Schema.String),
    traceId: Schema.optionalKey(Schema.String)
  })
)

describe("a process with a collector", () => {
  it("prints and exports lines of the log with the request id and the trace id, and exports metrics", async () => {
    const ownDatabase = await database()
    const ownToken = await project(ownDatabase)
    const query = await session(ownDatabase)
    const running = await startProcess(ownDatabase, { LOG_FORMAT: "json" })
    for (const _ of [1, 2]) assert.strictEqual((await listClients(running.service.url, ownToken)).status, 200)
    await query("ALTER TABLE clients RENAME TO gone")
    const [lost, failed] = await expectSpans(running, [
      ["GET nowhere", 404, "route_not_found", get("/nowhere"), "GET"],
      [`GET ${clients}`, 500, "internal", ({ url }, call) => listClients(url, ownToken, call)]
    ])
    const printed = running.service
      .stderr()
      .split("\n")
      .filter((line) => line.startsWith("{"))
      .map((line) => Schema.decodeSync(LogLine)(line))
    const exported = running.collector.logRecords().map(({ attributes, body, traceId }) => ({
      message: body.stringValue ?? "",
      requestId: attributesOf(attributes)["requestId"],
      traceId
    }))
    for (const lines of [printed, exported]) {
      const of = (call: NewCall | undefined) =>
        lines
          .filter(({ requestId, traceId }) => requestId === call?.requestId && traceId === call?.traceId)
          .map(({ message }) => message.replace(/ \d+ ms$/, ""))
      assert.deepStrictEqual(of(lost), ["GET /nowhere 404 route_not_found"])
      assert.deepStrictEqual(of(failed), ["A request failed", `GET ${clients} 500 internal`])
    }
    const counts = running.collector
      .metrics()
      .filter(({ name }) => name === "http_server_request_duration_seconds")
      .flatMap(({ points }) => points)
      .filter(({ attributes }) => {
        const values = Object.values(attributesOf(attributes))
        return [clients, "GET", "200"].every((value) => values.includes(value))
      })
    assert.strictEqual(counts.at(-1)?.count, 2)
  })

  it("has the request id and the trace id in the text format of the log, too", async () => {
    const { service } = await startProcess(databaseUrl, { LOG_FORMAT: "pretty" })
    const call = newCall()
    await get("/nowhere")(service, call)
    assert.deepStrictEqual(await service.stop(), inGoodOrder)
    const line = service
      .stderr()
      .split("\n")
      .find((line) => line.includes("GET /nowhere 404"))
    assert.include(line, `requestId=${call.requestId}`)
    assert.include(line, `traceId=${call.traceId}`)
  })

  it("serves requests and shuts down in good order while the collector is away or hangs", async () => {
    const silent = await startCollector({ silent: true })
    const away = `http://127.0.0.1:${await freePort()}`
    const services = await Promise.all(
      [away, silent.url].map((url) =>
        startService({ env: { ...serviceEnv(databaseUrl), OTEL_EXPORTER_OTLP_ENDPOINT: url, SHUTDOWN_GRACE: "1s" } })
      )
    )
    for (const { url } of services) assert.strictEqual((await listClients(url, token)).status, 200)
    assert.deepStrictEqual(await Promise.all(services.map(({ stop }) => stop())), [inGoodOrder, inGoodOrder])
  })
})

describe("samplers", () => {
  const sampled = async (env: Readonly<Record<string, string>>) => {
    const { collector, service } = await startBoth(databaseUrl, env)
    const [one, two] = [newCall("01"), newCall("00")]
    for (const call of [one, two, {}]) await listClients(service.url, token, call)
    await service.stop()
    assert.include(
      collector.received.map(({ path }) => path),
      "/v1/metrics"
    )
    const traces = serverSpans(collector).map(({ traceId }) => traceId)
    return {
      one: traces.includes(one.traceId),
      two: traces.includes(two.traceId),
      own: traces.some((traceId) => traceId !== one.traceId && traceId !== two.traceId)
    }
  }
  const none = { one: false, two: false, own: false }
  const every = { one: true, two: true, own: true }

  it.each([
    [{ OTEL_TRACES_SAMPLER: "always_off" }, none],
    [{ OTEL_TRACES_SAMPLER: "traceidratio", OTEL_TRACES_SAMPLER_ARG: "0" }, none],
    [{ OTEL_TRACES_SAMPLER: "always_on" }, every],
    [{ OTEL_TRACES_SAMPLER: "parentbased_always_off" }, { one: true, two: false, own: false }],
    [
      { OTEL_TRACES_SAMPLER: "parentbased_traceidratio", OTEL_TRACES_SAMPLER_ARG: "0" },
      { ...none, one: true }
    ],
    // A caller can't disable its traces.
    [{}, every]
  ])("%j", async (env, expected) => {
    assert.deepStrictEqual(await sampled(env), expected)
  })
})

describe("the resource of exported telemetry", () => {
  it.each([
    [
      {
        OTEL_SERVICE_NAME: "orders-api",
        OTEL_RESOURCE_ATTRIBUTES: "deployment.environment.name=test,team=a%20b,service.name=overruled"
      },
      { "service.name": "orders-api", "deployment.environment.name": "test", team: "a b" }
    ],
    [{ OTEL_RESOURCE_ATTRIBUTES: "service.name=from-attributes" }, { "service.name": "from-attributes" }],
    [{}, { "service.name": "developer-api" }]
  ])("has the service's name and attributes on every signal: %j", async (env, expected) => {
    const { collector, service } = await startBoth(databaseUrl, { LOG_LEVEL: "info", ...env })
    await listClients(service.url, token)
    await send(`${service.url}/nowhere`)
    await service.stop()
    const paths = new Set(collector.received.map(({ path }) => path))
    assert.deepStrictEqual(paths, new Set(["/v1/traces", "/v1/metrics", "/v1/logs"]))
    for (const { headers } of collector.received) assert.match(String(headers["content-type"]), /^application\/json/)
    for (const resource of collector.resources()) assertMatches(resource, expected)
  })
})

it("a service exports nothing without an endpoint", async () => {
  let connections = 0
  const onDefaultPort = createServer((socket) => {
    connections++
    socket.destroy()
  })
  const listening = await new Promise<boolean>((resolve) => {
    onDefaultPort.once("error", () => resolve(false)).listen(4318, "127.0.0.1", () => resolve(true))
  })
  defer(() => onDefaultPort.close())
  const collector = await startCollector()
  const service = await startService({
    env: {
      ...serviceEnv(databaseUrl),
      OTEL_SERVICE_NAME: "nobody",
      OTEL_TRACES_SAMPLER: "always_on",
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${collector.url}/v1/traces`
    }
  })
  await listClients(service.url, token, newCall())
  assert.deepStrictEqual(await service.stop(), inGoodOrder)
  assert.deepStrictEqual(collector.received, [])
  assert.deepStrictEqual({ listening, connections }, { listening, connections: 0 })
})

// Background fibers poll several times a second: a poll that finds nothing must not export spans.
it("an idle worker exports no spans", async () => {
  const [collector, databaseUrl] = await Promise.all([startCollector(), database()])
  const query = await session(databaseUrl)
  const commits = async () => {
    const [row] = await query("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()")
    return Number(row?.["xact_commit"])
  }
  const worker = await startService({
    env: { ...serviceEnv(databaseUrl), OTEL_EXPORTER_OTLP_ENDPOINT: collector.url },
    args: ["--role", "worker"]
  })
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
  assert.deepStrictEqual(
    roots.flatMap(({ attributes }) => attributesOf(attributes)["db.query.text"] ?? []),
    []
  )
})
