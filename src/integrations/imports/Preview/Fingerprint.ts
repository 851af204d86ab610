/** The canonical order of staged records, and the fingerprint of a batch. */
import { createHash } from "node:crypto"
import type { InstallationId } from "../../../api/schema/Ids.ts"
import { canonicalJson } from "../../../platform/CanonicalJson.ts"
import type { StagedRecord } from "./Evaluation.ts"

/** The canonical form of a record (RFC 8785). */
export const canonical = ({ entityType, externalId, fields }: StagedRecord) =>
  canonicalJson({ entityType, externalId, fields })

export interface PlacedRecord extends StagedRecord {
  readonly position: number
}

/** Sorts records by their canonical form in UTF-16 code units. */
export const inCanonicalOrder = (records: ReadonlyArray<StagedRecord>): ReadonlyArray<PlacedRecord> =>
  records
    .map((record, position) => ({ record: { ...record, position }, form: canonical(record) }))
    .sort((one, other) => (one.form < other.form ? -1 : one.form > other.form ? 1 : 0))
    .map(({ record }) => record)

/**
 * Computes the fingerprint of contract §11: the SHA-256 of the canonical JSON of `{installationId, profileVersion,
 * records}`. `add` takes records one by one in canonical order, so that the batch need not be in memory.
 */
export const makeFingerprint = (installationId: InstallationId, profileVersion: number) => {
  const hash = createHash("sha256")
  hash.update(`{"installationId":${canonicalJson(installationId)},"profileVersion":${profileVersion},"records":[`)
  let separator = ""
  return {
    add: (record: StagedRecord) => {
      hash.update(separator + canonical(record))
      separator = ","
    },
    digest: () => hash.update("]}").digest("hex")
  }
}
