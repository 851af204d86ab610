/** Whether anything reads metrics (`ADMIN_PORT`, or a telemetry endpoint): for nobody nothing is measured. */
import { Context, Effect, Layer, Option } from "effect"
import { Settings } from "./Settings.ts"

export const Measured = Context.Reference<boolean>("developer-api/platform/Measured", { defaultValue: () => false })

export const layer = Layer.effect(
  Measured,
  Effect.map(Settings, ({ adminPort, telemetry }) => Option.isSome(adminPort) || Option.isSome(telemetry))
)
