/** The `traceparent` of spans (W3C Trace Context). It is stored with queued work, so that later spans continue the trace. */
import { Context, Effect, Option, Tracer } from "effect"
import { Headers, HttpServerRequest, HttpTraceContext } from "effect/http"
import { randomUUID } from "node:crypto"

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
