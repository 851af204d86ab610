/** The channels and conversations of a project file. */
import { Schema } from "effect"
import { text } from "../../api/schema/Fields.ts"
import { ChannelId, ClientId, ConversationId } from "../../api/schema/Ids.ts"
import { ChannelStatus, providerTypes } from "../../api/messaging/Messaging.ts"
import { channelsWith } from "../../messaging/providers/Connectors.ts"
import { isVisible, name, optional } from "./Parts.ts"

const listed = (names: ReadonlyArray<string>) => `${names.slice(0, -1).join(", ")} or ${names.at(-1)}`

/** A channel. Its `providerType` selects the connector, and so the schema of its config (contract §8). */
export const Channel = channelsWith({
  id: ChannelId.check(isVisible),
  displayName: name,
  status: optional(ChannelStatus, "active")
}).annotate({ expected: `a channel whose providerType is ${listed(providerTypes)}` })

export const Conversation = Schema.Struct({
  id: ConversationId,
  clientId: optional(Schema.NullOr(ClientId)),
  channelId: ChannelId,
  address: text(1, 500)
})
