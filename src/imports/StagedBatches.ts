/** Stores staged batches of project files, and evaluates them with the installation's profile (contract §11, §12). */
import { Array, Effect } from "effect"
import type { SqlClient as Sql } from "effect/sql/SqlClient"
import { createHash } from "node:crypto"
import type { InstallationId, ProjectId } from "../api/schema/Ids.ts"
import { canonicalJson } from "../commands/Command.ts"
import {
  countsOf,
  duplicatesOf,
  evaluate,
  type Mappings,
  type PlacedRecord,
  profileOf,
  type StagedRecord,
  unsupportedFields
} from "./Evaluation.ts"
import type { ImportPreview, UnsupportedField } from "../api/integrations/Installations.ts"

/** Without `stagedRecords` the batch keeps its records. */
interface Installation {
  readonly id: InstallationId
  readonly stagedRecords?: ReadonlyArray<StagedRecord>
}

/**
 * Updates the batches of installations whose rows were written. New records replace the stored records. A batch that was
 * evaluated with another profile is evaluated again. Call this in the transaction that writes the rows.
 */
export const stage = Effect.fnUntraced(function* (
  sql: Sql,
  projectId: ProjectId,
  installations: ReadonlyArray<Installation>
) {
  const given = new Map(installations.map(({ id, stagedRecords }) => [id, stagedRecords]))
  for (const { digest, id, replaced, ...profile } of yield* lockOutdated(sql, projectId, [...given.keys()])) {
    const batch = { projectId, installationId: id }
    const records = replaced ? inCanonicalOrder(given.get(id) ?? []) : yield* readRecords(sql, batch)
    if (replaced) yield* replace(sql, batch, digest, records)
    if (digest !== null) yield* evaluateBatch(sql, batch, profile, records)
  }
})

/**
 * Returns a digest of a batch; null for an empty batch. It depends on the order of the records, because the order determines
 * which are duplicates.
 */
export const digestOf = (records: ReadonlyArray<StagedRecord>): string | null => {
  if (records.length === 0) return null
  const hash = createHash("sha256")
  for (const record of records) hash.update(`${canonical(record)}\n`)
  return hash.digest("hex")
}

/** Evaluates the records of a batch, given in canonical order. Without a profile, removes the evaluation. */
const evaluateBatch = Effect.fnUntraced(function* (
  sql: Sql,
  batch: Batch,
  { mappings, profileVersion }: { readonly profileVersion: number | null; readonly mappings: Mappings | null },
  records: ReadonlyArray<PlacedRecord>
) {
  if (profileVersion === null || mappings === null) return yield* conclude(sql, batch, null, [])
  const profile = profileOf(mappings)
  const evaluated = records.map((record) => ({ ...record, ...evaluate(profile, record) }))
  const duplicates = duplicatesOf(evaluated)
  const contacts = evaluated.flatMap(({ email, entityType, externalId, phone, position, values }) =>
    entityType === "contact" && !duplicates.has(position)
      ? [{ position, externalId, email, phone, mapped: Object.fromEntries(values) }]
      : []
  )
  const verdict = {
    profileVersion,
    mappings,
    counts: countsOf(records),
    duplicateCount: duplicates.size,
    unsupportedFields: unsupportedFields(evaluated),
    fingerprint: fingerprintOf(batch.installationId, profileVersion, records)
  }
  yield* conclude(sql, batch, verdict, contacts)
})

const canonical = ({ entityType, externalId, fields }: StagedRecord) =>
  canonicalJson({ entityType, externalId, fields })

/** Sorts records by their canonical form in UTF-16 code units. */
const inCanonicalOrder = (records: ReadonlyArray<StagedRecord>): ReadonlyArray<PlacedRecord> =>
  records
    .map((record, position) => ({ record: { ...record, position }, form: canonical(record) }))
    .sort((one, other) => (one.form < other.form ? -1 : one.form > other.form ? 1 : 0))
    .map(({ record }, rank) => ({ ...record, rank }))

/**
 * Computes the fingerprint of contract §11: the SHA-256 of the canonical JSON of `{installationId, profileVersion,
 * records}`, with the records in canonical order.
 */
const fingerprintOf = (
  installationId: InstallationId,
  profileVersion: number,
  records: ReadonlyArray<StagedRecord>
): string => {
  const hash = createHash("sha256")
  hash.update(`{"installationId":${canonicalJson(installationId)},"profileVersion":${profileVersion},"records":[`)
  for (const [index, record] of records.entries()) hash.update((index === 0 ? "" : ",") + canonical(record))
  return hash.update("]}").digest("hex")
}

