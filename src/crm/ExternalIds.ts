/** External ids: in a project, at most one client and at most one deal has a given id (contract §7). */
import { ExternalIdTaken } from "../api/Problems.ts"
import type { Refusal } from "../commands/Idempotency.ts"

type Table = "clients" | "deals"

/** Returns the name under which a command takes an external id (`takes` of `Kind`): none for null and for an absent member. */
export const takenBy = (externalId: string | null | undefined): ReadonlyArray<string> =>
  externalId === undefined || externalId === null ? [] : [`external id ${externalId}`]

/**
 * Returns a query of the record that has the external id `given`, for a command in `row`. A statement that began before another gave the
 * id to a record does not see that. Then the unique index refuses its change, and the command runs again.
 */
export const holderOf = (table: Table, row: string, given: string): string => `
  SELECT id FROM ${table} WHERE project_id = ${row}.project_id AND external_id = ${given} LIMIT 1`

export const external_id_taken =
  (record: "client" | "deal") =>
  ({ faults: [resourceId = ""] }: Refusal) =>
    new ExternalIdTaken({ detail: ExternalIdTaken.detail(record, resourceId), resourceId })
