/** The telemetry that an OpenTelemetry collector receives (contract §14, §15). */
import { createServer } from "node:net"
import { assert } from "@effect/vitest"
import { describe, it } from "vitest"
import { defer } from "../support/Finalizers.ts"
import { freePort, inGoodOrder, startService } from "../support/Process.ts"
import { assertMatches } from "../support/Matches.ts"
import {
  attributesOf,
  type Collector,
  isBelow,
  spanKind,
  startBoth,
  startCollector,
  startProcess
} from "./Collector.support.ts"
import { database, project, serviceEnv } from "./Projects.support.ts"
import { bearer, clients, createClient, listClients, send } from "./Requests.support.ts"

const databaseUrl = await database()
const token = await project(databaseUrl, { clients: [{ id: "cli_ada", displayName: "Ada" }] })

/** Requests the client `cli_ada` in a trace. */
const askIn = (service: { readonly url: string }, traceId: string, flags = "01") =>
  send(`${service.url}${clients}/cli_ada`, {
    headers: { ...bearer(token), traceparent: `00-${traceId}-00f067aa0ba902b7-${flags}` }
  })

const traceOne = "4bf92f3577b34da6a3ce929d0e0e4736"
const traceTwo = "0af7651916cd43dd8448eb211c80319c"

const serverSpans = ({ spans }: Collector) => spans().filter(({ kind }) => kind === spanKind.server)

describe("exported traces", () => {
  it("contain a server span in the caller's trace with its SQL below it", async () => {
    const { collector, service } = await startBoth(databaseUrl)
    assert.strictEqual((await askIn(service, traceOne)).status, 200)
    await service.stop()
    const trace = collector.spans().filter(({ traceId }) => traceId === traceOne)
    const servers = trace.filter(({ kind }) => kind === spanKind.server)
    assert.lengthOf(servers, 1)
    const [server] = servers
    assertMatches(server, { name: "GET /api/v1/developer/crm/clients/:clientId", parentSpanId: "00f067aa0ba902b7" })
    assertMatches(attributesOf(server?.attributes), {
      "http.request.method": "GET",
      "http.route": "/api/v1/developer/crm/clients/:clientId",
      "http.response.status_code": 200
    })

    const statements = trace.filter(({ attributes }) => attributesOf(attributes)["db.system.name"] === "postgresql")
    assert.isAbove(statements.length, 0)
    for (const statement of statements) {
      assert.strictEqual(statement.kind, spanKind.client)
      assert.isTrue(isBelow(trace, statement, server))
    }
  })

  it("name each operation and its status, also without an operation", async () => {
    const { collector, service } = await startBoth(databaseUrl)
    await listClients(service.url, token)
    await createClient(service.url, token, "in-a-trace", "Traced")
    await createClient(service.url, token, "in-a-trace-2", "")
    await send(`${service.url}/mcp`, {
      method: "POST",
      headers: bearer(token),
      json: { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "listClients" } }
    })
    await send(`${service.url}${clients}`)
    await send(`${service.url}/no/such/path`)
    await send(`${service.url}${clients}`, { method: "DELETE", headers: bearer(token) })
    await service.stop()
    const recorded = serverSpans(collector).map(({ attributes, name }) => {
      const all = attributesOf(attributes)
      return [name, all["http.request.method"], all["http.route"], all["http.response.status_code"]]
    })
    const route = "/api/v1/developer/crm/clients"
    assert.includeDeepMembers(recorded, [
      [`GET ${route}`, "GET", route, 200],
      [`POST ${route}`, "POST", route, 201],
      [`POST ${route}`, "POST", route, 400],
      [`GET ${route}`, "GET", route, 401]
    ])
    // The call of a tool has the name of its operation, and the method of its protocol beside it.
    assert.deepStrictEqual(
      serverSpans(collector).flatMap(({ attributes, name }) => {
        const method = attributesOf(attributes)["mcp.method.name"]
        return method === undefined ? [] : [[name, method]]
      }),
      [[`GET ${route}`, "tools/call"]]
    )
    // Paths and methods that no operation has are in no name, as callers could create any number of names.
    for (const name of ["/no/such/path", "DELETE /"]) {
      assert.deepStrictEqual(
        recorded.map(([name]) => String(name)).filter((each) => each.includes(name)),
        []
      )
    }
    assert.includeMembers(
      recorded.map((each) => each[3]),
      [404, 405]
    )
  })
})

describe("samplers", () => {
  const sampled = async (env: Readonly<Record<string, string>>) => {
    const { collector, service } = await startBoth(databaseUrl, env)
    await askIn(service, traceOne, "01")
    await askIn(service, traceTwo, "00")
    await listClients(service.url, token)
    await service.stop()
    assert.include(
      collector.received.map(({ path }) => path),
      "/v1/metrics"
    )
    const traces = serverSpans(collector).map(({ traceId }) => traceId)
    return {
      one: traces.includes(traceOne),
      two: traces.includes(traceTwo),
      own: traces.some((traceId) => traceId !== traceOne && traceId !== traceTwo)
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

it("exported metrics and logs arrive at the collector", async () => {
  const { collector, service } = await startProcess(databaseUrl)
  await listClients(service.url, token)
  await listClients(service.url, token)
  await send(`${service.url}/nowhere`)
  assert.deepStrictEqual(await service.stop(), inGoodOrder)
  const points = collector
    .metrics()
    .filter(({ name }) => name === "http_server_request_duration_seconds")
    .flatMap(({ points }) => points)
  const of = points.filter(({ attributes }) => Object.values(attributesOf(attributes)).includes("200"))
  assert.isAbove(of.length, 0)
  assert.includeMembers(Object.values(attributesOf(of.at(-1)?.attributes)), [
    "/api/v1/developer/crm/clients",
    "GET",
    "200"
  ])
  assert.strictEqual(of.at(-1)?.count, 2)
  assert.include(collector.logs().join("\n"), "GET /nowhere 404")
  // Exported lines are also printed.
  assert.include(service.stderr(), "GET /nowhere 404")
})

describe("a service with an OpenTelemetry collector", () => {
  it("exports nothing without an endpoint", async () => {
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
    await askIn(service, traceOne)
    assert.deepStrictEqual(await service.stop(), inGoodOrder)
    assert.deepStrictEqual(collector.received, [])
    assert.deepStrictEqual({ listening, connections }, { listening, connections: 0 })
  })

  it("serves requests and shuts down in good order while the collector is away or hangs", async () => {
    const silent = await startCollector({ silent: true })
    const away = `http://127.0.0.1:${await freePort()}`
    const services = await Promise.all(
      [away, silent.url].map((url) =>
        startService({ env: { ...serviceEnv(databaseUrl), OTEL_EXPORTER_OTLP_ENDPOINT: url, SHUTDOWN_GRACE: "5s" } })
      )
    )
    for (const { url } of services) assert.strictEqual((await listClients(url, token)).status, 200)
    assert.deepStrictEqual(await Promise.all(services.map(({ stop }) => stop())), [inGoodOrder, inGoodOrder])
  })
})
