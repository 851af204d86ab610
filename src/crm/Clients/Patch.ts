import type { SqlClient } from "effect/sql"
import type { ClientPatch } from "../../api/crm/Clients.ts"
import type { ClientId } from "../../api/schema/Ids.ts"
import {
  ClientArchived,
  ClientNotFound,
  ContactCapacityExhausted,
  type ExternalIdTaken,
  MemberNotFound,
  OrganizationArchived,
  OrganizationNotFound,
  type PreconditionFailed
} from "../../api/Problems.ts"
import { assignmentList, differ, patchList, qualifiedList } from "../../sql/Columns.ts"
import type { Kind } from "../../commands/Kind.ts"
import { plain, preconditionFailed } from "../../commands/Command.ts"
import {
  addActiveClients,
  clientReferences,
  eventClient,
  eventPrevious,
  lockCapacity,
  referenceFailures,
  writable
} from "../ClientColumns.ts"
import { eventsOf } from "../../outbox/Outbox.ts"
import {
  type Expected,
  expectedArgs,
  external_id_taken,
  holderOf,
  type OtherRecord,
  otherRecord,
  otherRecordProblem,
  takenBy
} from "../References.ts"

const patchedValues = patchList(writable)
const differs = differ(writable, "next", "target")
const assignments = assignmentList(writable, "applied")
const nextValues = qualifiedList(writable, "next")

const holder = holderOf("clients", "next", "next.wanted_external_id")

/** The column `before` of `updated` is the whole row before the change. */
const updatedData = `json_build_object(${eventClient("updated")}, ${eventPrevious("(updated.before)", "updated")})`

const memberId = "p->>'responsibleMemberId'"
const organizationId = "p->>'organizationId'"

export interface ClientChange extends Expected {
  readonly id: ClientId
  readonly traceparent: string
  readonly p: ClientPatch
}

export type Problem =
  | ClientNotFound
  | ClientArchived
  | MemberNotFound
  | OrganizationNotFound
  | OrganizationArchived
  | ContactCapacityExhausted
  | ExternalIdTaken
  | PreconditionFailed
  | OtherRecord

export const patch = (sql: SqlClient.SqlClient): Kind<ClientChange, Problem> => ({
  args: { id: "text", traceparent: "text", p: "jsonb", ...expectedArgs },
  takes: ({ id, p }) => [id, ...takenBy(p.externalId)],
  decided: ({ absent, crowded, holds, inOrder, locked, projects, rank }) => sql`
    next AS MATERIALIZED (
      SELECT command.ord, command.project_id, target.status AS old_status, target.version AS old_version, next.*,
        p->>'externalId' AS wanted_external_id, target.external_id AS old_external_id, before,
        target.status <> next.status AND contact_capacity IS NOT NULL AS moved, ${sql.literal(differs)} AS differs
      FROM ${inOrder},
        LATERAL (
          SELECT clients AS before, clients.* FROM clients WHERE project_id = command.project_id AND id = command.id FOR NO KEY UPDATE ${locked}
        ) AS target,
        LATERAL (SELECT ${sql.literal(patchedValues)}) AS next
    ),
    ${lockCapacity(sql, projects(sql`next WHERE moved`))},
    decided AS MATERIALIZED (
      SELECT command.*, ${sql.literal(nextValues)}, before,
        moved,
        CASE
          WHEN next.ord IS NULL THEN ${absent(sql`SELECT FROM clients WHERE project_id = command.project_id AND id = command.id`, "client_not_found")}
          WHEN NOT ${holds} THEN 'precondition_failed'
          ${sql.literal(otherRecord("next"))}
          WHEN old_status = 'archived' AND p <> '{"status":"active"}' THEN 'client_archived'
          ${sql.literal(referenceFailures(memberId, organizationId))}
          WHEN holder.id <> command.id THEN 'external_id_taken'
          WHEN moved AND next.status = 'active'
            AND ${rank("command.project_id, moved AND next.status = 'active'")} > capacity.free
            THEN ${crowded("contact_capacity_exhausted")}
        END AS failure, ARRAY[holder.id] AS faults,
        command.id AS resource_id, differs AS changed, old_version + (differs AND ${holds} IS NOT FALSE)::int AS version
      FROM command
        LEFT JOIN next ON next.ord = command.ord
        LEFT JOIN capacity ON capacity.project_id = command.project_id
        ${sql.literal(clientReferences(memberId, organizationId))}
        LEFT JOIN LATERAL (${sql.literal(holder)}) AS holder ON true
    )`,
  effect: ({ sums }) => sql`
    ${addActiveClients(sql, sums(sql`SELECT project_id, CASE status WHEN 'active' THEN 1 ELSE -1 END AS change FROM applied WHERE moved`))},
    updated AS (
      UPDATE clients SET
        ${sql.literal(assignments)},
        version = clients.version + 1, updated_at = greatest(clients.updated_at, applied.at),
        archived_at = CASE WHEN applied.status = 'archived' THEN applied.at END
      FROM applied
      WHERE clients.project_id = applied.project_id AND clients.id = applied.id AND applied.changed
      RETURNING clients.*, applied.traceparent, applied.before
    )`,
  events: eventsOf(sql, {
    "crm.client.updated.v1": (type) => sql`
      SELECT project_id, ${type}, ${sql.literal(updatedData)}, updated_at, traceparent
      FROM updated`
  }),
  problems: {
    ...preconditionFailed,
    ...plain(
      ClientNotFound,
      ClientArchived,
      MemberNotFound,
      OrganizationNotFound,
      OrganizationArchived,
      ContactCapacityExhausted
    ),
    external_id_taken: external_id_taken("client"),
    ...otherRecordProblem
  }
})
