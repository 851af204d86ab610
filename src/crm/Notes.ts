/** Notes on deals. A patch or a removal names the version of the note that the caller has read (contract §7). */
import { DateTime, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { Note, type NoteCreate, type NotePatch } from "../api/crm/Notes.ts"
import { type DealId, type KeyId, NoteId, type ProjectId } from "../api/schema/Ids.ts"
import { DealNotFound, NoteNotFound, type PreconditionFailed, VersionConflict } from "../api/Problems.ts"
import { columnsOf, selectList } from "../sql/Columns.ts"
import { statement } from "../sql/Database.ts"
import type { Kind } from "../commands/Kind.ts"
import { makeGrouped } from "../commands/Grouped.ts"
import { type Command, plain, preconditionFailed, type Refusal } from "../commands/Command.ts"
import { Mutations } from "../commands/Mutations.ts"
import { newId } from "../platform/Ids.ts"
import { pageCondition, pageLimit, type PageQuery, Pages, type Window } from "../http/pages/Pages.ts"

type Sql = SqlClient.SqlClient

interface NotePath {
  readonly dealId: DealId
  readonly id: NoteId
}

export const makeNotes = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const mutations = yield* Mutations
  const pages = yield* Pages
  const creating = makeGrouped(mutations, create(sql))
  const patching = makeGrouped(mutations, patch(sql))
  const removing = makeGrouped(mutations, remove(sql))
  return {
    list: (projectId: ProjectId, dealId: DealId, query: PageQuery) =>
      pages.read({ projectId, operation: "listNotes", filters: { dealId } }, query, (window) =>
        Effect.flatMap(statement(list(sql, projectId, dealId, window)), ({ dealExists, notes }) =>
          dealExists ? Effect.succeed(notes) : Effect.fail(new DealNotFound())
        )
      ),
    create: Effect.fnUntraced(function* (command: Command, authorKeyId: KeyId, dealId: DealId, { body }: NoteCreate) {
      const id = NoteId.make(yield* newId("note"))
      return yield* creating(command, yield* DateTime.nowAsDate, { id, dealId, body, authorKeyId })
    }),
    patch: Effect.fnUntraced(function* (command: Command, path: NotePath, changes: NotePatch) {
      return yield* patching(command, yield* DateTime.nowAsDate, { ...path, ...changes })
    }),
    remove: Effect.fnUntraced(function* (command: Command, path: NotePath, expectedVersion: number) {
      return yield* removing(command, yield* DateTime.nowAsDate, { ...path, expectedVersion })
    })
  }
})

const record = selectList(columnsOf(Note.fields, { version: "integer" }))

/**
 * Reads a page of the deal's notes. The query returns one row of nulls if the page has no notes, and no row if the deal does not
 * exist.
 */
const list = (sql: Sql, projectId: ProjectId, dealId: DealId, window: Window) =>
  sql<Note | { readonly id: null }>`
    SELECT note.* FROM deals LEFT JOIN LATERAL (
      SELECT ${sql.literal(record)} FROM notes
      WHERE project_id = ${projectId} AND deal_id = ${dealId} ${pageCondition(sql, window.after)}
      ORDER BY notes.created_at DESC, notes.id DESC
      ${pageLimit(sql, window)}
    ) note ON true
    WHERE deals.project_id = ${projectId} AND deals.id = ${dealId}
    ORDER BY note."createdAt" DESC, note.id DESC`.pipe(
    Effect.map((rows) => ({
      dealExists: rows.length > 0,
      notes: rows.filter((row): row is Note => row.id !== null)
    }))
  )

const version_conflict = ({ version }: Refusal) =>
  new VersionConflict({ detail: VersionConflict.detail("note", version), currentVersion: version })

