/**
 * OpenTelemetry: how code records metrics and spans. If an endpoint is set, they and the logs are exported over OTLP/HTTP. The
 * `traceparent` of a span (W3C Trace Context) is stored with queued work.
 */
import { Clock, Context, Effect, Exit, Layer, Metric, Option, Predicate, References, Tracer } from "effect"
import { Headers, HttpServerRequest, HttpTraceContext } from "effect/http"
import { randomUUID } from "node:crypto"
import { Settings } from "../platform/Settings.ts"

/** Whether metrics are recorded: if they are exported by OTLP, or shown by a port of this process. */
export const MetricsEnabled = Context.Reference<boolean>("developer-api-service/telemetry/Telemetry/MetricsEnabled", {
  defaultValue: () => false
})

const metricsEnabled = Layer.effect(
  MetricsEnabled,
  Effect.map(
    Settings,
    ({ adminPort, databaseUrl, metricsPort, telemetry }) =>
      Option.isSome(adminPort) || Option.isSome(metricsPort) || Option.isNone(databaseUrl) || Option.isSome(telemetry)
  )
)

/** A metric has its name in Prometheus, and a description, which the answer of `/metrics` shows. */
export const gauge = (name: string, description: string) => Metric.gauge(name, { description })

export const counter = (name: string, description: string) => Metric.counter(name, { description, incremental: true })

export const histogram = (name: string, description: string, boundaries: ReadonlyArray<number>) =>
  Metric.histogram(name, { description, boundaries })

/** Creates series of metrics at 0: Prometheus does not count the first event of a series that begins at 1. */
export const atZero = (series: ReadonlyArray<Metric.Metric<number, unknown>>): Effect.Effect<void> =>
  Effect.contextWith((context: Context.Context<never>) => {
    if (Context.get(context, MetricsEnabled)) for (const each of series) each.valueUnsafe(context)
    return Effect.void
  })

/** Adds one to a counter, if metrics are recorded. */
export const increment = (counter: Metric.Counter<number>): Effect.Effect<void> =>
  Effect.flatMap(MetricsEnabled, (measured) => (measured ? Metric.update(counter, 1) : Effect.void))

/** The SDK is loaded only if an endpoint is set, because loading it takes longer than the rest of a start. */
const exported = Layer.unwrap(
  Effect.gen(function* () {
    const { telemetry } = yield* Settings
    if (Option.isNone(telemetry)) return Layer.succeed(References.TracerEnabled, false)
    const { exporters } = yield* Effect.promise(() => import("./Otlp.ts"))
    return exporters(telemetry.value)
  })
)

export const layer = Layer.provideMerge(exported, metricsEnabled)

export const currentOrNewTraceparent: Effect.Effect<string> = Effect.contextWith((context: Context.Context<never>) => {
  const span = currentSpan(context)
  return Effect.succeed(span === undefined ? newTraceparent() : traceparentOf(span))
})

/** Returns the current span; without tracing, the span that the caller of the request has sent, if any. */
export const currentSpan = (context: Context.Context<never>): Tracer.AnySpan | undefined => {
  const span = Context.getOrUndefined(context, Tracer.ParentSpan)
  if (span !== undefined) return span
  const headers = Context.getOrUndefined(context, HttpServerRequest.HttpServerRequest)?.headers
  return headers?.["traceparent"] === undefined ? undefined : Option.getOrUndefined(HttpTraceContext.w3c(headers))
}

export const traceparentOf = ({ sampled, spanId, traceId }: Tracer.AnySpan): string =>
  `00-${traceId.padStart(32, "0")}-${spanId}-${sampled ? "01" : "00"}`

export const spanOf = (traceparent: string): Tracer.AnySpan | undefined =>
  Option.getOrUndefined(HttpTraceContext.w3c(Headers.fromRecordUnsafe({ traceparent })))

const newTraceparent = () => `00-${hexId()}-${hexId().slice(16)}-01`

const hexId = () => randomUUID().replaceAll("-", "")

/**
 * Disables tracing, for the statements by which background fibers poll for work several times a second. Each poll would be a
 * separate trace, and most polls find no work. The work itself is traced.
 */
export const untraced: <A, E, R>(statement: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R> =
  Effect.withTracerEnabled(false)

/** Sets the name of the request's span, once the route is known. */
export const nameServerSpan = (context: Context.Context<never>, name: string): void => {
  const span = Context.getOrUndefined(context, Tracer.ParentSpan)
  if (span === undefined || span._tag !== "Span") return
  if (!Predicate.hasProperty(span, "span")) return
  const { span: otel } = span
  if (Predicate.hasProperty(otel, "updateName") && typeof otel.updateName === "function") otel.updateName(name)
}

/** A call that runs in a batch. Only calls whose trace is recorded have spans. */
interface QueuedCall {
  readonly context: Context.Context<never>
  readonly wait: Tracer.Span | undefined
}

/** Begins the span of a call's wait in the queue. It gets a link to the span of the call's batch. */
export const beginWait = (context: Context.Context<never>): Tracer.Span | undefined => {
  const request = Context.getOrUndefined(context, Tracer.ParentSpan)
  if (request?.sampled !== true || !Context.get(context, References.TracerEnabled)) return undefined
  const wait = begin(context, "wait in queue", request, [])
  // The sampler of this process decides, whatever the stored trace of queued work says.
  return wait.sampled ? wait : undefined
}

/**
 * Ends the waits of calls, and begins the span of their batch, with links to their requests. A call that runs alone has no span
 * of a batch: the span of its statement is below the span of its request.
 */
export const beginBatch = (calls: ReadonlyArray<QueuedCall>): Tracer.Span | undefined => {
  const first = calls.find(({ wait }) => wait !== undefined)
  if (first === undefined) return undefined
  const requests = calls.flatMap(({ wait }) => (wait === undefined ? [] : Option.toArray(wait.parent)))
  const [parent] = requests
  const batch = calls.length === 1 || parent === undefined ? undefined : begin(first.context, "batch", parent, requests)
  batch?.attribute("db.operation.batch.size", calls.length)
  for (const { context, wait } of calls) {
    if (wait === undefined) continue
    if (batch !== undefined) wait.addLinks([linkTo(batch)])
    endSpan(wait, context, Exit.void)
  }
  return batch
}

export const endSpan = (span: Tracer.Span, context: Context.Context<never>, exit: Exit.Exit<unknown, unknown>): void =>
  span.end(now(context), exit)

const begin = (
  context: Context.Context<never>,
  name: string,
  parent: Tracer.AnySpan,
  links: ReadonlyArray<Tracer.AnySpan>
): Tracer.Span =>
  Context.get(context, Tracer.Tracer).span({
    name,
    parent: Option.some(parent),
    annotations: Context.empty(),
    links: links.map(linkTo),
    startTime: now(context),
    kind: "internal",
    root: false,
    sampled: true
  })

const linkTo = (span: Tracer.AnySpan): Tracer.SpanLink => ({ span, attributes: {} })

const now = (context: Context.Context<never>): bigint => Context.get(context, Clock.Clock).currentTimeNanosUnsafe()
