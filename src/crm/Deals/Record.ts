/** Which member of a deal stands in which column. */
import { jsonObject } from "../../platform/Columns.ts"

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

export const columns = {
  id: "id",
  ...writable,
  closedAt: ["closed_at", "timestamptz"],
  version: ["version", "integer"],
  createdAt: ["created_at", "timestamptz"],
  updatedAt: ["updated_at", "timestamptz"]
} as const

/** The `deal` of an event, of a row that a create or a patch leaves. */
export const eventDeal = (row: string) => `'deal', ${jsonObject(columns, row)}`
