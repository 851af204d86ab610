/**
 * Connectors send texts over channels. Each type of provider has one connector (contract §8). A new connector needs one line
 * each in `connectors`, `ChannelConfig` and `channelsWith`. The config of a channel is sealed, and opened only for the call that needs it.
 */
import { type Duration, Effect, Option, Redacted, Schema } from "effect"
import { type ProviderType, providerTypes } from "../../api/messaging/Messaging.ts"
import { byFailure, connector, type CallOutcome, type Outgoing } from "./Connector.ts"
import { http } from "./Connectors/Http.ts"
import { telegram } from "./Connectors/Telegram.ts"
import { Settings } from "../../platform/Settings.ts"
import { SecretBox, SecretUnreadable } from "../../secrets/SecretBox.ts"
import type { ChannelId, ProjectId } from "../../api/schema/Ids.ts"
import { sealedColumn } from "../../secrets/SealedValues.ts"

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

/** The compiler reports a type of provider that is missing here or in `channelsWith`. */
type ByType = Readonly<Record<ProviderType, Schema.Top>>

export const ChannelConfig = Schema.Union(
  Object.values({
    http: Schema.Struct({ providerType: Schema.Literal("http"), config: http.config }),
    telegram: Schema.Struct({ providerType: Schema.Literal("telegram"), config: telegram.config }),
    sandbox: Schema.Struct({ providerType: Schema.Literal("sandbox"), config: sandbox.config })
  } satisfies ByType)
)
export type ChannelConfig = typeof ChannelConfig.Type

/** Schema of a channel in a project file: `fields`, the provider type, and an optional config. */
export const channelsWith = <Fields extends Schema.Struct.Fields>(fields: Fields) =>
  Schema.Union(
    Object.values({
      http: Schema.Struct({ ...fields, providerType: Schema.Literal("http"), config: Schema.optionalKey(http.config) }),
      telegram: Schema.Struct({
        ...fields,
        providerType: Schema.Literal("telegram"),
        config: Schema.optionalKey(telegram.config)
      }),
      sandbox: Schema.Struct({
        ...fields,
        providerType: Schema.Literal("sandbox"),
        config: Schema.optionalKey(sandbox.config)
      })
    } satisfies ByType)
  )

/** The mapped type makes the compiler report provider types without a connector. */
const table: {
  readonly [Type in ProviderType]: {
    readonly idempotent: boolean
    readonly send: (config: Configs[Type], message: Outgoing, timeout: Duration.Duration) => Effect.Effect<CallOutcome>
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

/** Makes a function that calls the channel's provider once, within `PROVIDER_TIMEOUT`. It never fails. */
export const makeCall = Effect.gen(function* () {
  const box = yield* SecretBox
  const { providerTimeout } = yield* Settings
  return (channel: SealedChannel, message: Outgoing): Effect.Effect<CallOutcome> =>
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
})

/** Outcomes with a cause in this service, not in an answer of the provider or a failed connection. */
export const outcomes = {
  /** The process ended before the call. */
  notCalled: { _tag: "postponed", errorCode: "interrupted", retryAfter: Option.none() },
  circuitOpen: { _tag: "postponed", errorCode: "circuit_open", retryAfter: Option.none() },
  internal: { _tag: "unknown", errorCode: "internal" },
  interrupted: { _tag: "unknown", errorCode: "interrupted" },
  leaseLost: { _tag: "unknown", errorCode: "lease_lost" }
} as const satisfies Record<string, CallOutcome>

type Box = SecretBox["Service"]

interface SealedChannel {
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
