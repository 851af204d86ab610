/** SQL of staged batches. */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { InstallationId, ProjectId } from "../../../api/schema/Ids.ts"
import type { ImportPreview, UnsupportedField } from "../../../api/integrations/Preview.ts"
import type { PlacedRecord } from "./Fingerprint.ts"
import type { Mappings } from "./Evaluation.ts"

type Sql = SqlClient.SqlClient

export interface Batch {
  readonly projectId: ProjectId
  readonly installationId: InstallationId
}

/** An installation whose records or profile have changed since its batch was stored and evaluated. */
interface Outdated {
  readonly id: InstallationId
  readonly digest: string | null
  /** Whether the records have changed, not only the profile. */
  readonly replaced: boolean
  readonly profileVersion: number | null
  readonly mappings: Mappings | null
}

/** Locks and returns the installations with an outdated batch, so that no two processes evaluate a batch at once. */
export const lockOutdated = (sql: Sql, projectId: ProjectId, ids: ReadonlyArray<InstallationId>) =>
  sql<Outdated>`
    SELECT installation.id, staged_digest AS digest, staged_digest IS DISTINCT FROM batch.digest AS replaced,
      installation.profile_version AS "profileVersion", installation.profile_mappings AS mappings
    FROM installations AS installation LEFT JOIN staged_batches AS batch
      ON batch.project_id = installation.project_id AND batch.installation_id = installation.id
    WHERE installation.project_id = ${projectId} AND installation.id = ANY(${ids}::text[]) AND (
      staged_digest IS DISTINCT FROM batch.digest OR staged_digest IS NOT NULL
        AND (installation.profile_version, installation.profile_mappings)
          IS DISTINCT FROM (batch.profile_version, batch.profile_mappings)
    )
    FOR NO KEY UPDATE OF installation`

const emptyTable = (sql: Sql, { installationId, projectId }: Batch, table: string) =>
  sql`DELETE FROM ${sql(table)} WHERE project_id = ${projectId} AND installation_id = ${installationId}`

export const remove = (sql: Sql, batch: Batch) =>
  Effect.forEach(["staged_contacts", "staged_records", "staged_batches"], (table) => emptyTable(sql, batch, table))

export const create = (sql: Sql, { installationId, projectId }: Batch, digest: string) =>
  sql`
    INSERT INTO staged_batches (project_id, installation_id, digest) VALUES (${projectId}, ${installationId}, ${digest})`

/** Adds records from a rank on. The rank of a record is its place in canonical order. */
export const addRecords = (
  sql: Sql,
  { installationId, projectId }: Batch,
  firstRank: number,
  records: ReadonlyArray<PlacedRecord>
) =>
  sql`
    INSERT INTO staged_records (project_id, installation_id, rank, position, entity_type, external_id, fields)
    SELECT ${projectId}, ${installationId}, record.*
    FROM json_to_recordset(${JSON.stringify(
      records.map(({ entityType, externalId, fields, position }, index) => ({
        rank: firstRank + index,
        position,
        entity_type: entityType,
        external_id: externalId,
        fields
      }))
    )}::json) AS record (rank integer, position integer, entity_type text, external_id text, fields json)`

/** Reads records of a batch in canonical order, from a rank on. */
export const readRecords = (sql: Sql, { installationId, projectId }: Batch, after: number, limit: number) =>
  sql<PlacedRecord>`
    SELECT position, entity_type AS "entityType", external_id AS "externalId", fields FROM staged_records
    WHERE project_id = ${projectId} AND installation_id = ${installationId} AND rank >= ${after}
    ORDER BY rank LIMIT ${limit}`

export interface MappedContact {
  readonly position: number
  readonly external_id: string
  readonly email: string | null
  readonly phone: string | null
  readonly mapped: Readonly<Record<string, unknown>>
}

export const addContacts = (sql: Sql, { installationId, projectId }: Batch, contacts: ReadonlyArray<MappedContact>) =>
  sql`
    INSERT INTO staged_contacts (project_id, installation_id, position, external_id, email, phone, mapped)
    SELECT ${projectId}, ${installationId}, contact.*
    FROM json_to_recordset(${JSON.stringify(contacts)}::json) AS contact
      (position integer, external_id text, email text, phone text, mapped jsonb)`

export const removeContacts = (sql: Sql, batch: Batch) => emptyTable(sql, batch, "staged_contacts")

export const withdraw = (sql: Sql, { installationId, projectId }: Batch) =>
  sql`
    UPDATE staged_batches SET profile_version = NULL, profile_mappings = NULL, counts = NULL,
      duplicate_count = NULL, unsupported_fields = NULL, fingerprint = NULL
    WHERE project_id = ${projectId} AND installation_id = ${installationId}`

interface Verdict {
  readonly profileVersion: number
  readonly mappings: Mappings
  readonly counts: ImportPreview["counts"]
  readonly unsupportedFields: ReadonlyArray<UnsupportedField>
  readonly fingerprint: string
}

/** The positions of records with the same `columns` as an earlier record. Records with a NULL in `columns` do not count. */
const repeating = (sql: Sql, { installationId, projectId }: Batch, table: string, columns: string) => sql`
  SELECT position FROM (
    SELECT position, row_number() OVER (PARTITION BY ${sql.literal(columns)} ORDER BY position) AS nth
    FROM ${sql(table)}
    WHERE project_id = ${projectId} AND installation_id = ${installationId}
      AND (${sql.literal(columns)}) IS NOT NULL
  ) AS record WHERE nth > 1`

/** Stores the evaluation, counts the duplicate records, and deletes the contacts that are duplicates. */
export const conclude = Effect.fnUntraced(function* (sql: Sql, batch: Batch, verdict: Verdict) {
  const { installationId, projectId } = batch
  // The planner has no statistics of the rows that were just written. It expects one row, and would plan a nested loop,
  // which takes minutes for 20,000 rows.
  yield* sql`SET LOCAL enable_nestloop = off`
  yield* sql`
    WITH duplicate AS MATERIALIZED (
      ${repeating(sql, batch, "staged_records", "entity_type, external_id")}
      UNION ${repeating(sql, batch, "staged_contacts", "email")}
      UNION ${repeating(sql, batch, "staged_contacts", "phone")}
    ),
    dropped AS (
      DELETE FROM staged_contacts AS contact USING duplicate
      WHERE contact.project_id = ${projectId} AND contact.installation_id = ${installationId}
        AND contact.position = duplicate.position
    )
    UPDATE staged_batches SET
      profile_version = ${verdict.profileVersion}, profile_mappings = ${JSON.stringify(verdict.mappings)}::jsonb,
      counts = ${JSON.stringify(verdict.counts)}::json,
      duplicate_count = (SELECT count(*) FROM duplicate),
      unsupported_fields = ${JSON.stringify(verdict.unsupportedFields)}::json, fingerprint = ${verdict.fingerprint}
    WHERE project_id = ${projectId} AND installation_id = ${installationId}`
  yield* sql`SET LOCAL enable_nestloop = DEFAULT`
})
