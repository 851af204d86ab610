/** The canonical order of staged records, and the fingerprint of a batch. */
import { createHash } from "node:crypto"
import type { InstallationId } from "../../../api/schema/Ids.ts"
import { canonicalJson } from "../../../platform/CanonicalJson.ts"
import type { PlacedRecord, StagedRecord } from "./Evaluation.ts"

/** The canonical form of a record (RFC 8785). */
export const canonical = ({ entityType, externalId, fields }: StagedRecord) =>
  canonicalJson({ entityType, externalId, fields })

/** Sorts records by their canonical form in UTF-16 code units. */
export const inCanonicalOrder = (records: ReadonlyArray<StagedRecord>): ReadonlyArray<PlacedRecord> =>
  records
    .map((record, position) => ({ record: { ...record, position }, form: canonical(record) }))
    .sort((one, other) => (one.form < other.form ? -1 : one.form > other.form ? 1 : 0))
    .map(({ record }, rank) => ({ ...record, rank }))

/**
 * Computes the fingerprint of contract §11: the SHA-256 of the canonical JSON of `{installationId, profileVersion,
 * records}`, with the records in canonical order.
 */
export const fingerprintOf = (
  installationId: InstallationId,
  profileVersion: number,
  records: ReadonlyArray<StagedRecord>
): string => {
  const hash = createHash("sha256")
  hash.update(`{"installationId":${canonicalJson(installationId)},"profileVersion":${profileVersion},"records":[`)
  for (const [index, record] of records.entries()) hash.update((index === 0 ? "" : ",") + canonical(record))
  return hash.update("]}").digest("hex")
}
