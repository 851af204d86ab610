/** OpenTelemetry: exports traces, metrics and logs over OTLP/HTTP if an endpoint is set. */
import { Context, Effect, Layer, Option, Predicate, References, Tracer } from "effect"
import { Settings } from "../platform/Settings.ts"

/** The SDK is loaded only if an endpoint is set, because loading it takes longer than the rest of a start. */
export const layer = Layer.unwrap(
  Effect.gen(function* () {
    const { telemetry } = yield* Settings
    if (Option.isNone(telemetry)) return Layer.succeed(References.TracerEnabled, false)
    const { exporters } = yield* Effect.promise(() => import("./Telemetry/Otlp.ts"))
    return exporters(telemetry.value)
  })
)

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
