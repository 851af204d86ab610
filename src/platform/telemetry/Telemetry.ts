/** OpenTelemetry: exports traces, metrics and logs over OTLP/HTTP if an endpoint is set. */
import { Context, Effect, Layer, Option, Predicate, References, Tracer } from "effect"
import { Settings } from "../Settings.ts"

/**
 * Provides the exporters of the settings. The SDK is loaded only when it is used: loading it takes longer than the rest
 * of a start.
 */
export const layer = Layer.unwrap(
  Effect.gen(function* () {
    const { telemetry } = yield* Settings
    if (Option.isNone(telemetry)) return Layer.succeed(References.TracerEnabled, false)
    const { exporters } = yield* Effect.promise(() => import("./Telemetry/Otlp.ts"))
    return exporters(telemetry.value)
  })
)

/**
 * Disables tracing of the statements by which background fibers poll for work several times a second. Each would be a trace
 * of its own, most of them without work. The work itself is traced.
 */
export const untraced: <A, E, R>(statement: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R> =
  Effect.withTracerEnabled(false)

/** Names the server span of a request `METHOD <route template>` and adds attributes to it, once the route is known. */
export const nameServerSpan = (
  context: Context.Context<never>,
  name: string,
  attributes: Readonly<Record<string, string>>
): void => {
  const span = Context.getOrUndefined(context, Tracer.ParentSpan)
  if (span === undefined || span._tag !== "Span") return
  for (const [key, value] of Object.entries(attributes)) span.attribute(key, value)
  if (!Predicate.hasProperty(span, "span")) return
  const { span: otel } = span
  if (Predicate.hasProperty(otel, "updateName") && typeof otel.updateName === "function") otel.updateName(name)
}
