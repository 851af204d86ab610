/**
 * Whether metrics are recorded. They are if an admin server runs (always with the embedded PostgreSQL) or if an OTLP endpoint is
 * set.
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
