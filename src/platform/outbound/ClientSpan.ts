/** The spans of requests that go out. */
import { Effect, Option, References } from "effect"
import { traceparentOf } from "../TraceContext.ts"
import { hostOf } from "./Host.ts"

/** OpenTelemetry's semantic conventions for HTTP clients. Path and query stay out: with many they hold a secret. */
export const postAttributes = (url: URL) => ({
  "http.request.method": "POST",
  "server.address": hostOf(url),
  "server.port": Number(url.port === "" ? (url.protocol === "https:" ? 443 : 80) : url.port)
})

/** The `traceparent` (W3C Trace Context) of the current span; none where nothing is traced. */
export const currentTraceparent: Effect.Effect<Option.Option<string>> = Effect.gen(function* () {
  const span = (yield* References.TracerEnabled) ? yield* Effect.option(Effect.currentParentSpan) : Option.none()
  return Option.map(span, traceparentOf)
})
