/** Whether what a record refers to is there, told in the statement that writes the record. */
import type { SqlClient, Statement } from "effect/sql"

/** A member of the request, the column of the row that it sets, and the table that it names a record of. */
export interface Reference {
  readonly member: string
  readonly column: string
  readonly table: string
}

/** What the CRM's records refer to outside of their own kind. */
export const client: Reference = { member: "clientId", column: "client_id", table: "clients" }
export const organization: Reference = { member: "organizationId", column: "organization_id", table: "organizations" }
export const responsibleMember: Reference = {
  member: "responsibleMemberId",
  column: "responsible_member_id",
  table: "members"
}
export const deal: Reference = { member: "dealId", column: "deal_id", table: "deals" }

/**
 * The members, each after a space, whose column in `row` names a record that the row's project lacks. No record of these
 * tables is ever removed, so none has to be locked. `row` holds what the request names: what a locked row refers to may
 * be newer than what the statement sees.
 */
export const dangling = (
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
