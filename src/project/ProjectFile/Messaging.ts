/** The channels and conversations of a project file. */
import { Schema } from "effect"
import { text } from "../../api/Fields.ts"
import { ChannelId, ClientId, ConversationId } from "../../api/Ids.ts"
import { ChannelStatus, type ProviderType } from "../../api/messaging/Messaging.ts"
import { configs } from "../../messaging/Connectors/Config.ts"
import { name, optional } from "./Parts.ts"

const channel = <Provider extends ProviderType, Config extends Schema.Top>(provider: Provider, config: Config) =>
  Schema.Struct({
    id: ChannelId,
    providerType: Schema.Literal(provider),
    displayName: name,
    status: optional(ChannelStatus, "active"),
    config: optional(config)
  })

/** A channel with the config of its connector, which `providerType` selects (contract §8). */
export const Channel = Schema.Union([
  channel("http", configs.http),
  channel("telegram", configs.telegram),
  channel("sandbox", configs.sandbox)
]).annotate({ expected: "a channel whose providerType is http, telegram or sandbox" })

export const Conversation = Schema.Struct({
  id: ConversationId,
  clientId: optional(Schema.NullOr(ClientId)),
  channelId: ChannelId,
  address: text(1, 500)
})
