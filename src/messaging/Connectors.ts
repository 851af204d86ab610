/** Connectors send texts over channels, one connector for each type of provider (contract §8). */
import { Context, type Duration, Effect, Layer, type Option } from "effect"
import type { ProviderType } from "../api/messaging/Messaging.ts"
import type { ConversationId, MessageId } from "../api/Ids.ts"
import { Settings } from "../platform/Settings.ts"
import type { ChannelConfig, Configs } from "./Connectors/Config.ts"
import { http } from "./Connectors/Http.ts"
import { sandbox } from "./Connectors/Sandbox.ts"
import { telegram } from "./Connectors/Telegram.ts"

/** A text and its recipient. */
export interface Outgoing {
  /** The idempotency key of providers with idempotent sends. */
  readonly messageId: MessageId
  /** Null for a message of a campaign. */
  readonly conversationId: ConversationId | null
  readonly recipient: string
  readonly text: string
}

/** The outcome of one provider call. Error codes are stable and stored with the attempt. */
export type Outcome =
  | { readonly _tag: "accepted"; readonly providerMessageId: string }
  | { readonly _tag: "refused"; readonly errorCode: string }
  /** Certainly not processed. A retry is possible, no earlier than `retryAfter`. */
  | { readonly _tag: "postponed"; readonly errorCode: string; readonly retryAfter: Option.Option<Duration.Duration> }
  /** Possibly processed. */
  | { readonly _tag: "unknown"; readonly errorCode: string }

/** The protocol of one type of provider. */
export interface Connector<Config> {
  /** Whether a repeated send with the same message id has no second effect. */
  readonly idempotent: boolean
  /** Calls the provider once. Never fails, and ends within `PROVIDER_TIMEOUT`. */
  readonly send: (config: Config, message: Outgoing) => Effect.Effect<Outcome>
}

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
    Effect.map(Settings, ({ providerTimeout }) => {
      const connectors: Table = { http: http(providerTimeout), telegram: telegram(providerTimeout), sandbox }
      return {
        isIdempotent: (providerType) => connectors[providerType].idempotent,
        send: (channel, message) => send(connectors, channel, message)
      }
    })
  )
}

type Table = { readonly [Type in ProviderType]: Connector<Configs[Type]> }

const send = <Type extends ProviderType>(
  connectors: Table,
  { config, providerType }: { readonly providerType: Type; readonly config: Configs[Type] },
  message: Outgoing
) => connectors[providerType].send(config, message)
