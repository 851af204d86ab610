/** Resolves the channels of a file: members that a file may omit from a config keep the stored values. */
import { Effect, Equal, Result } from "effect"
import type { SqlClient } from "effect/sql"
import type { ChannelId } from "../../api/Ids.ts"
import type { ProviderType } from "../../api/messaging/Messaging.ts"
import { type ChannelConfig, telegramApi } from "../../messaging/Connectors/Config.ts"
import { openConfig, sealConfig } from "../../messaging/Connectors/Sealed.ts"
import type { Fault } from "../../api/Faults.ts"
import type { SecretBox } from "../../platform/SecretBox.ts"
import type { ProjectFile } from "../ProjectFile.ts"

type Sql = SqlClient.SqlClient
type Given = NonNullable<ProjectFile["channels"]>[number]

interface Old {
  readonly id: ChannelId
  readonly providerType: ProviderType
  readonly config: Uint8Array
}

/** The reasons why no stored config can be kept. */
const isNew = "is required for a new channel"
const isOther = "is required when the providerType changes"
const isUnreadable =
  "is required, as this SECRET_KEY can't open the one that is stored: give it anew, or set the key that sealed it"
type Had = Result.Result<ChannelConfig, string>

/** Returns each channel with its sealed config, and the faults of the others. */
export const resolve = Effect.fnUntraced(function* (
  sql: Sql,
  box: SecretBox["Service"],
  { channels = [], project }: ProjectFile
) {
  if (channels.length === 0) return { records: [], faults: [] }
  const rows = yield* sql<Old>`
    SELECT id, provider_type AS "providerType", config FROM channels
    WHERE project_id = ${project.id} AND id = ANY(${channels.map(({ id }) => id)}::text[])`
  const olds = new Map(rows.map((row) => [row.id, row]))

  const hadBy = Effect.fnUntraced(function* ({ id, providerType }: Given): Effect.fn.Return<Had> {
    const old = olds.get(id)
    if (old === undefined) return Result.fail(isNew)
    if (old.providerType !== providerType) return Result.fail(isOther)
    const opened = openConfig(box, project.id, id, providerType, old.config)
    return yield* Effect.result(Effect.mapError(opened, () => isUnreadable))
  })

  const resolveOne = Effect.fnUntraced(function* (given: Given, index: number) {
    const had = yield* hadBy(given)
    const next = yield* Effect.fromResult(configOf(given, had)).pipe(
      Effect.mapError(({ message, path }): Fault => ({ path: ["channels", index, ...path], message }))
    )
    const old = olds.get(given.id)
    // Sealing is randomized: sealing an equal config again would count as a change.
    const isSame = old !== undefined && Result.isSuccess(had) && Equal.equals(had.success, next)
    const sealed = isSame ? old.config : yield* sealConfig(box, project.id, given.id, next)
    return { ...given, config: `\\x${Buffer.from(sealed).toString("hex")}` }
  })
  const [records, faults] = yield* Effect.partition(channels, resolveOne)
  return { records, faults }
})

/** Returns the config of a channel: the members of the file, then those that are stored, then the defaults. */
const configOf = (given: Given, had: Had): Result.Result<ChannelConfig, Fault> => {
  // The config of a sandbox is always empty.
  if (given.providerType === "sandbox") return Result.succeed({ providerType: "sandbox", config: {} })
  if (given.config === undefined) return Result.mapError(had, (message) => ({ path: ["config"], message }))
  if (given.providerType === "http") return Result.succeed({ providerType: "http", config: given.config })

  // The stored base URL cannot be read, and the default may be wrong.
  if (given.config.apiBaseUrl === undefined && Result.isFailure(had) && had.failure === isUnreadable) {
    return Result.fail({ path: ["config", "apiBaseUrl"], message: isUnreadable })
  }
  const old = Result.getOrUndefined(had)
  const kept = old?.providerType === "telegram" ? old.config.apiBaseUrl : undefined
  return Result.succeed({
    providerType: "telegram",
    config: { apiBaseUrl: kept ?? telegramApi, ...given.config }
  })
}
