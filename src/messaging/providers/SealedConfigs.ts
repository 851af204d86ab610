/** Encryption of stored channel configs. A config is bound to its channel: it cannot be opened for another channel. */
import { Effect, Redacted, Schema } from "effect"
import type { ChannelId, ProjectId } from "../../api/schema/Ids.ts"
import type { ProviderType } from "../../api/messaging/Messaging.ts"
import { type SecretBox, SecretUnreadable } from "../../secrets/SecretBox.ts"
import { sealedColumn } from "../../secrets/SealedValues.ts"
import { ChannelConfig } from "./Connectors.ts"

type Box = SecretBox["Service"]

export interface SealedChannel {
  readonly projectId: ProjectId
  readonly channelId: ChannelId
  readonly providerType: ProviderType
  readonly config: Uint8Array
}

const kind = "channel"
const ownerOf = (projectId: ProjectId, channelId: ChannelId) => [kind, projectId, channelId]

const encode = Schema.encodeUnknownEffect(ChannelConfig)
const decode = Schema.decodeUnknownEffect(ChannelConfig)
const parse = Schema.decodeEffect(Schema.fromJsonString(Schema.Unknown))

/** Seals the config of a channel. Sealing is randomized: equal configs have different ciphertexts. */
export const sealConfig = (
  box: Box,
  projectId: ProjectId,
  channelId: ChannelId,
  channel: { readonly providerType: ProviderType; readonly config: unknown }
) =>
  encode(channel).pipe(
    Effect.orDie,
    Effect.flatMap(({ config }) => box.seal(ownerOf(projectId, channelId), Redacted.make(JSON.stringify(config))))
  )

/**
 * Opens the config of a channel. A config that does not fit its schema counts as unreadable, because the error of the schema
 * could quote a secret.
 */
export const openConfig = (
  box: Box,
  { channelId, config, projectId, providerType }: SealedChannel
): Effect.Effect<ChannelConfig, SecretUnreadable> =>
  box.open(ownerOf(projectId, channelId), config).pipe(
    Effect.flatMap((json) => parse(Redacted.value(json))),
    Effect.flatMap((config) => decode({ providerType, config })),
    Effect.mapError(() => new SecretUnreadable())
  )

/** The configs of channels, for commands and checks that read all sealed values of the database, such as `secrets reseal`. */
export const channelConfigs = sealedColumn(kind, { table: "channels", id: "id", column: "config", isOptional: false })