const create = (sql: Sql): Kind<NoteCreate & NotePath & { readonly authorKeyId: KeyId }, NoteNotFound> => ({
  args: { id: "text", dealId: "text", body: "text", authorKeyId: "text" },
  decided: () => sql`
    decided AS MATERIALIZED (
      SELECT command.*, CASE WHEN deal.id IS NULL THEN 'note_not_found' END AS failure, NULL::text[] AS faults,
        command.id AS resource_id, true AS changed, 1 AS version
      FROM command LEFT JOIN LATERAL (
        SELECT id FROM deals WHERE project_id = command.project_id AND id = "dealId" OFFSET 0
      ) AS deal ON true
    )`,
  effect: () => sql`
    created AS (
      INSERT INTO notes (project_id, id, deal_id, body, author_key_id, version, created_at, updated_at)
      SELECT project_id, id, "dealId", body, "authorKeyId", 1, at, at FROM applied
    )`,
  problems: { note_not_found: () => new NoteNotFound({ detail: DealNotFound.detail }) }
})

const stored = (sql: Sql) =>
  sql`SELECT FROM notes WHERE project_id = command.project_id AND id = command.id AND deal_id = command."dealId"`

/** Concurrent patches of a note run one after the other. Each patch sees the version that the previous patch has written. */
const patch = (sql: Sql): Kind<NotePatch & NotePath, NoteNotFound | PreconditionFailed | VersionConflict> => ({
  args: { id: "text", dealId: "text", body: "text", expectedVersion: "bigint" },
  takes: ({ id }) => [id],
  decided: ({ absent, holds, inOrder, locked }) => sql`
    target AS MATERIALIZED (
      SELECT command.ord, note.* FROM ${inOrder}, LATERAL (
        SELECT version AS old_version, notes.body <> command.body AS differs FROM notes
        WHERE project_id = command.project_id AND id = command.id AND deal_id = command."dealId"
        FOR NO KEY UPDATE ${locked}
      ) AS note
    ),
    decided AS MATERIALIZED (
      SELECT command.*,
        CASE
          WHEN target.ord IS NULL THEN ${absent(stored(sql), "note_not_found")}
          WHEN NOT ${holds} THEN 'precondition_failed'
          WHEN old_version <> "expectedVersion" THEN 'version_conflict'
        END AS failure, NULL::text[] AS faults,
        command.id AS resource_id, differs AS changed,
        old_version + (old_version = "expectedVersion" AND differs AND ${holds} IS NOT FALSE)::int AS version
      FROM command LEFT JOIN target ON target.ord = command.ord
    )`,
  effect: () => sql`
    updated AS (
      UPDATE notes SET body = applied.body, version = notes.version + 1, updated_at = greatest(notes.updated_at, applied.at)
      FROM applied
      WHERE notes.project_id = applied.project_id AND notes.id = applied.id AND applied.changed
    )`,
  problems: { ...preconditionFailed, ...plain(NoteNotFound), version_conflict }
})

const remove = (
  sql: Sql
): Kind<NotePath & Pick<NotePatch, "expectedVersion">, NoteNotFound | PreconditionFailed | VersionConflict> => ({
  args: { id: "text", dealId: "text", expectedVersion: "bigint" },
  takes: ({ id }) => [id],
  decided: ({ absent, holds, inOrder, locked }) => sql`
    target AS MATERIALIZED (
      SELECT command.ord, note.* FROM ${inOrder}, LATERAL (
        SELECT version AS old_version FROM notes
        WHERE project_id = command.project_id AND id = command.id AND deal_id = command."dealId"
        FOR UPDATE ${locked}
      ) AS note
    ),
    decided AS MATERIALIZED (
      SELECT command.*,
        CASE
          WHEN target.ord IS NULL THEN ${absent(stored(sql), "note_not_found")}
          WHEN NOT ${holds} THEN 'precondition_failed'
          WHEN old_version <> "expectedVersion" THEN 'version_conflict'
        END AS failure, NULL::text[] AS faults,
        command.id AS resource_id, true AS changed, old_version AS version
      FROM command LEFT JOIN target ON target.ord = command.ord
    )`,
  effect: () => sql`
    removed AS (
      DELETE FROM notes USING applied WHERE notes.project_id = applied.project_id AND notes.id = applied.id
    )`,
  problems: { ...preconditionFailed, ...plain(NoteNotFound), version_conflict }
})
