/** How the parts of a project file are stored: which member stands in which column. */
import type { SqlClient } from "effect/sql"
import type { Part } from "./Upsert.ts"

type Sql = SqlClient.SqlClient

export const members = (sql: Sql): Part => ({
  table: "members",
  given: [
    { member: "name", column: "name", type: "text" },
    { member: "email", column: "email", type: "text" },
    { member: "active", column: "active", type: "boolean", initial: sql`true` }
  ]
})

export const organizations = (sql: Sql): Part => ({
  table: "organizations",
  given: [
    { member: "name", column: "name", type: "text" },
    { member: "archived", column: "archived", type: "boolean", initial: sql`false` }
  ]
})

export const clients = (sql: Sql, now: Date): Part => ({
  table: "clients",
  given: [
    { member: "displayName", column: "display_name", type: "text" },
    { member: "firstName", column: "first_name", type: "text" },
    { member: "lastName", column: "last_name", type: "text" },
    { member: "email", column: "email", type: "text" },
    { member: "phone", column: "phone", type: "text" },
    { member: "tags", column: "tags", type: "text[]", initial: sql`'{}'` },
    { member: "externalId", column: "external_id", type: "text" },
    { member: "status", column: "status", type: "text", initial: sql`'active'` },
    { member: "organizationId", column: "organization_id", type: "text" },
    { member: "responsibleMemberId", column: "responsible_member_id", type: "text" },
    { member: "createdAt", column: "created_at", type: "timestamptz", initial: sql`${now}::timestamptz` }
  ],
  derived: [
    { column: "version", created: sql`1`, changed: sql`old.version + 1` },
    { column: "updated_at", created: sql`${now}::timestamptz`, changed: sql`${now}::timestamptz` },
    {
      column: "archived_at",
      created: sql`CASE WHEN file.status = 'archived' THEN ${now}::timestamptz END`,
      changed: sql`CASE WHEN coalesce(file.status, old.status) = 'archived'
        THEN coalesce(old.archived_at, ${now}::timestamptz) END`
    }
  ]
})
