/** The columns of clients, grouped by what can set them. */
import { Struct } from "effect"
import { Client, clientFields, setByPatch } from "../api/crm/Clients.ts"
import { columnsOf } from "../platform/database/Columns.ts"

export const columns = columnsOf(Client.fields, {
  tags: "text[]",
  marketingConsent: "boolean",
  suppressed: "boolean",
  version: "integer"
})

export const writable = Struct.pick(columns, Struct.keys(clientFields))

export const creatable = Struct.omit(writable, setByPatch)

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
