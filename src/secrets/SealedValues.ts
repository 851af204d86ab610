/** Opens the sealed (encrypted) secrets of the database, and seals them again under the current key. */
import { Array, Effect, Option, Stream } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { livesHere } from "../platform/MoveState.ts"
import { SecretBox } from "./SecretBox.ts"

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

interface SealedColumn {
  readonly table: string
  readonly id: string
  readonly column: string
  readonly isOptional: boolean
}

/** The values of a column that belong to the records of a table. */
export const sealedColumn = (kind: string, { isOptional, ...names }: SealedColumn): SealedTable => ({
  kind,
  page: (sql, after, limit) => {
    const [table, id, column] = [sql(names.table), sql(names.id), sql(names.column)]
    return sql<SealedValue>`
      SELECT project_id AS "projectId", ${id} AS id, 0 AS version, ${column} AS sealed
      FROM ${table}
      WHERE (project_id, ${id}) > (${after.projectId}, ${after.id}) ${isOptional ? sql`AND ${column} IS NOT NULL` : sql``}
      ORDER BY project_id, ${id} LIMIT ${limit}::int`
  },
  // Locks the records by project and id, as the other statements that lock several of them do, so no deadlock occurs.
  replace: (sql, { ids, next, projectIds, sealed }) => {
    const [table, id, column] = [sql(names.table), sql(names.id), sql(names.column)]
    return Effect.map(
      sql`
        WITH change AS MATERIALIZED (
          SELECT given.*
          FROM unnest(${projectIds}::text[], ${ids}::text[], ${sealed}::bytea[], ${next}::bytea[])
              AS given (project_id, id, sealed, next)
            JOIN ${table} record ON record.project_id = given.project_id AND record.${id} = given.id
            JOIN projects ON projects.project_id = given.project_id
          WHERE record.${column} = given.sealed AND ${livesHere(sql, sql`move_state`)}
          ORDER BY given.project_id, given.id FOR NO KEY UPDATE OF record
        )
        UPDATE ${table} record SET ${column} = change.next FROM change
        WHERE record.project_id = change.project_id AND record.${id} = change.id
        RETURNING 1`,
      (rows) => rows.length
    )
  }
})

const batch = 500

const first: Place = { projectId: "", id: "", version: -1 }

const pages = (sql: SqlClient.SqlClient, { page }: SealedTable) =>
  Stream.paginate(first, (after: Place) =>
    Effect.map(page(sql, after, batch), (values) => {
      const last = values.at(-1)
      return [[values], values.length < batch ? Option.none() : Option.fromUndefinedOr(last)] as const
    })
  )

const ownerOf = ({ kind }: SealedTable, { id, projectId }: SealedValue) => [kind, projectId, id]
const nameOf = ({ kind }: SealedTable, { id, projectId }: SealedValue) => `${kind} ${projectId}/${id}`

/** Opens the values of a table, one after the other. None: no key opens the value. */
const openings = (sql: SqlClient.SqlClient, { examine }: SecretBox["Service"], table: SealedTable) =>
  Stream.flattenIterable(pages(sql, table)).pipe(
    Stream.mapEffect((value) =>
      Effect.map(Effect.option(examine(ownerOf(table, value), value.sealed)), (opened) => ({ value, opened }))
    )
  )

/** Returns the number of values, the number of those that only a previous key opens, and the names of those that no key opens. */
export const survey = Effect.fn("SealedValues.survey")(function* (tables: ReadonlyArray<SealedTable>) {
  const sql = yield* SqlClient.SqlClient
  const box = yield* SecretBox
  const found = { count: 0, previous: 0, unreadable: Array.empty<string>() }
  for (const table of tables) {
    yield* Stream.runForEach(openings(sql, box, table), ({ opened, value }) =>
      Effect.sync(() => {
        found.count++
        if (Option.isNone(opened)) found.unreadable.push(nameOf(table, value))
        else if (opened.value.key > 0) found.previous++
      })
    )
  }
  return found
})

/** Returns the number of values if no key opens any of them, otherwise 0. Stops at the first value that opens. */
export const unreadableAll = Effect.fn("SealedValues.unreadableAll")(function* (tables: ReadonlyArray<SealedTable>) {
  const sql = yield* SqlClient.SqlClient
  const box = yield* SecretBox
  let unreadable = 0
  for (const table of tables) {
    const opened = yield* openings(sql, box, table).pipe(
      Stream.tap(() => Effect.sync(() => unreadable++)),
      Stream.filter(({ opened }) => Option.isSome(opened)),
      Stream.runHead
    )
    if (Option.isSome(opened)) return 0
  }
  return unreadable
})

/**
 * Seals the values anew that a previous key has sealed, each batch in a separate statement. Skips a value that is changed
 * concurrently, because the change seals it under the current key. Returns the number of resealed values, and the values that
 * no key opens.
 */
export const reseal = Effect.fn("SealedValues.reseal")(function* (tables: ReadonlyArray<SealedTable>) {
  const sql = yield* SqlClient.SqlClient
  const box = yield* SecretBox
  const failed: Array<string> = []
  let resealed = 0
  for (const table of tables) {
    const changes = Stream.mapEffect(openings(sql, box, table), ({ opened, value }) => {
      if (Option.isNone(opened)) failed.push(nameOf(table, value))
      return Option.isNone(opened) || opened.value.key === 0
        ? Effect.succeed([])
        : Effect.map(box.seal(ownerOf(table, value), opened.value.secret), (next) => [{ ...value, next }])
    })
    yield* Stream.runForEach(Stream.grouped(Stream.flattenIterable(changes), batch), (values) =>
      Effect.map(table.replace(sql, columnsOf(values)), (count) => (resealed += count))
    )
  }
  return { resealed, failed }
})

const columnsOf = (changes: ReadonlyArray<SealedValue & { readonly next: Uint8Array }>): Replacements => ({
  projectIds: changes.map(({ projectId }) => projectId),
  ids: changes.map(({ id }) => id),
  versions: changes.map(({ version }) => version),
  sealed: changes.map(({ sealed }) => sealed),
  next: changes.map(({ next }) => next)
})
