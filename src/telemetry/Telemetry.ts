/** OpenTelemetry: exports traces, metrics and logs over OTLP/HTTP if an endpoint is set. */
import { Context, Effect, Layer, type Metric, Option, References } from "effect"
import { Settings } from "../platform/Settings.ts"

/**
 * Whether metrics are recorded. They need an OTLP endpoint, a server of metrics or an admin server. With the embedded PostgreSQL, an
 * admin server always runs.
 */
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

/**
 * Creates the series of metrics, if metrics are recorded. A counter has to begin at 0: Prometheus does not count the first event of a
 * series that begins at 1.
 */
export const atZero = (series: ReadonlyArray<Metric.Metric<number, unknown>>): Effect.Effect<void> =>
  Effect.contextWith((context: Context.Context<never>) => {
    if (Context.get(context, MetricsEnabled)) for (const each of series) each.valueUnsafe(context)
    return Effect.void
  })

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
