/** A receiver of OTLP over HTTP, as compressed JSON. */
import { Effect, Exit, Schema, Scope } from "effect"
import { createServer, type IncomingHttpHeaders } from "node:http"
import { buffer } from "node:stream/consumers"
import { gunzipSync } from "node:zlib"
import { defer } from "../support/Finalizers.ts"
import { expectNoSecret } from "../support/Secrets.ts"
import { type Environment, startServer } from "../support/TestServer.ts"
import type { Role } from "../../src/service/Serve.ts"
import { freePort } from "../support/Process.ts"
import { serviceEnv } from "./Projects.support.ts"

const AnyValue = Schema.Struct({
  stringValue: Schema.optionalKey(Schema.String),
  intValue: Schema.optionalKey(Schema.Union([Schema.Finite, Schema.FiniteFromString])),
  doubleValue: Schema.optionalKey(Schema.Finite),
  boolValue: Schema.optionalKey(Schema.Boolean)
})
const AttributeList = Schema.Array(Schema.Struct({ key: Schema.String, value: AnyValue }))
const Attributes = Schema.optionalKey(AttributeList)

/** Returns attributes by name, of any type. */
export const attributesOf = (
  attributes: typeof AttributeList.Type | undefined
): Record<string, string | number | boolean> =>
  Object.fromEntries(
    (attributes ?? []).map(({ key, value: { boolValue, doubleValue, intValue, stringValue } }) => [
      key,
      stringValue ?? intValue ?? doubleValue ?? boolValue ?? ""
    ])
  )

const Resource = Schema.Struct({ attributes: Attributes })

const Span = Schema.Struct({
  traceId: Schema.String,
  spanId: Schema.String,
  parentSpanId: Schema.optionalKey(Schema.String),
  name: Schema.String,
  kind: Schema.Int,
  attributes: Attributes,
  links: Schema.optionalKey(Schema.Array(Schema.Struct({ traceId: Schema.String, spanId: Schema.String }))),
  status: Schema.optionalKey(Schema.Struct({ code: Schema.optionalKey(Schema.Int) }))
})
export type Span = typeof Span.Type

/** Kinds of spans on the wire (opentelemetry-proto, trace.proto). */
export const spanKind = { internal: 1, server: 2, client: 3 } as const

/** Codes of a span's status on the wire. */
export const spanStatus = { unset: 0, ok: 1, error: 2 } as const

/** Whether a span is a descendant of another. */
export const isBelow = (spans: ReadonlyArray<Span>, { parentSpanId }: Span, ancestor: Span | undefined): boolean => {
  const parent = spans.find(({ spanId }) => spanId === parentSpanId)
  return parent !== undefined && (parent.spanId === ancestor?.spanId || isBelow(spans, parent, ancestor))
}

export const statementsIn = (spans: ReadonlyArray<Span>) =>
  spans.filter(({ attributes }) => "db.query.summary" in attributesOf(attributes))

/** Returns the database statements that a span caused. */
export const statementsBelow = (spans: ReadonlyArray<Span>, ancestor: Span | undefined) =>
  statementsIn(spans).filter((span) => isBelow(spans, span, ancestor))

export const isLinked = ({ links = [] }: Span, { spanId, traceId }: Span): boolean =>
  links.some((link) => link.spanId === spanId && link.traceId === traceId)

const Traces = Schema.Struct({
  resourceSpans: Schema.Array(
    Schema.Struct({ resource: Resource, scopeSpans: Schema.Array(Schema.Struct({ spans: Schema.Array(Span) })) })
  )
})

const DataPoint = Schema.Struct({
  attributes: Attributes,
  count: Schema.optionalKey(Schema.Union([Schema.Finite, Schema.FiniteFromString]))
})
const Metrics = Schema.Struct({
  resourceMetrics: Schema.Array(
    Schema.Struct({
      resource: Resource,
      scopeMetrics: Schema.Array(
        Schema.Struct({
          metrics: Schema.Array(
            Schema.Struct({
              name: Schema.String,
              unit: Schema.optionalKey(Schema.String),
              histogram: Schema.optionalKey(Schema.Struct({ dataPoints: Schema.Array(DataPoint) }))
            })
          )
        })
      )
    })
  )
})

