/** Checks the references of a record inside the statement that writes it. */
import { columnName } from "../sql/Columns.ts"

const tables = {
  clientId: "clients",
  organizationId: "organizations",
  responsibleMemberId: "members",
  dealId: "deals"
} as const

/**
 * Returns an SQL expression for each reference: the name of the reference (as in `members`) if the referenced record does not
 * exist in the project, otherwise null. Referenced records are never removed, so they are not locked. The values of
 * `row` must come from the request, not from a locked row. A locked row can be newer than the snapshot of the statement. A
 * record that it references may then not be in the snapshot, and would seem missing.
 */
export const missingReferences = (row: string, members: ReadonlyArray<keyof typeof tables>): string =>
  members
    .map((member) => {
      const id = `${row}.${columnName(member)}`
      return `CASE WHEN ${id} IS NOT NULL AND NOT EXISTS (
        SELECT FROM ${tables[member]} AS referred WHERE referred.project_id = ${row}.project_id AND referred.id = ${id}
      ) THEN '${member}' END`
    })
    .join(", ")
