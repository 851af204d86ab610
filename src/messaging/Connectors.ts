/** Connectors send texts over channels, one connector for each type of provider (contract §8). */
import { Context, type Duration, Effect, Layer } from "effect"
import type { ProviderType } from "../api/messaging/Messaging.ts"
import { Settings } from "../platform/Settings.ts"
import { type ChannelConfig, type Configs, connectors } from "./Connectors/Config.ts"
import type { Outcome, Outgoing } from "./Connectors/Connector.ts"

export type { Outcome, Outgoing } from "./Connectors/Connector.ts"

export class Connectors extends Context.Service<
  Connectors,
  {
    /** Whether a provider's sends are idempotent. */
    readonly isIdempotent: (providerType: ProviderType) => boolean
    /** Calls the channel's provider once, with its connector. */
    readonly send: (channel: ChannelConfig, message: Outgoing) => Effect.Effect<Outcome>
  }
>()("developer-api/messaging/Connectors") {
  static readonly layer = Layer.effect(
    Connectors,
    Effect.map(Settings, ({ providerTimeout }) => ({
      isIdempotent: (providerType) => table[providerType].idempotent,
      send: (channel, message) => send(channel, message, providerTimeout)
    }))
  )
}

/** The compiler reports a type of provider without a connector. */
const table: {
  readonly [Type in ProviderType]: {
    readonly idempotent: boolean
    readonly send: (config: Configs[Type], message: Outgoing, timeout: Duration.Duration) => Effect.Effect<Outcome>
  }
} = connectors

const send = <Type extends ProviderType>(
  { config, providerType }: { readonly providerType: Type; readonly config: Configs[Type] },
  message: Outgoing,
  timeout: Duration.Duration
) => table[providerType].send(config, message, timeout)
