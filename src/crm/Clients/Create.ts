/** Creates clients in groups: one statement for all commands that arrive together. */
import { Struct } from "effect"
import type { SqlClient } from "effect/sql"
import { type ClientPatch, clientRules } from "../../api/crm/Clients.ts"
import type { ClientId } from "../../api/schema/Ids.ts"
import {
  ContactCapacityExhausted,
  type ExternalIdTaken,
  MemberNotFound,
  OrganizationArchived,
  OrganizationNotFound,
  type PreconditionFailed,
  ValidationFailed
} from "../../api/Problems.ts"
import { argumentsOf, insertedValues, insertList } from "../../sql/Columns.ts"
import type { Kind } from "../../commands/Kind.ts"
import { plain, preconditionFailed } from "../../commands/Command.ts"
import { addActiveClients, clientReferences, lockCapacity, referenceFailures } from "./Guards.ts"
import { append, appendedInstallations, eventType } from "../../outbox/Outbox.ts"
import { eventClient, writable } from "../ClientColumns.ts"
import { external_id_taken, holderOf, takenBy } from "../ExternalIds.ts"

/** A new client. An upsert can set all members, and may lack the name. */
export interface NewClient extends ClientPatch {
  readonly id: ClientId
  readonly traceparent: string
}

export type Problem =
  | ContactCapacityExhausted
  | ExternalIdTaken
  | MemberNotFound
  | OrganizationArchived
  | OrganizationNotFound
  | PreconditionFailed
  | ValidationFailed

const createdData = `json_build_object(${eventClient("created")})`

const holder = holderOf("clients", "command", `"externalId"`)

/** The columns that take the values of the command unchanged. The status has a default. */
const given = Struct.omit(writable, ["status"])

const status = `coalesce("status", 'active')`

/**
 * If a project has no capacity left, all its commands are refused. If less is left than the group needs, the later commands stay
 * undecided and run again alone, because their outcome depends on the commands before them.
 */
export const create = (sql: SqlClient.SqlClient): Kind<NewClient, Problem> => ({
  args: { id: "text", traceparent: "text", ...argumentsOf(writable) },
  takes: ({ externalId }) => takenBy(externalId),
  decided: ({ crowded, projects, rank }) => sql`
    ${lockCapacity(sql, projects(sql`command WHERE contact_capacity IS NOT NULL`))},
    decided AS MATERIALIZED (
      SELECT command.*, capacity.free IS NOT NULL AND ${sql.literal(status)} = 'active' AS counted,
        CASE
          WHEN holder.id IS NOT NULL THEN 'external_id_taken'
          WHEN "ifMatch" IS NOT NULL THEN 'precondition_failed'
          WHEN "displayName" IS NULL THEN 'validation_failed'
          ${sql.literal(referenceFailures(`"responsibleMemberId"`, `"organizationId"`))}
          WHEN ${sql.literal(status)} = 'archived' THEN NULL
          WHEN capacity.free <= 0 THEN 'contact_capacity_exhausted'
          WHEN ${rank(`command.project_id, ${status}`)} > capacity.free THEN ${crowded("contact_capacity_exhausted")}
        END AS failure, ARRAY[holder.id] AS faults,
        command.id AS resource_id, true AS changed, CASE WHEN "ifMatch" IS NULL THEN 1 END AS version
      FROM command
        LEFT JOIN capacity ON capacity.project_id = command.project_id
        LEFT JOIN LATERAL (${sql.literal(holder)}) AS holder ON true
        ${sql.literal(clientReferences(`"responsibleMemberId"`, `"organizationId"`))}
    )`,
  effect: ({ sums }) => sql`
    ${addActiveClients(sql, sums(sql`SELECT project_id, 1 AS change FROM claim WHERE claim.counted`))},
    created AS (
      INSERT INTO clients (project_id, id, ${sql.literal(insertList(given))}, status, archived_at, version, created_at, updated_at)
      SELECT project_id, id, ${sql.literal(insertedValues(given))}, ${sql.literal(status)},
        CASE WHEN "status" = 'archived' THEN at END, 1, at, at
      FROM claim
      RETURNING *
    ),
    ${append(
      sql,
      sql`
        SELECT created.project_id, ${eventType(sql, "crm.client.created.v1")}, ${sql.literal(createdData)}, created.created_at,
          claim.traceparent
        FROM created JOIN claim USING (project_id, id)`
    )}`,
  returning: ({ distinct }) => appendedInstallations(sql, sql`decided.project_id`, distinct),
  problems: {
    ...preconditionFailed,
    ...plain(MemberNotFound, OrganizationNotFound, OrganizationArchived, ContactCapacityExhausted),
    validation_failed: () => new ValidationFailed({ errors: { "body/displayName": [clientRules.displayName] } }),
    external_id_taken: external_id_taken("client")
  }
})