const LogRecord = Schema.Struct({
  body: AnyValue,
  attributes: Attributes,
  traceId: Schema.optionalKey(Schema.String),
  spanId: Schema.optionalKey(Schema.String)
})

const Logs = Schema.Struct({
  resourceLogs: Schema.Array(
    Schema.Struct({
      resource: Resource,
      scopeLogs: Schema.Array(Schema.Struct({ logRecords: Schema.Array(LogRecord) }))
    })
  )
})

/** Starts a collector; a `silent` one accepts requests and does not answer. */
export const startCollector = async (options: { readonly silent?: boolean } = {}) => {
  const received: Array<{ readonly path: string; readonly headers: IncomingHttpHeaders; readonly text: string }> = []
  const server = createServer((request, response) => {
    void buffer(request).then((sent) => {
      const isCompressed = request.headers["content-encoding"] === "gzip"
      const text = (isCompressed ? gunzipSync(sent) : sent).toString()
      received.push({ path: request.url ?? "", headers: request.headers, text })
      if (options.silent !== true) response.writeHead(200, { "content-type": "application/json" }).end("{}")
    })
  })
  const port = await freePort()
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve))
  defer(() => {
    server.close()
    server.closeAllConnections()
    for (const { path, text } of received) expectNoSecret(path, text)
  })

  const at = <A>(path: string, schema: Schema.Codec<A, unknown>): ReadonlyArray<A> =>
    received.filter((each) => each.path === path).map(({ text }) => Schema.decodeUnknownSync(schema)(JSON.parse(text)))
  const traces = () => at("/v1/traces", Traces).flatMap(({ resourceSpans }) => resourceSpans)
  const metrics = () => at("/v1/metrics", Metrics).flatMap(({ resourceMetrics }) => resourceMetrics)
  const logs = () => at("/v1/logs", Logs).flatMap(({ resourceLogs }) => resourceLogs)
  const logRecords = () => logs().flatMap(({ scopeLogs }) => scopeLogs.flatMap(({ logRecords }) => logRecords))
  return {
    url: `http://127.0.0.1:${port}`,
    /** Everything that was received, in the order of arrival. */
    received,
    spans: () => traces().flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans)),
    metrics: () =>
      metrics()
        .flatMap(({ scopeMetrics }) => scopeMetrics.flatMap(({ metrics }) => metrics))
        .map(({ histogram, name, unit }) => ({ name, unit, points: histogram?.dataPoints ?? [] })),
    logs: () => logRecords().map(({ body }) => body.stringValue ?? ""),
    logRecords,
    /** The resource of each delivery. */
    resources: () => [...traces(), ...metrics(), ...logs()].map(({ resource }) => attributesOf(resource.attributes))
  }
}

/**
 * Starts a service that exports to a collector, in the process of the tests. `stop` ends it and flushes, as the end of a
 * process does.
 */
const startExporting = async (databaseUrl: string, endpoint: string, env: Environment = {}, role: Role = "all") => {
  const scope = Scope.makeUnsafe()
  const stop = () => Effect.runPromise(Scope.close(scope, Exit.void))
  defer(stop)
  const settings = { ...serviceEnv(databaseUrl), OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, ...env }
  const { url } = await Effect.runPromise(Scope.provide(startServer(settings, role), scope))
  return { url, stop }
}

/** Starts a collector, and a service in the process of the tests, for what does not depend on the process. */
export const startBoth = async (databaseUrl: string, env: Environment = {}) => {
  const collector = await startCollector()
  return { collector, service: await startExporting(databaseUrl, collector.url, env) }
}
