/** The columns of deals, by who can set them, and the deals in events. */
import { Struct } from "effect"
import { type Deal, setByPatch } from "../api/crm/Deals.ts"
import { alteredObject, type Columns, jsonObject } from "../platform/database/Columns.ts"

/** The columns that a patch can set. */
export const writable = {
  title: "title",
  clientId: "client_id",
  organizationId: "organization_id",
  pipelineId: "pipeline_id",
  stageId: "stage_id",
  status: "status",
  lifecycle: "lifecycle",
  amountMinor: ["amount_minor", "bigint"],
  currency: "currency",
  expectedCloseDate: ["expected_close_date", "date"],
  responsibleMemberId: "responsible_member_id",
  lostReason: "lost_reason"
} as const

export const creatable = Struct.omit(writable, setByPatch)

export const columns = {
  id: "id",
  ...writable,
  closedAt: ["closed_at", "timestamptz"],
  version: ["version", "integer"],
  createdAt: ["created_at", "timestamptz"],
  updatedAt: ["updated_at", "timestamptz"]
} as const satisfies Columns<keyof Deal>

/** The columns that a patch can alter, without `version` and `updatedAt`, which every change alters. */
const alterable = { ...writable, closedAt: columns.closedAt } as const

export const fileColumns = { ...writable, ...Struct.pick(columns, ["closedAt", "createdAt"]) } as const

/** Returns the member `deal` of an event's data, for json_build_object. `row` names a row that a create or a patch returns. */
export const eventDeal = (row: string) => `'deal', ${jsonObject(columns, row)}`

/** Returns the member `previous` of an event's data: the members that a change has altered, with their values in `before`. */
export const eventPrevious = (before: string, after: string) => `'previous', ${alteredObject(alterable, before, after)}`
