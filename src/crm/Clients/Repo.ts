/** The SQL of clients. Every statement names the project first. */
import type { SqlClient } from "effect/sql"
import type { Client, ClientCreate, ClientPatch, ClientStatusFilter } from "../../api/crm/Clients.ts"
import type { ClientId, ProjectId } from "../../api/Ids.ts"
import {
  ClientArchived,
  ClientNotFound,
  ContactCapacityExhausted,
  MemberNotFound,
  OrganizationArchived,
  OrganizationNotFound
} from "../../api/Problems.ts"
import { assigned, differ, patched, selected } from "../../platform/Columns.ts"
import type { Mutation } from "../../platform/idempotency/Idempotency.ts"
import { lookup } from "../../platform/Lookups.ts"
import { following, type Window } from "../../platform/Pages.ts"

const writable = {
  displayName: "display_name",
  firstName: "first_name",
  lastName: "last_name",
  email: "email",
  phone: "phone",
  tags: ["tags", "text[]"],
  externalId: "external_id",
  organizationId: "organization_id",
  responsibleMemberId: "responsible_member_id",
  status: "status"
} as const

const columns = {
  id: "id",
  ...writable,
  version: ["version", "integer"],
  createdAt: ["created_at", "timestamptz"],
  updatedAt: ["updated_at", "timestamptz"],
  archivedAt: ["archived_at", "timestamptz"]
} as const

const record = selected(columns)
const patchedValues = patched(writable)
const differs = differ(writable, "next", "target")
const assignments = assigned(writable, "next")

/** The look-up of a client. */
export const find = (sql: SqlClient.SqlClient) => lookup<Client>(sql, "clients", columns)

export const list = (
  sql: SqlClient.SqlClient,
  projectId: ProjectId,
  status: ClientStatusFilter,
  { after, limit }: Window
) =>
  sql<Client>`
    SELECT ${sql.literal(record)} FROM clients
    WHERE project_id = ${projectId}
      ${status === "all" ? sql.literal("") : sql`AND status = ${status}`}
      ${following(sql, "clients", projectId, after)}
    ORDER BY created_at DESC, id DESC
    LIMIT ${limit}`

export const create = (
  sql: SqlClient.SqlClient,
  projectId: ProjectId,
  id: ClientId,
  client: ClientCreate,
  at: Date
): Mutation<ContactCapacityExhausted> => ({
  at,
  verdict: sql`
    seat AS MATERIALIZED (${seat(sql)}),
    verdict AS (
      SELECT CASE WHEN seat.free IS FALSE THEN 'contact_capacity_exhausted' END AS failure,
             ${id}::text AS resource_id, true AS changed, 1 AS version
      FROM project LEFT JOIN seat ON true
    )`,
  effect: sql`
    seated AS (
      UPDATE projects SET active_clients = active_clients + 1
      FROM claim, seat WHERE projects.project_id = seat.project_id
    ),
    created AS (
      INSERT INTO clients (project_id, id, display_name, first_name, last_name, email, phone, tags, external_id,
                           status, version, created_at, updated_at)
      SELECT ${projectId}::text, ${id}::text, ${client.displayName}::text, ${client.firstName ?? null}::text,
             ${client.lastName ?? null}::text, ${client.email ?? null}::text, ${client.phone ?? null}::text,
             ${client.tags ?? []}::text[], ${client.externalId ?? null}::text,
             'active', 1, ${at}::timestamptz, ${at}::timestamptz
      FROM claim
    )`,
  problems: { contact_capacity_exhausted: () => new ContactCapacityExhausted({ detail: capacityDetail }) }
})

const capacityDetail = "Archive a client, or ask for a larger contact capacity."

/**
 * The project's counter of active clients, locked, where there is a capacity; else no row. It is read after the lock
 * is held, so that of two creates for the last place one sees the other.
 */
const seat = (sql: SqlClient.SqlClient) => sql`
  SELECT projects.project_id, projects.active_clients < projects.contact_capacity AS free
  FROM projects JOIN project USING (project_id)
  WHERE project.contact_capacity IS NOT NULL
  FOR NO KEY UPDATE OF projects`

export const noSuchClient = "The path names no client of this project."

type PatchProblem =
  | ClientNotFound
  | ClientArchived
  | MemberNotFound
  | OrganizationNotFound
  | OrganizationArchived
  | ContactCapacityExhausted

export const patch = (
  sql: SqlClient.SqlClient,
  projectId: ProjectId,
  id: ClientId,
  changes: ClientPatch,
  at: Date
): Mutation<PatchProblem> => ({
  at,
  verdict: sql`
    patch AS (SELECT ${JSON.stringify(changes)}::jsonb AS p),
    target AS MATERIALIZED (
      SELECT client.* FROM project, LATERAL (
        SELECT * FROM clients WHERE project_id = project.project_id AND id = ${id} FOR NO KEY UPDATE
      ) client
    ),
    next AS MATERIALIZED (
      SELECT ${sql.literal(patchedValues)}
      FROM target, patch
    ),
    diff AS (
      SELECT target.status <> next.status AS moved, ${sql.literal(differs)} AS changed
      FROM target, next
    ),
    seat AS MATERIALIZED (SELECT seat.* FROM diff, LATERAL (${seat(sql)}) seat WHERE diff.moved),
    verdict AS (
      SELECT
        CASE
          WHEN target.id IS NULL THEN 'client_not_found'
          WHEN target.status = 'archived' AND p <> '{"status":"active"}' THEN 'client_archived'
          WHEN p->>'responsibleMemberId' IS NOT NULL AND member.id IS NULL THEN 'member_not_found'
          WHEN p->>'organizationId' IS NOT NULL AND organization.id IS NULL THEN 'organization_not_found'
          WHEN organization.archived THEN 'organization_archived'
          WHEN target.status = 'archived' AND seat.free IS FALSE THEN 'contact_capacity_exhausted'
        END AS failure,
        ${id}::text AS resource_id, diff.changed, target.version + diff.changed::int AS version
      FROM patch
        LEFT JOIN target ON true
        LEFT JOIN diff ON true
        LEFT JOIN seat ON true
        LEFT JOIN members member ON member.project_id = ${projectId} AND member.id = p->>'responsibleMemberId'
        LEFT JOIN organizations organization
          ON organization.project_id = ${projectId} AND organization.id = p->>'organizationId'
    )`,
  effect: sql`
    seated AS (
      UPDATE projects SET active_clients = active_clients + CASE next.status WHEN 'active' THEN 1 ELSE -1 END
      FROM claim, seat, next WHERE projects.project_id = seat.project_id
    ),
    updated AS (
      UPDATE clients SET
        ${sql.literal(assignments)},
        version = clients.version + 1, updated_at = greatest(clients.updated_at, ${at}::timestamptz),
        archived_at = CASE WHEN next.status = 'archived' THEN ${at}::timestamptz END
      FROM claim, next
      WHERE clients.project_id = ${projectId} AND clients.id = ${id} AND claim.changed
    )`,
  problems: {
    client_not_found: () => new ClientNotFound({ detail: noSuchClient }),
    client_archived: () => new ClientArchived({ detail: 'Send exactly {"status":"active"} first.' }),
    member_not_found: () => new MemberNotFound({ detail: "responsibleMemberId names no member of the project." }),
    organization_not_found: () =>
      new OrganizationNotFound({ detail: "organizationId names no organization of the project." }),
    organization_archived: () => new OrganizationArchived({ detail: "organizationId names an archived organization." }),
    contact_capacity_exhausted: () => new ContactCapacityExhausted({ detail: capacityDetail })
  }
})
