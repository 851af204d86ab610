/** Where something stands in a trace, as text that outlives the process (W3C Trace Context). */
import { Context, Effect, Option, Tracer } from "effect"
import { Headers, HttpServerRequest, HttpTraceContext } from "effect/http"
import { randomUUID } from "node:crypto"

/** In the trace of the span, or of the request's own `traceparent` where the service records none; else in a new one. */
export const causeTraceparent: Effect.Effect<string> = Effect.contextWith((context: Context.Context<never>) => {
  const request = Context.getOption(context, HttpServerRequest.HttpServerRequest)
  return Context.getOption(context, Tracer.ParentSpan).pipe(
    Option.orElse(() => Option.flatMap(request, ({ headers }) => HttpTraceContext.w3c(headers))),
    Option.match({ onNone: newTraceparent, onSome: traceparentOf }),
    Effect.succeed
  )
})

/** A span as `traceparent`. */
export const traceparentOf = ({ sampled, spanId, traceId }: Tracer.AnySpan): string =>
  `00-${traceId.padStart(32, "0")}-${spanId}-${sampled ? "01" : "00"}`

/** The span that a stored `traceparent` names, to be the parent of what it has caused. */
export const spanOf = (traceparent: string): Tracer.AnySpan | undefined =>
  Option.getOrUndefined(HttpTraceContext.w3c(Headers.fromRecordUnsafe({ traceparent })))

const newTraceparent = () => `00-${hexId()}-${hexId().slice(16)}-01`

const hexId = () => randomUUID().replaceAll("-", "")
