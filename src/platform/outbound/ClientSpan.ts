/** The spans of requests that go out. */
import { Effect, Option, References, type Tracer } from "effect"
import { traceparentOf } from "../TraceContext.ts"
import { hostOf } from "./Host.ts"

/** OpenTelemetry's semantic conventions for HTTP clients. Path and query stay out: with many they hold a secret. */
export const postAttributes = (url: URL) => ({
  "http.request.method": "POST",
  "url.full": `${url.origin}/REDACTED`,
  "server.address": hostOf(url),
  "server.port": Number(url.port === "" ? (url.protocol === "https:" ? 443 : 80) : url.port)
})

/**
 * Makes a request in a span of its own. `errorOf` names what was wrong with an outcome, if anything was: the span then
 * ends with an error of that type. To those who wait for it such an outcome is one like any other.
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

/** The `traceparent` (W3C Trace Context) of the current span; none where nothing is traced. */
export const currentTraceparent: Effect.Effect<Option.Option<string>> = Effect.gen(function* () {
  const span = (yield* References.TracerEnabled) ? yield* Effect.option(Effect.currentParentSpan) : Option.none()
  return Option.map(span, traceparentOf)
})
