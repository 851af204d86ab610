/** Which member of a client stands in which column. */

/** What a patch may change. */
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

export const columns = {
  id: "id",
  ...writable,
  version: ["version", "integer"],
  createdAt: ["created_at", "timestamptz"],
  updatedAt: ["updated_at", "timestamptz"],
  archivedAt: ["archived_at", "timestamptz"]
} as const
