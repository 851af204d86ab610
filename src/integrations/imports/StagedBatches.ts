/** Stores staged batches of project files, and evaluates them with the installation's profile (contract §11, §12). */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { createHash } from "node:crypto"
import type { InstallationId, ProjectId } from "../../api/schema/Ids.ts"
import * as Batches from "./Preview/Batches.ts"
import { canonical, makeFingerprint, inCanonicalOrder, type PlacedRecord } from "./Preview/Fingerprint.ts"
import { evaluate, type Evaluation, type Mappings, profileOf, type StagedRecord, tally } from "./Preview/Evaluation.ts"

type Sql = SqlClient.SqlClient

/** Maximum number of records that one statement writes or reads. */
const portion = 1_000

/** An installation with the records of its batch. Without `stagedRecords` the batch keeps its records. */
interface Installation {
  readonly id: InstallationId
  readonly stagedRecords?: ReadonlyArray<StagedRecord>
}

/**
 * Updates the batches of installations whose rows were written: new records replace the stored ones, and batches that
 * were evaluated with another profile are evaluated again. Call it in the transaction that writes the rows.
 */
export const stage = Effect.fnUntraced(function* (
  sql: Sql,
  projectId: ProjectId,
  installations: ReadonlyArray<Installation>
) {
  const given = new Map(installations.map(({ id, stagedRecords }) => [id, stagedRecords]))
  for (const { digest, id, replaced, ...profile } of yield* Batches.lockOutdated(sql, projectId, [...given.keys()])) {
    const batch = { projectId, installationId: id }
    if (replaced) yield* replace(sql, batch, digest, given.get(id) ?? [])
    if (digest !== null) yield* evaluateBatch(sql, batch, profile)
  }
})

/** Returns a digest of a batch; null for an empty batch. The order of records counts, because it determines the duplicates. */
export const digestOf = (records: ReadonlyArray<StagedRecord>): string | null => {
  if (records.length === 0) return null
  const hash = createHash("sha256")
  for (const record of records) hash.update(`${canonical(record)}\n`)
  return hash.digest("hex")
}

const replace = Effect.fnUntraced(function* (
  sql: Sql,
  batch: Batches.Batch,
  digest: string | null,
  records: ReadonlyArray<StagedRecord>
) {
  yield* Batches.remove(sql, batch)
  if (digest === null) return
  yield* Batches.create(sql, batch, digest)
  const sorted = inCanonicalOrder(records)
  for (let rank = 0; rank < sorted.length; rank += portion) {
    yield* Batches.addRecords(sql, batch, rank, sorted.slice(rank, rank + portion))
  }
})

/** Evaluates the stored records of a batch; without a profile, removes the evaluation. */
const evaluateBatch = Effect.fnUntraced(function* (
  sql: Sql,
  batch: Batches.Batch,
  { mappings, profileVersion }: { readonly profileVersion: number | null; readonly mappings: Mappings | null }
) {
  yield* Batches.removeContacts(sql, batch)
  if (profileVersion === null || mappings === null) return yield* Batches.withdraw(sql, batch)
  const profile = profileOf(mappings)
  const fingerprint = makeFingerprint(batch.installationId, profileVersion)
  const { add, counts, unsupportedFields } = tally()
  for (let rank = 0, more = true; more; rank += portion) {
    const records = yield* Batches.readRecords(sql, batch, rank, portion)
    const evaluated = records.map((record) => ({ record, evaluation: evaluate(profile, record) }))
    for (const { evaluation, record } of evaluated) {
      fingerprint.add(record)
      add(record, evaluation)
    }
    const contacts = evaluated.filter(({ record }) => record.entityType === "contact")
    if (contacts.length > 0) yield* Batches.addContacts(sql, batch, contacts.map(mappedContact))
    more = records.length === portion
  }
  yield* Batches.conclude(sql, batch, {
    profileVersion,
    mappings,
    counts: counts(),
    unsupportedFields: unsupportedFields(),
    fingerprint: fingerprint.digest()
  })
})

const mappedContact = ({
  evaluation: { values },
  record: { externalId, position }
}: {
  readonly record: PlacedRecord
  readonly evaluation: Evaluation
}): Batches.MappedContact => ({
  position,
  external_id: externalId,
  email: textOf(values.get("email"))?.toLowerCase() ?? null,
  phone: textOf(values.get("phone")) ?? null,
  mapped: Object.fromEntries(values)
})

const textOf = (value: unknown) => (typeof value === "string" ? value : undefined)
