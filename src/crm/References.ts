/** Checks the references of a record inside the statement that writes it. */
import type { SqlClient, Statement } from "effect/sql"

/** A reference: the member of the request, the column that it sets, and the table of the referenced records. */
interface Reference {
  readonly member: string
  readonly column: string
  readonly table: string
}

/** References that several records share. */
export const client: Reference = { member: "clientId", column: "client_id", table: "clients" }
export const organization: Reference = { member: "organizationId", column: "organization_id", table: "organizations" }
export const responsibleMember: Reference = {
  member: "responsibleMemberId",
  column: "responsible_member_id",
  table: "members"
}
export const deal: Reference = { member: "dealId", column: "deal_id", table: "deals" }

/**
 * Returns the members, each after a space, whose column in `row` references a record that does not exist in the row's
 * project. Records of these tables are never removed, so none has to be locked. `row` has the values of the request: a
 * reference of a locked row may be newer than the statement's snapshot.
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
