/** Stores staged batches of project files, and evaluates them with the installation's profile (contract §11, §12). */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { createHash } from "node:crypto"
import type { InstallationId, ProjectId } from "../../api/schema/Ids.ts"
import { canonicalJson } from "../../commands/Idempotency.ts"
import * as Batches from "./StagedBatches/Batches.ts"
import {
  countsOf,
  duplicatesOf,
  evaluate,
  type Mappings,
  type PlacedRecord,
  profileOf,
  type StagedRecord,
  unsupportedFields
} from "./StagedBatches/Evaluation.ts"

type Sql = SqlClient.SqlClient

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
  for (const { digest, id, replaced, ...profile } of yield* Batches.lockOutdated(sql, projectId, [...given.keys()])) {
    const batch = { projectId, installationId: id }
    const records = replaced ? inCanonicalOrder(given.get(id) ?? []) : yield* Batches.readRecords(sql, batch)
    if (replaced) yield* Batches.replace(sql, batch, digest, records)
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
  batch: Batches.Batch,
  { mappings, profileVersion }: { readonly profileVersion: number | null; readonly mappings: Mappings | null },
  records: ReadonlyArray<PlacedRecord>
) {
  if (profileVersion === null || mappings === null) return yield* Batches.conclude(sql, batch, null, [])
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
  yield* Batches.conclude(sql, batch, verdict, contacts)
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
