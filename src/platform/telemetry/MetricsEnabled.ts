/**
 * Whether metrics are recorded. They need an admin server, which always runs with the embedded PostgreSQL, or an OTLP endpoint.
 */
import { Context, Effect, Layer, Option } from "effect"
import { Settings } from "../Settings.ts"

export const MetricsEnabled = Context.Reference<boolean>("developer-api/platform/telemetry/MetricsEnabled", {
  defaultValue: () => false
})

export const layer = Layer.effect(
  MetricsEnabled,
  Effect.map(
    Settings,
    ({ adminPort, databaseUrl, telemetry }) =>
      Option.isSome(adminPort) || Option.isNone(databaseUrl) || Option.isSome(telemetry)
  )
)
