/**
 * Whether metrics are recorded. They need an OTLP endpoint or an admin server. With the embedded PostgreSQL, an admin server
 * always runs.
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
