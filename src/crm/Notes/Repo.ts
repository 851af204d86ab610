/** The SQL of notes. Every statement names the project first. */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { Note, NoteCreate, NotePatch } from "../../api/crm/Notes.ts"
import type { DealId, KeyId, NoteId, ProjectId } from "../../api/Ids.ts"
import { NoteNotFound, VersionConflict } from "../../api/Problems.ts"
import { selected } from "../../platform/Columns.ts"
import type { Mutation, Refusal } from "../../platform/idempotency/Idempotency.ts"
import { following, type Window } from "../../platform/Pages.ts"

type Sql = SqlClient.SqlClient

const columns = {
  id: "id",
  dealId: "deal_id",
  body: "body",
  authorKeyId: "author_key_id",
  version: ["version", "integer"],
  createdAt: ["created_at", "timestamptz"],
  updatedAt: ["updated_at", "timestamptz"]
} as const

const record = selected(columns)

/** Where a note is: on which deal. */
export interface NotePath {
  readonly dealId: DealId
  readonly id: NoteId
}

/** The notes after a place, and whether there is a deal that they could be on: a row without a note if there are none. */
export const list = (sql: Sql, projectId: ProjectId, dealId: DealId, { after, limit }: Window) =>
  sql<Note | { readonly id: null }>`
    SELECT note.* FROM deals LEFT JOIN LATERAL (
      SELECT ${sql.literal(record)} FROM notes
      WHERE project_id = ${projectId} AND deal_id = ${dealId} ${following(sql, "notes", projectId, after)}
      ORDER BY notes.created_at DESC, notes.id DESC
      LIMIT ${limit}
    ) note ON true
    WHERE deals.project_id = ${projectId} AND deals.id = ${dealId}
    ORDER BY note."createdAt" DESC, note.id DESC`.pipe(
    Effect.map((rows) => ({
      dealExists: rows.length > 0,
      notes: rows.filter((row): row is Note => row.id !== null)
    }))
  )

const note_not_found = () => new NoteNotFound({ detail: "The path names no note on a deal of this project." })

const version_conflict = ({ version }: Refusal) =>
  new VersionConflict({
    detail: `The note is at version ${version}. Read it again, then decide.`,
    currentVersion: version
  })

export const create = (
  sql: Sql,
  projectId: ProjectId,
  { dealId, id }: NotePath,
  author: KeyId,
  { body }: NoteCreate,
  at: Date
): Mutation<NoteNotFound> => ({
  at,
  verdict: sql`
    verdict AS (
      SELECT CASE WHEN deals.id IS NULL THEN 'note_not_found' END AS failure,
             ${id}::text AS resource_id, true AS changed, 1 AS version
      FROM project LEFT JOIN deals ON deals.project_id = project.project_id AND deals.id = ${dealId}
    )`,
  effect: sql`
    created AS (
      INSERT INTO notes (project_id, id, deal_id, body, author_key_id, version, created_at, updated_at)
      SELECT ${projectId}::text, ${id}::text, ${dealId}::text, ${body}::text, ${author}::text,
             1, ${at}::timestamptz, ${at}::timestamptz
      FROM claim
    )`,
  problems: { note_not_found }
})

/** The note, locked. Of many writers one after the other sees what the one before has left. */
const target = (sql: Sql, { dealId, id }: NotePath) => sql`
  target AS MATERIALIZED (
    SELECT note.* FROM project, LATERAL (
      SELECT version, body FROM notes
      WHERE project_id = project.project_id AND id = ${id} AND deal_id = ${dealId}
      FOR UPDATE
    ) note
  )`

/** What keeps a writer from a note that is gone, or is no longer what they have seen. */
const guard = (sql: Sql, expectedVersion: number) => sql`
  CASE
    WHEN target.version IS NULL THEN 'note_not_found'
    WHEN target.version <> ${expectedVersion}::bigint THEN 'version_conflict'
  END`

export const patch = (
  sql: Sql,
  projectId: ProjectId,
  path: NotePath,
  { body, expectedVersion }: NotePatch,
  at: Date
): Mutation<NoteNotFound | VersionConflict> => ({
  at,
  verdict: sql`
    ${target(sql, path)},
    verdict AS (
      SELECT
        ${guard(sql, expectedVersion)} AS failure,
        ${path.id}::text AS resource_id, target.body <> ${body}::text AS changed,
        target.version + (target.version = ${expectedVersion}::bigint AND target.body <> ${body}::text)::int AS version
      FROM project LEFT JOIN target ON true
    )`,
  effect: sql`
    updated AS (
      UPDATE notes SET body = ${body}::text, version = notes.version + 1,
        updated_at = greatest(notes.updated_at, ${at}::timestamptz)
      FROM claim
      WHERE notes.project_id = ${projectId} AND notes.id = ${path.id} AND claim.changed
    )`,
  problems: { note_not_found, version_conflict }
})

export const remove = (
  sql: Sql,
  projectId: ProjectId,
  path: NotePath,
  expectedVersion: number,
  at: Date
): Mutation<NoteNotFound | VersionConflict> => ({
  at,
  verdict: sql`
    ${target(sql, path)},
    verdict AS (
      SELECT
        ${guard(sql, expectedVersion)} AS failure,
        ${path.id}::text AS resource_id, true AS changed, target.version AS version
      FROM project LEFT JOIN target ON true
    )`,
  effect: sql`
    removed AS (
      DELETE FROM notes USING claim WHERE notes.project_id = ${projectId} AND notes.id = ${path.id}
    )`,
  problems: { note_not_found, version_conflict }
})
