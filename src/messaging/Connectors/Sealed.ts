/** Channels' configs at rest: sealed whole, each for its own channel, so that another's can't be put in its place. */
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

const encode = Schema.encodeEffect(ChannelConfig)
const decode = Schema.decodeUnknownEffect(ChannelConfig)
const parse = Schema.decodeEffect(Schema.fromJsonString(Schema.Unknown))

/** Seals the config of a channel. The same config is sealed differently each time. */
export const sealConfig = (box: Box, projectId: ProjectId, channelId: ChannelId, channel: ChannelConfig) =>
  encode(channel).pipe(
    Effect.orDie,
    Effect.flatMap(({ config }) => box.seal(ownerOf(projectId, channelId), Redacted.make(JSON.stringify(config))))
  )

/**
 * Opens the config of a channel of this type. What is no config of that type counts as unreadable, too: what the schema
 * says of it could quote a secret.
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

/** The channels, of at most `limit`, whose config can't be opened with this key. */
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
