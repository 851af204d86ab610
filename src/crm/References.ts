/** Checks the references of a record inside the statement that writes it. */
import type { SqlClient, Statement } from "effect/sql"

/** A reference: the member of the request, the column that it sets, and the table of the referenced records. */
interface Reference {
  readonly member: string
  readonly column: string
  readonly table: string
}

export const client: Reference = { member: "clientId", column: "client_id", table: "clients" }
export const organization: Reference = { member: "organizationId", column: "organization_id", table: "organizations" }
export const responsibleMember: Reference = {
  member: "responsibleMemberId",
  column: "responsible_member_id",
  table: "members"
}
export const deal: Reference = { member: "dealId", column: "deal_id", table: "deals" }

/**
 * Returns a SQL expression for each reference: a space and the member if the referenced record does not exist in the project,
 * otherwise null. Referenced records are never removed, so they are not locked. `row` must have only values of the request: a
 * reference in a locked row can be newer than the snapshot of the statement.
 */
export const missingReferences = (
  sql: SqlClient.SqlClient,
  row: string,
  references: ReadonlyArray<Reference>
): Statement.Fragment =>
  sql.join(
    ", ",
    false
  )(
    references.map(
      ({ column, member, table }) => sql`
        CASE WHEN ${sql.literal(`${row}.${column}`)} IS NOT NULL AND NOT EXISTS (
          SELECT FROM ${sql(table)} AS referred
          WHERE referred.project_id = ${sql.literal(`${row}.project_id`)}
            AND referred.id = ${sql.literal(`${row}.${column}`)}
        ) THEN ${sql.literal(`' ${member}'`)} END`
    )
  )
