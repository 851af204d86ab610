/** Channels at rest: what a connector needs to know of one, sealed whole. */
import { Effect, Redacted, Schema } from "effect"
import type { ChannelId, ProjectId } from "../api/Ids.ts"
import type { ProviderType } from "../api/messaging/Messaging.ts"
import { SecretUnreadable, type SecretBox } from "../platform/SecretBox.ts"
import { ChannelConfig } from "./Connectors/Config.ts"

const decode = Schema.decodeUnknownEffect(ChannelConfig)

export const openConfig = Effect.fnUntraced(function* (
  box: SecretBox["Service"],
  projectId: ProjectId,
  channelId: ChannelId,
  providerType: ProviderType,
  sealed: Uint8Array
): Effect.fn.Return<ChannelConfig, SecretUnreadable> {
  const text = Redacted.value(yield* box.open(["channel", projectId, channelId], sealed))
  return yield* Effect.mapError(decode({ providerType, config: JSON.parse(text) }), () => new SecretUnreadable())
})
