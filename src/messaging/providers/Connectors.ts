/**
 * Connectors send texts over channels. Each type of provider has one connector (contract §8). A new connector needs one line
 * each in `connectors`, `ChannelConfig` and `channelsWith`.
 */
import { type Duration, Effect, Schema } from "effect"
import { type ProviderType, providerTypes } from "../../api/messaging/Messaging.ts"
import { connector, type Outgoing } from "./Connectors/Connector.ts"
import { http } from "./Connectors/Http.ts"
import { telegram } from "./Connectors/Telegram.ts"
import type { Outcome } from "./Outcomes.ts"

/** The connector for trials. It accepts every message without sending it. */
const sandbox = connector({
  // An empty Struct would accept any value but null.
  config: Schema.Record(Schema.String, Schema.Never.annotate({ message: "is not known here" })),
  defaults: {},
  idempotent: true,
  send: (_, { messageId }) => Effect.succeed({ _tag: "accepted", providerMessageId: `sandbox_${messageId}` })
})

export const connectors = { http, telegram, sandbox }

type Configs = { readonly [Type in keyof typeof connectors]: (typeof connectors)[Type]["config"]["Type"] }

export const ChannelConfig = Schema.Union([
  Schema.Struct({ providerType: Schema.Literal("http"), config: http.config }),
  Schema.Struct({ providerType: Schema.Literal("telegram"), config: telegram.config }),
  Schema.Struct({ providerType: Schema.Literal("sandbox"), config: sandbox.config })
])
export type ChannelConfig = typeof ChannelConfig.Type

/** Schema of a channel in a project file: `fields`, the provider type, and an optional config. */
export const channelsWith = <Fields extends Schema.Struct.Fields>(fields: Fields) =>
  Schema.Union([
    Schema.Struct({ ...fields, providerType: Schema.Literal("http"), config: Schema.optionalKey(http.config) }),
    Schema.Struct({ ...fields, providerType: Schema.Literal("telegram"), config: Schema.optionalKey(telegram.config) }),
    Schema.Struct({ ...fields, providerType: Schema.Literal("sandbox"), config: Schema.optionalKey(sandbox.config) })
  ])

/** The mapped type makes the compiler report provider types without a connector. */
const table: {
  readonly [Type in ProviderType]: {
    readonly idempotent: boolean
    readonly send: (config: Configs[Type], message: Outgoing, timeout: Duration.Duration) => Effect.Effect<Outcome>
  }
} = connectors

/** Whether a repeated send has no second effect, because the provider takes an idempotency key. */
export const isIdempotent = (providerType: ProviderType): boolean => table[providerType].idempotent

export const idempotentTypes: ReadonlyArray<ProviderType> = providerTypes.filter(isIdempotent)

/** Calls the provider of the channel once. Never fails, and ends within `timeout`. */
export const send = <Type extends ProviderType>(
  { config, providerType }: { readonly providerType: Type; readonly config: Configs[Type] },
  message: Outgoing,
  timeout: Duration.Duration
) => table[providerType].send(config, message, timeout)
