/** The trace and the log lines of a problem (contract §2, §15). */
import { Schema } from "effect"
import { randomBytes } from "node:crypto"
import { assert } from "@effect/vitest"
import { describe, it } from "vitest"
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

/** Creates the headers of a request with a new trace and a new request id. */
const newCall = () => {
  const [traceId, requestId] = [randomBytes(16).toString("hex"), `req-${randomBytes(6).toString("hex")}`]
  return {
    traceId,
    requestId,
    headers: { traceparent: `00-${traceId}-00f067aa0ba902b7-01`, "x-request-id": requestId }
  }
}
type NewCall = ReturnType<typeof newCall>

/** Returns the attributes of a call's only server span that describe its result. */
const endOf = (collector: Collector, { traceId }: NewCall) => {
  const [server, ...more] = collector
    .spans()
    .filter((span) => span.traceId === traceId && span.kind === spanKind.server)
  assert.deepStrictEqual(more, [])
  const attributes = attributesOf(server?.attributes)
  return {
    status: attributes["http.response.status_code"],
    type: attributes["error.type"],
    failed: server?.status?.code === spanStatus.error
  }
}

/** A service with its collector; `stop` flushes what it exports. */
interface Running {
  readonly collector: Collector
  readonly service: { readonly url: string; readonly stop: () => Promise<unknown> }
}

type Asking = (service: { readonly url: string }, call: NewCall) => Promise<Answer>

/** Makes calls in sequence, and asserts that each server span describes its answer. */
const expectEnds = async (
  { collector, service }: Running,
  asked: ReadonlyArray<readonly [status: number, code: string | undefined, ask: Asking]>
) => {
  const calls: Array<NewCall> = []
  for (const [status, code, ask] of asked) {
    const call = newCall()
    const answer = await ask(service, call)
    assert.deepStrictEqual([answer.status, answer.headers["x-request-id"]], [status, call.requestId], code)
    calls.push(call)
  }
  await service.stop()
  assert.deepStrictEqual(
    calls.map((call) => endOf(collector, call)),
    asked.map(([status, type]) => ({ status, type, failed: status >= 500 }))
  )
  return calls
}

const get =
  (path: string, by: () => Readonly<Record<string, string>> = () => bearer(token)): Asking =>
  ({ url }, { headers }) =>
    send(`${url}${path}`, { headers: { ...by(), ...headers } })

const create =
  (key: string, name: string): Asking =>
  ({ url }, call) =>
    createClient(url, token, key, name, call)

describe("the server span of a problem", () => {
  it("has the problem's code, wherever it came from", async () => {
    await expectEnds(await startBoth(databaseUrl), [
      [200, undefined, get(clients)],
      [201, undefined, create("command-one", "Ada")],
      [400, "validation_failed", create("command-two", "")],
      [409, "idempotency_key_reused", create("command-one", "Grace")],
      [400, "cursor_invalid", get(`${clients}?cursor=nonsense`)],
      [401, "credential_missing", get(clients, () => ({}))],
      [401, "credential_invalid", get(clients, () => bearer("nonsense"))],
      [404, "client_not_found", get(`${clients}/nobody`)],
      [404, "route_not_found", get("/nowhere")],
      [404, "route_not_found", get("//nowhere")],
      [405, "method_not_allowed", ({ url }, { headers }) => send(`${url}/healthz`, { method: "DELETE", headers })],
      [200, undefined, get("/readyz")]
    ])
  })

  it("fails for a problem of the service itself", async () => {
    await expectEnds(await startBoth(databaseUrl, { REDIS_URL: `redis://127.0.0.1:${await freePort()}` }), [
      [503, "rate_limiter_unavailable", get(clients)],
      [503, "service_unavailable", get("/readyz")]
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

describe("a line of the log", () => {
  it("has the request id and the trace id, exported or not", async () => {
    const ownDatabase = await database()
    const ownToken = await project(ownDatabase)
    const query = await session(ownDatabase)
    const running = await startProcess(ownDatabase, { LOG_FORMAT: "json" })
    await query("ALTER TABLE clients RENAME TO gone")
    const [lost, failed] = await expectEnds(running, [
      [404, "route_not_found", get("/nowhere")],
      [500, "internal", ({ url }, call) => listClients(url, ownToken, call)]
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
  })

  it("has the request id and the trace id in the text format, too", async () => {
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
