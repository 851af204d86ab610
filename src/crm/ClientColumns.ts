/**
 * The columns of clients, grouped by what can set them, SQL for clients in events, and what the statements that write clients check
 * (contract §7): the contact capacity of the project, whose count of active clients is exact under concurrency, and the references to
 * a member and an organization.
 */
import { Struct } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import { Client, clientFields } from "../api/crm/Clients.ts"
import { alteredObject, columnsOf, jsonObject } from "../sql/Columns.ts"

export const columns = columnsOf(Client.fields, {
  tags: "text[]",
  marketingConsent: "boolean",
  suppressed: "boolean",
  version: "integer"
})

export const writable = Struct.pick(columns, Struct.keys(clientFields))

/** The columns that a patch can alter, without `version` and `updatedAt`, which every change alters. */
const alterable = { ...writable, archivedAt: columns.archivedAt }

/**
 * Returns SQL for the member `client` of an event's data, as arguments of json_build_object. `row` is the name of a CTE with the
 * rows of clients.
 */
export const eventClient = (row: string) => `'client', ${jsonObject(columns, row)}`

/** Returns SQL for the member `previous` of an event's data: what a change has altered, with the values before the change. */
export const eventPrevious = (before: string, after: string) => `'previous', ${alteredObject(alterable, before, after)}`

/** An SQL condition on `events`: the event has the data of a client. The index `events_of_clients` has this form. */
export const eventsOf = (sql: SqlClient.SqlClient, clientId: Statement.Fragment): Statement.Fragment => sql`
  events.type IN ('crm.client.created.v1', 'crm.client.updated.v1')
    AND (events.data -> 'client' ->> 'id') COLLATE "C" = ${clientId}`

/**
 * The columns that a project file can set. Merging and loyalty are listed here, because the API's client record lacks them.
 */
export const fileColumns = {
  ...writable,
  ...Struct.pick(columns, ["createdAt"]),
  mergedIntoClientId: "merged_into_client_id",
  loyaltyCardNumber: "loyalty_card_number",
  loyaltyLevelId: "loyalty_level_id",
  loyaltyBalance: ["loyalty_balance", "integer"],
  readyStampOfferIds: ["ready_stamp_offer_ids", "text[]"]
} as const

/**
 * Locks the rows of projects, then reads the free capacity of each. If the read came before the lock, a statement that waited
 * for the lock would not count the clients of the statement before it. `projects` is a query of distinct project ids, in lock
 * order.
 */
export const lockCapacity = (sql: SqlClient.SqlClient, projects: Statement.Fragment) => sql`
  capacity AS MATERIALIZED (
    SELECT limited.project_id, counter.free FROM (${projects}) AS limited, LATERAL (
      SELECT contact_capacity - active_clients AS free FROM projects
      WHERE projects.project_id = limited.project_id
      FOR NO KEY UPDATE
    ) AS counter
  )`

/** Changes the counters of active clients. `moves` is a query of `project_id` and `change`, with at most one row per project. */
export const addActiveClients = (sql: SqlClient.SqlClient, moves: Statement.Fragment) => sql`
  counted AS (
    UPDATE projects SET active_clients = active_clients + moves.change
    FROM (${moves}) AS moves WHERE projects.project_id = moves.project_id
  )`

/** Returns LEFT JOINs of the records that a command refers to. They are read by their keys, whatever the plan of the rest is. */
export const clientReferences = (memberId: string, organizationId: string): string => `
  LEFT JOIN LATERAL (
    SELECT id FROM members WHERE project_id = command.project_id AND id = ${memberId} OFFSET 0
  ) AS member ON true
  LEFT JOIN LATERAL (
    SELECT id, archived FROM organizations WHERE project_id = command.project_id AND id = ${organizationId} OFFSET 0
  ) AS organization ON true`

/** Returns the branches of a CASE with the failures of these references. */
export const referenceFailures = (memberId: string, organizationId: string): string => `
  WHEN ${memberId} IS NOT NULL AND member.id IS NULL THEN 'member_not_found'
  WHEN ${organizationId} IS NOT NULL AND organization.id IS NULL THEN 'organization_not_found'
  WHEN organization.archived THEN 'organization_archived'`
