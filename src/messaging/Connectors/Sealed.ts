/** Encryption of channel configs at rest. Each is bound to its channel, so that it cannot be used for another. */
import { Effect, Redacted, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import type { ChannelId, ProjectId } from "../../api/Ids.ts"
import type { ProviderType } from "../../api/messaging/Messaging.ts"
import { type SecretBox, SecretUnreadable } from "../../platform/SecretBox.ts"
import { ChannelConfig } from "./Config.ts"

type Box = SecretBox["Service"]

/** A channel as it is stored. */
export interface SealedChannel {
  readonly projectId: ProjectId
  readonly channelId: ChannelId
  readonly providerType: ProviderType
  readonly config: Uint8Array
}

const ownerOf = (projectId: ProjectId, channelId: ChannelId) => ["channel", projectId, channelId]

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
 * Opens the config of a channel. A config that its schema cannot decode also counts as unreadable, as the schema's
 * message could quote a secret.
 */
export const openConfig = (
  box: Box,
  projectId: ProjectId,
  channelId: ChannelId,
  providerType: ProviderType,
  sealed: Uint8Array
): Effect.Effect<ChannelConfig, SecretUnreadable> =>
  box.open(ownerOf(projectId, channelId), sealed).pipe(
    Effect.flatMap((json) => parse(Redacted.value(json))),
    Effect.flatMap((config) => decode({ providerType, config })),
    Effect.mapError(() => new SecretUnreadable())
  )

/** Returns the channels, among at most `limit`, whose config cannot be opened with the current key. */
export const unreadable = Effect.fn("Channels.unreadable")(function* (
  sql: SqlClient.SqlClient,
  box: Box,
  limit: number
) {
  const channels = yield* sql<SealedChannel>`
    SELECT project_id AS "projectId", id AS "channelId", provider_type AS "providerType", config
    FROM channels LIMIT ${limit}::int`
  const fails = ({ channelId, config, projectId, providerType }: SealedChannel) =>
    Effect.isFailure(openConfig(box, projectId, channelId, providerType, config))
  return (yield* Effect.filter(channels, fails)).map(({ channelId, projectId }) => `${projectId}/${channelId}`)
})
