/** The patch of clients. */
import type { SqlClient } from "effect/sql"
import type { ClientPatch } from "../../api/crm/Clients.ts"
import type { ClientId } from "../../api/Ids.ts"
import {
  ClientArchived,
  ClientNotFound,
  type ContactCapacityExhausted,
  MemberNotFound,
  OrganizationArchived,
  OrganizationNotFound
} from "../../api/Problems.ts"
import { assigned, differ, patched } from "../../platform/Columns.ts"
import type { Kind } from "../../platform/idempotency/Grouped.ts"
import { contact_capacity_exhausted, counted, places } from "./Capacity.ts"
import { writable } from "./Record.ts"

const patchedValues = patched(writable)
const differs = differ(writable, "next", "target")
const assignments = assigned(writable, "next")

export const noSuchClient = "The path names no client of this project."

export interface ClientChange {
  readonly id: ClientId
  readonly p: ClientPatch
}

type Problem =
  | ClientNotFound
  | ClientArchived
  | MemberNotFound
  | OrganizationNotFound
  | OrganizationArchived
  | ContactCapacityExhausted

export const patch = (sql: SqlClient.SqlClient): Kind<ClientChange, Problem> => ({
  args: { id: "text", p: "jsonb" },
  record: ({ id }) => id,
  verdict: ({ absent, crowded, locked }) => sql`
    target AS MATERIALIZED (
      SELECT command.ord, client.* FROM (SELECT ord, project_id, id FROM command ORDER BY project_id, id) AS command,
        LATERAL (
          SELECT * FROM clients WHERE project_id = command.project_id AND id = command.id FOR NO KEY UPDATE ${locked}
        ) AS client
    ),
    next AS MATERIALIZED (SELECT ord, ${sql.literal(patchedValues)} FROM target JOIN command USING (ord)),
    diff AS MATERIALIZED (
      SELECT ord, target.project_id, target.status <> next.status AS moved, next.status = 'active' AS activated,
        ${sql.literal(differs)} AS changed
      FROM target JOIN next USING (ord)
    ),
    ${places(sql, sql`SELECT diff.project_id FROM diff JOIN command USING (ord) WHERE moved AND contact_capacity IS NOT NULL`)},
    verdict AS (
      SELECT command.ord,
        CASE
          WHEN target.id IS NULL THEN ${absent(sql`SELECT FROM clients WHERE project_id = command.project_id AND id = command.id`, "client_not_found")}
          WHEN target.status = 'archived' AND p <> '{"status":"active"}' THEN 'client_archived'
          WHEN p->>'responsibleMemberId' IS NOT NULL AND member.id IS NULL THEN 'member_not_found'
          WHEN p->>'organizationId' IS NOT NULL AND organization.id IS NULL THEN 'organization_not_found'
          WHEN organization.archived THEN 'organization_archived'
          WHEN moved AND activated
            AND row_number() OVER (PARTITION BY command.project_id, moved AND activated ORDER BY command.ord) > places.free
            THEN ${crowded("contact_capacity_exhausted")}
        END AS failure,
        command.id AS resource_id, diff.changed, target.version + diff.changed::int AS version
      FROM command
        LEFT JOIN target ON target.ord = command.ord
        LEFT JOIN diff ON diff.ord = command.ord
        LEFT JOIN places ON places.project_id = command.project_id
        LEFT JOIN members member
          ON member.project_id = command.project_id AND member.id = p->>'responsibleMemberId'
        LEFT JOIN organizations organization
          ON organization.project_id = command.project_id AND organization.id = p->>'organizationId'
    )`,
  effect: sql`
    ${counted(
      sql,
      sql`
        SELECT places.project_id, CASE WHEN activated THEN 1 ELSE -1 END
        FROM claim JOIN diff USING (ord) JOIN places USING (project_id) WHERE moved`
    )},
    updated AS (
      UPDATE clients SET
        ${sql.literal(assignments)},
        version = clients.version + 1, updated_at = greatest(clients.updated_at, command.at),
        archived_at = CASE WHEN next.status = 'archived' THEN command.at END
      FROM claim JOIN command USING (ord) JOIN next USING (ord)
      WHERE clients.project_id = command.project_id AND clients.id = command.id AND claim.changed
    )`,
  problems: {
    client_not_found: () => new ClientNotFound({ detail: noSuchClient }),
    client_archived: () => new ClientArchived({ detail: 'Send exactly {"status":"active"} first.' }),
    member_not_found: () => new MemberNotFound({ detail: "responsibleMemberId names no member of the project." }),
    organization_not_found: () =>
      new OrganizationNotFound({ detail: "organizationId names no organization of the project." }),
    organization_archived: () => new OrganizationArchived({ detail: "organizationId names an archived organization." }),
    contact_capacity_exhausted
  }
})
