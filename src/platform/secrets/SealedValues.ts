/** Counts the sealed (encrypted) secrets of the database by key, and seals them again under the current key. */
import { Effect, Option, Stream } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { type Opened, SecretBox, type SecretUnreadable } from "./SecretBox.ts"

/** A position in a table that is ordered by project, id and version. */
interface Place {
  readonly projectId: string
  readonly id: string
  readonly version: number
}

/** A sealed secret of a row. The owner of the secret (see `SecretBox`) is the kind of the table, the project and the id. */
export interface SealedValue extends Place {
  readonly sealed: Uint8Array
}

/** The current (`sealed`) and the new (`next`) sealed values of rows. Each array has one entry for each row. */
interface Replacements {
  readonly projectIds: ReadonlyArray<string>
  readonly ids: ReadonlyArray<string>
  readonly versions: ReadonlyArray<number>
  readonly sealed: ReadonlyArray<Uint8Array>
  readonly next: ReadonlyArray<Uint8Array>
}

type Query<A> = Effect.Effect<A, SqlError.SqlError>

export interface SealedTable {
  /** The kind of the table's records, which is part of the owner of each secret (see `SecretBox`). */
  readonly kind: string
  /** Returns up to `limit` values after a place, in order. Leaves out retired secrets, which are never opened again. */
  readonly page: (sql: SqlClient.SqlClient, after: Place, limit: number) => Query<ReadonlyArray<SealedValue>>
  /**
   * Replaces the values that have not changed since they were read, and returns their number. Does not replace the values of a
   * project that another database serves: the replication would overwrite the values in that database.
   */
  readonly replace: (sql: SqlClient.SqlClient, replacements: Replacements) => Query<number>
}

interface KeyCounts {
  /** The number of values of each key, in the order of `SecretBox.keyIds`. */
  readonly byKey: ReadonlyArray<number>
  /** The values that no key opens, each as `kind project/id`. */
  readonly unreadable: ReadonlyArray<string>
}

const batch = 500

const first: Place = { projectId: "", id: "", version: -1 }

const pages = (sql: SqlClient.SqlClient, { page }: SealedTable) =>
  Stream.paginate(first, (after: Place) =>
    Effect.map(page(sql, after, batch), (values) => {
      const last = values.at(-1)
      return [[values], values.length < batch ? Option.none() : Option.fromUndefinedOr(last)] as const
    })
  )

const examine = (
  box: SecretBox["Service"],
  { kind }: SealedTable,
  { id, projectId, sealed }: SealedValue
): Effect.Effect<Opened, SecretUnreadable> => box.examine([kind, projectId, id], sealed)

export const countByKey = Effect.fn("SealedValues.countByKey")(function* (tables: ReadonlyArray<SealedTable>) {
  const sql = yield* SqlClient.SqlClient
  const box = yield* SecretBox
  const byKey = box.keyIds.map(() => 0)
  const unreadable: Array<string> = []
  for (const table of tables) {
    yield* Stream.runForEach(Stream.flattenIterable(pages(sql, table)), (value) =>
      Effect.match(examine(box, table, value), {
        onSuccess: ({ key }) => void (byKey[key] = (byKey[key] ?? 0) + 1),
        onFailure: () => void unreadable.push(`${table.kind} ${value.projectId}/${value.id}`)
      })
    )
  }
  return { byKey, unreadable } satisfies KeyCounts
})

/** Returns the number of values if no key opens any of them, otherwise 0. Stops at the first value that opens. */
export const unreadableAll = Effect.fn("SealedValues.unreadableAll")(function* (tables: ReadonlyArray<SealedTable>) {
  const sql = yield* SqlClient.SqlClient
  const box = yield* SecretBox
  let unreadable = 0
  for (const table of tables) {
    const opened = yield* Stream.flattenIterable(pages(sql, table)).pipe(
      Stream.mapEffect((value) => Effect.isSuccess(examine(box, table, value))),
      Stream.tap(() => Effect.sync(() => unreadable++)),
      Stream.filter((opens) => opens),
      Stream.runHead
    )
    if (Option.isSome(opened)) return 0
  }
  return unreadable
})

const resealValue = Effect.fnUntraced(function* (box: SecretBox["Service"], table: SealedTable, value: SealedValue) {
  const { identified, key, secret } = yield* examine(box, table, value)
  if (key === 0 && identified) return undefined
  return { ...value, next: yield* box.seal([table.kind, value.projectId, value.id], secret) }
})

/**
 * Reseals the values of the tables under the current key, each batch in a separate statement. Skips a value that is changed
 * concurrently, because the change seals it under the current key. Returns the number of resealed values, and the values that
 * no key opens.
 */
export const reseal = Effect.fn("SealedValues.reseal")(function* (tables: ReadonlyArray<SealedTable>) {
  const sql = yield* SqlClient.SqlClient
  const box = yield* SecretBox
  const failed: Array<string> = []
  let count = 0
  for (const table of tables) {
    yield* Stream.runForEach(pages(sql, table), (values) =>
      Effect.gen(function* () {
        const [results, unreadable] = yield* Effect.partition(values, (value) =>
          Effect.mapError(resealValue(box, table, value), () => `${table.kind} ${value.projectId}/${value.id}`)
        )
        failed.push(...unreadable)
        const changes = results.filter((change) => change !== undefined)
        if (changes.length > 0) count += yield* table.replace(sql, columnsOf(changes))
      })
    )
  }
  return { resealed: count, failed }
})

const columnsOf = (changes: ReadonlyArray<SealedValue & { readonly next: Uint8Array }>): Replacements => ({
  projectIds: changes.map(({ projectId }) => projectId),
  ids: changes.map(({ id }) => id),
  versions: changes.map(({ version }) => version),
  sealed: changes.map(({ sealed }) => sealed),
  next: changes.map(({ next }) => next)
})