interface Batch {
  readonly projectId: ProjectId
  readonly installationId: InstallationId
}

/** An installation whose records or profile have changed since its batch was stored and evaluated. */
interface Outdated {
  readonly id: InstallationId
  readonly digest: string | null
  /** Whether the records have changed. If not, only the profile has changed. */
  readonly replaced: boolean
  readonly profileVersion: number | null
  readonly mappings: Mappings | null
}

/** Locks and returns the installations with an outdated batch, so that no two processes evaluate a batch at once. */
const lockOutdated = (sql: Sql, projectId: ProjectId, ids: ReadonlyArray<InstallationId>) =>
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

/** Maximum number of rows that one statement writes. */
const portion = 1_000

const inPortions = <E>(rows: ReadonlyArray<object>, write: (rows: string) => Effect.Effect<unknown, E>) =>
  Effect.forEach(Array.chunksOf(rows, portion), (some) => write(JSON.stringify(some)), { discard: true })

/** Replaces the records of a batch, and removes its evaluation. For an empty batch, `digest` is null and no rows are stored. */
const replace = Effect.fnUntraced(function* (
  sql: Sql,
  batch: Batch,
  digest: string | null,
  records: ReadonlyArray<PlacedRecord>
) {
  const { installationId, projectId } = batch
  for (const table of ["staged_contacts", "staged_records", "staged_batches"]) yield* emptyTable(sql, batch, table)
  if (digest === null) return
  yield* sql`
    INSERT INTO staged_batches (project_id, installation_id, digest) VALUES (${projectId}, ${installationId}, ${digest})`
  yield* inPortions(
    records,
    (rows) => sql`
      INSERT INTO staged_records (project_id, installation_id, rank, position, entity_type, external_id, fields)
      SELECT ${projectId}, ${installationId}, record.*
      FROM json_to_recordset(${rows}::json) AS record
        (rank integer, position integer, "entityType" text, "externalId" text, fields json)`
  )
})

/** Reads the records of a batch in canonical order. They fit in memory, because a single project file contained them. */
const readRecords = (sql: Sql, { installationId, projectId }: Batch) =>
  sql<PlacedRecord>`
    SELECT rank, position, entity_type AS "entityType", external_id AS "externalId", fields FROM staged_records
    WHERE project_id = ${projectId} AND installation_id = ${installationId} ORDER BY rank`

/** A row of `staged_contacts`. `mapped` has the valid values by field. */
interface MappedContact {
  readonly position: number
  readonly externalId: string
  readonly email: string | null
  readonly phone: string | null
  readonly mapped: Readonly<Record<string, unknown>>
}

interface Verdict {
  readonly profileVersion: number
  readonly mappings: Mappings
  readonly counts: ImportPreview["counts"]
  readonly duplicateCount: number
  readonly unsupportedFields: ReadonlyArray<UnsupportedField>
  readonly fingerprint: string
}

/**
 * Stores the evaluation of a batch, and the contacts that are not duplicates. `verdict` is null if the installation has no
 * profile.
 */
const conclude = Effect.fnUntraced(function* (
  sql: Sql,
  batch: Batch,
  verdict: Verdict | null,
  contacts: ReadonlyArray<MappedContact>
) {
  const { installationId, projectId } = batch
  yield* emptyTable(sql, batch, "staged_contacts")
  yield* inPortions(
    contacts,
    (rows) => sql`
      INSERT INTO staged_contacts (project_id, installation_id, position, external_id, email, phone, mapped)
      SELECT ${projectId}, ${installationId}, contact.*
      FROM json_to_recordset(${rows}::json) AS contact
        (position integer, "externalId" text, email text, phone text, mapped jsonb)`
  )
  yield* sql`
    UPDATE staged_batches
    SET (profile_version, profile_mappings, counts, duplicate_count, unsupported_fields, fingerprint) = (
      SELECT * FROM json_to_record(${JSON.stringify(verdict ?? {})}::json) AS verdict (
        "profileVersion" integer, mappings jsonb, counts json, "duplicateCount" integer, "unsupportedFields" json,
        fingerprint text
      )
    )
    WHERE project_id = ${projectId} AND installation_id = ${installationId}`
})
