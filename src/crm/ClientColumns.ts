/** The columns of clients, by who can set them. */
import { Struct } from "effect"
import { type Client, setByPatch } from "../api/crm/Clients.ts"
import type { Columns } from "../platform/database/Columns.ts"

/** The columns that a patch can set. */
export const writable = {
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

export const creatable = Struct.omit(writable, setByPatch)

export const columns = {
  id: "id",
  ...writable,
  version: ["version", "integer"],
  createdAt: ["created_at", "timestamptz"],
  updatedAt: ["updated_at", "timestamptz"],
  archivedAt: ["archived_at", "timestamptz"]
} as const satisfies Columns<keyof Client>

/** The columns that a project file can set. The client record of the API lacks consent, merging and loyalty. */
export const fileColumns = {
  ...writable,
  ...Struct.pick(columns, ["createdAt"]),
  marketingConsent: ["marketing_consent", "boolean"],
  suppressed: ["suppressed", "boolean"],
  mergedIntoClientId: "merged_into_client_id",
  loyaltyCardNumber: "loyalty_card_number",
  loyaltyLevelId: "loyalty_level_id",
  loyaltyBalance: ["loyalty_balance", "integer"],
  readyStampOfferIds: ["ready_stamp_offer_ids", "text[]"]
} as const
