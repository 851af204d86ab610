/** The creation of clients. */
import type { SqlClient } from "effect/sql"
import type { ClientCreate } from "../../api/crm/Clients.ts"
import type { ClientId } from "../../api/Ids.ts"
import type { ContactCapacityExhausted } from "../../api/Problems.ts"
import type { Kind } from "../../platform/idempotency/Grouped.ts"
import { contact_capacity_exhausted, counted, places } from "./Capacity.ts"

export interface NewClient extends ClientCreate {
  readonly id: ClientId
}

/** A command that may be one too many for its project is refused once the project has no place at all. */
export const create = (sql: SqlClient.SqlClient): Kind<NewClient, ContactCapacityExhausted> => ({
  args: {
    id: "text",
    displayName: "text",
    firstName: "text",
    lastName: "text",
    email: "text",
    phone: "text",
    tags: "text[]",
    externalId: "text"
  },
  verdict: ({ crowded }) => sql`
    ${places(sql, sql`SELECT project_id FROM command WHERE contact_capacity IS NOT NULL`)},
    verdict AS (
      SELECT command.ord,
        CASE
          WHEN places.free <= 0 THEN 'contact_capacity_exhausted'
          WHEN row_number() OVER (PARTITION BY command.project_id ORDER BY command.ord) > places.free
            THEN ${crowded("contact_capacity_exhausted")}
        END AS failure,
        command.id AS resource_id, true AS changed, 1 AS version
      FROM command LEFT JOIN places ON places.project_id = command.project_id
    )`,
  effect: sql`
    ${counted(sql, sql`SELECT places.project_id, 1 FROM claim JOIN command USING (ord) JOIN places USING (project_id)`)},
    created AS (
      INSERT INTO clients (project_id, id, display_name, first_name, last_name, email, phone, tags, external_id,
                           status, version, created_at, updated_at)
      SELECT project_id, id, "displayName", "firstName", "lastName", email, phone, coalesce(tags, '{}'), "externalId",
             'active', 1, at, at
      FROM claim JOIN command USING (ord)
    )`,
  problems: { contact_capacity_exhausted }
})
