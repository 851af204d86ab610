/** Resolves the channels of a file: config members that the file omits keep the stored values. */
import { Effect, Equal, Predicate, Record, Result } from "effect"
import type { SqlClient as Sql } from "effect/sql/SqlClient"
import type { ChannelId } from "../../api/schema/Ids.ts"
import type { ProviderType } from "../../api/messaging/Messaging.ts"
import { type ChannelConfig, connectors, openConfig, sealConfig } from "../../messaging/providers/Connectors.ts"
import type { Fault } from "../../api/schema/Faults.ts"
import type { SecretBox } from "../../secrets/SecretBox.ts"
import type { ProjectFile } from "../ProjectFile.ts"

type Given = NonNullable<ProjectFile["channels"]>[number]

interface Old {
  readonly id: ChannelId
  readonly providerType: ProviderType
  readonly config: Uint8Array
  readonly providerVersion: number
}

/** Why a channel must have a config in the file. */
const isNew = "is required for a new channel"
const isOther = "is required when the providerType changes"
const isUnreadable =
  "is required, as this SECRET_KEY can't open the one that is stored: give it anew, or set the key that sealed it"
type Stored = Result.Result<ChannelConfig, string>

/** Returns the valid channels with their sealed configs, and the faults of the other channels. */
export const resolve = Effect.fnUntraced(function* (
  sql: Sql,
  box: SecretBox["Service"],
  { channels = [], project }: ProjectFile
) {
  if (channels.length === 0) return { records: [], faults: [] }
  // Locked, so that an unchanged config does not overwrite a config that `secrets reseal` writes meanwhile.
  const rows = yield* sql<Old>`
    SELECT id, provider_type AS "providerType", provider_version AS "providerVersion", config FROM channels
    WHERE project_id = ${project.id} AND id = ANY(${channels.map(({ id }) => id)}::text[])
    ORDER BY id FOR NO KEY UPDATE`
  const olds = new Map(rows.map((row) => [row.id, row]))

  const storedOf = Effect.fnUntraced(function* ({ id, providerType }: Given): Effect.fn.Return<Stored> {
    const old = olds.get(id)
    if (old === undefined) return Result.fail(isNew)
    if (old.providerType !== providerType) return Result.fail(isOther)
    const opened = openConfig(box, { ...old, projectId: project.id, channelId: id })
    return yield* Effect.result(Effect.mapError(opened, () => isUnreadable))
  })

  const resolveOne = Effect.fnUntraced(function* (given: Given, index: number) {
    const stored = yield* storedOf(given)
    const next = yield* Effect.fromResult(configOf(given, stored)).pipe(
      Effect.mapError(({ message, path }): Fault => ({ path: ["channels", index, ...path], message }))
    )
    const old = olds.get(given.id)
    // Sealing is randomized, so sealing an equal config again would count as a change.
    const isSame = old !== undefined && Result.isSuccess(stored) && Equal.equals(stored.success.config, next)
    const sealed = isSame
      ? old.config
      : yield* sealConfig(box, project.id, given.id, { providerType: given.providerType, config: next })
    const isSameProvider = Result.isSuccess(stored) && addressOf(stored.success.config) === addressOf(next)
    const providerVersion = (old?.providerVersion ?? 0) + (isSameProvider ? 0 : 1)
    return { ...given, config: `\\x${Buffer.from(sealed).toString("hex")}`, providerVersion }
  })
  const [records, faults] = yield* Effect.partition(channels, resolveOne)
  return { records, faults }
})

/**
 * The address of a provider that recognises the keys of earlier sends; undefined for providers without keys, or without an
 * address.
 */
const addressOf = (config: unknown) => (Predicate.hasProperty(config, "url") ? config.url : undefined)

/** Returns the config of a channel. For each member, the file comes first, then the stored config, then the default. */
const configOf = (given: Given, stored: Stored): Result.Result<unknown, Fault> => {
  const { defaults } = connectors[given.providerType]
  // The config of a sandbox has no members, so the file may omit it.
  const config = given.config ?? (given.providerType === "sandbox" ? {} : undefined)
  if (config === undefined) {
    return Result.mapBoth(stored, {
      onSuccess: (channel) => channel.config,
      onFailure: (message) => ({ path: ["config"], message })
    })
  }
  const old: object = Result.isSuccess(stored) ? stored.success.config : {}
  const omitted = Object.keys(defaults).find((member) => !(member in config))
  // The default does not replace a stored value that cannot be read, because the two may differ.
  if (omitted !== undefined && Result.isFailure(stored) && stored.failure === isUnreadable) {
    return Result.fail({ path: ["config", omitted], message: isUnreadable })
  }
  return Result.succeed({ ...defaults, ...Record.filter({ ...old }, (_, member) => member in defaults), ...config })
}
