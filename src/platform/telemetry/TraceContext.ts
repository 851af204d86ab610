/** The `traceparent` of spans (W3C Trace Context). It is stored with queued work, so that later spans continue the trace. */
import { Context, Effect, Option, Tracer } from "effect"
import { Headers, HttpServerRequest, HttpTraceContext } from "effect/http"
import { randomUUID } from "node:crypto"

export const currentOrNewTraceparent: Effect.Effect<string> = Effect.contextWith((context: Context.Context<never>) => {
  const request = Context.getOption(context, HttpServerRequest.HttpServerRequest)
  return Context.getOption(context, Tracer.ParentSpan).pipe(
    Option.orElse(() => Option.flatMap(request, ({ headers }) => HttpTraceContext.w3c(headers))),
    Option.match({ onNone: newTraceparent, onSome: traceparentOf }),
    Effect.succeed
  )
})

export const traceparentOf = ({ sampled, spanId, traceId }: Tracer.AnySpan): string =>
  `00-${traceId.padStart(32, "0")}-${spanId}-${sampled ? "01" : "00"}`

export const spanOf = (traceparent: string): Tracer.AnySpan | undefined =>
  Option.getOrUndefined(HttpTraceContext.w3c(Headers.fromRecordUnsafe({ traceparent })))

const newTraceparent = () => `00-${hexId()}-${hexId().slice(16)}-01`

const hexId = () => randomUUID().replaceAll("-", "")
