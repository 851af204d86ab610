/** Calls the providers of channels. A sealed config is opened only for the call that needs it. */
import { Context, Effect, Layer, Option } from "effect"
import { Settings } from "../../platform/Settings.ts"
import { SecretBox } from "../../secrets/SecretBox.ts"
import { send } from "./Connectors.ts"
import type { Outgoing } from "./Connectors/Connector.ts"
import { byFailure, type Outcome } from "./Outcomes.ts"
import { openConfig, type SealedChannel } from "./SealedConfigs.ts"

export class Providers extends Context.Service<
  Providers,
  {
    /** Calls the channel's provider once, within `PROVIDER_TIMEOUT`. Never fails. */
    readonly send: (channel: SealedChannel, message: Outgoing) => Effect.Effect<Outcome>
  }
>()("developer-api/messaging/providers/Providers") {
  static readonly layer = Layer.effect(
    Providers,
    Effect.gen(function* () {
      const box = yield* SecretBox
      const { providerTimeout } = yield* Settings
      return {
        send: (channel, message) =>
          openConfig(box, channel).pipe(
            Effect.flatMap((opened) => send(opened, message, providerTimeout)),
            Effect.catchTag("SecretUnreadable", () =>
              Effect.as(
                Effect.logError(
                  `The config of channel ${channel.projectId}/${channel.channelId} can't be opened with the keys of this process: nothing is sent over the channel`
                ),
                byFailure("config_unreadable")
              )
            ),
            Effect.catchDefect((defect) =>
              Effect.as(Effect.logError("A call of a provider failed", defect), outcomes.internal)
            )
          )
      }
    })
  )
}

/** Outcomes with a cause in this service, not in an answer of the provider or a failed connection. */
export const outcomes = {
  /** The process ended before the call. */
  notCalled: { _tag: "postponed", errorCode: "interrupted", retryAfter: Option.none() },
  circuitOpen: { _tag: "postponed", errorCode: "circuit_open", retryAfter: Option.none() },
  internal: { _tag: "unknown", errorCode: "internal" },
  interrupted: { _tag: "unknown", errorCode: "interrupted" },
  leaseLost: { _tag: "unknown", errorCode: "lease_lost" }
} as const satisfies Record<string, Outcome>
