/** OpenTelemetry: nothing at all without an endpoint, else traces, metrics and logs over OTLP/HTTP. */
import { Context, Effect, Layer, Option, Predicate, References, Tracer } from "effect"
import { Settings } from "./Settings.ts"

/** Exports what the settings ask for. The SDK is loaded only then: it costs a start more than everything else. */
export const layer = Layer.unwrap(
  Effect.gen(function* () {
    const { telemetry } = yield* Settings
    if (Option.isNone(telemetry)) return Layer.succeed(References.TracerEnabled, false)
    const { exporters } = yield* Effect.promise(() => import("./Telemetry/Otlp.ts"))
    return exporters(telemetry.value)
  })
)

/**
 * For what background fibers do to find work, several times a second: most of it finds none, and each statement would be
 * a trace of its own. What is found is traced where it is done.
 */
export const untraced: <A, E, R>(look: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R> =
  Effect.withTracerEnabled(false)

/** Gives the server span of a request its name, `METHOD <route template>`, once the route is known. */
export const nameServerSpan = (context: Context.Context<never>, name: string): void => {
  const span = Context.getOrUndefined(context, Tracer.ParentSpan)
  if (span === undefined || !Predicate.hasProperty(span, "span")) return
  const { span: otel } = span
  if (Predicate.hasProperty(otel, "updateName") && typeof otel.updateName === "function") otel.updateName(name)
}
