/** Whether metrics are recorded: only with `ADMIN_PORT` or a telemetry endpoint. */
import { Context, Effect, Layer, Option } from "effect"
import { Settings } from "./Settings.ts"

export const MetricsEnabled = Context.Reference<boolean>("developer-api/platform/MetricsEnabled", {
  defaultValue: () => false
})

export const layer = Layer.effect(
  MetricsEnabled,
  Effect.map(Settings, ({ adminPort, telemetry }) => Option.isSome(adminPort) || Option.isSome(telemetry))
)
