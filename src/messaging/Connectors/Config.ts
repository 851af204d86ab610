/** The connectors, and the channels that they make possible. A new connector is one line in each of the three lists. */
import { Schema } from "effect"
import { http } from "./Http.ts"
import { sandbox } from "./Sandbox.ts"
import { telegram } from "./Telegram.ts"

/** The connectors by type of provider. */
export const connectors = { http, telegram, sandbox }

/** The decoded config of each provider. */
export type Configs = { readonly [Type in keyof typeof connectors]: (typeof connectors)[Type]["config"]["Type"] }

/** A type of provider with its config. */
export const ChannelConfig = Schema.Union([
  Schema.Struct({ providerType: Schema.Literal("http"), config: http.config }),
  Schema.Struct({ providerType: Schema.Literal("telegram"), config: telegram.config }),
  Schema.Struct({ providerType: Schema.Literal("sandbox"), config: sandbox.config })
])
export type ChannelConfig = typeof ChannelConfig.Type

/** A channel of a project file: other fields, the type of the provider, and optionally its config. */
export const channelsWith = <Fields extends Schema.Struct.Fields>(fields: Fields) =>
  Schema.Union([
    Schema.Struct({ ...fields, providerType: Schema.Literal("http"), config: Schema.optionalKey(http.config) }),
    Schema.Struct({ ...fields, providerType: Schema.Literal("telegram"), config: Schema.optionalKey(telegram.config) }),
    Schema.Struct({ ...fields, providerType: Schema.Literal("sandbox"), config: Schema.optionalKey(sandbox.config) })
  ])
