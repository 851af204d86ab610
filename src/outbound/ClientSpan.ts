import { Effect, Option, References, type Tracer } from "effect"
import { traceparentOf } from "../telemetry/Spans.ts"
import { hostOf } from "./Names.ts"

/**
 * Returns the attributes of a POST (OpenTelemetry's semantic conventions for HTTP clients). The path and the query are left out,
 * because they often contain a secret.
 */
export const postAttributes = (url: URL) => ({
  "http.request.method": "POST",
  "url.full": `${url.origin}/REDACTED`,
  "server.address": hostOf(url),
  "server.port": Number(url.port === "" ? (url.protocol === "https:" ? 443 : 80) : url.port)
})

/**
 * Runs a request in a new span. If `errorOf` returns an error type for the outcome, the span ends with an error of this type.
 * The outcome is returned in any case.
 */
export const inClientSpan =
  <A>(errorOf: (outcome: A) => string | undefined, options: Tracer.SpanOptions) =>
  (request: Effect.Effect<A>): Effect.Effect<A> =>
    request.pipe(
      Effect.flatMap((outcome) => {
        const type = errorOf(outcome)
        return type === undefined ? Effect.succeed(outcome) : failing(outcome, type)
      }),
      Effect.tapDefect(() => Effect.annotateCurrentSpan("error.type", "internal")),
      Effect.withSpan("POST", { ...options, kind: "client" }),
      Effect.catch(({ outcome }) => Effect.succeed(outcome))
    )

const failing = <A>(outcome: A, type: string) =>
  Effect.andThen(Effect.annotateCurrentSpan("error.type", type), Effect.fail({ outcome, message: type }))

export const currentTraceparent: Effect.Effect<Option.Option<string>> = Effect.gen(function* () {
  const span = (yield* References.TracerEnabled) ? yield* Effect.option(Effect.currentParentSpan) : Option.none()
  return Option.map(span, traceparentOf)
})
