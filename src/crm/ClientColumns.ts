/** The columns of clients, grouped by what can set them, and SQL for clients in events. */
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
