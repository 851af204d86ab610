/** How the parts of a project file are stored: which member stands in which column. */
import type { SqlClient } from "effect/sql"
import type { Derived, Part } from "./Upsert.ts"

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

export const pipelines: Part = {
  table: "pipelines",
  given: [{ member: "name", column: "name", type: "text" }],
  lists: [
    {
      member: "stages",
      table: "stages",
      owner: "pipeline_id",
      position: "position",
      items: [
        { member: "id", column: "id", type: "text" },
        { member: "name", column: "name", type: "text" }
      ]
    }
  ]
}

export const loyaltyLevels: Part = {
  table: "loyalty_levels",
  given: [{ member: "name", column: "name", type: "text" }]
}

export const stampOffers: Part = {
  table: "stamp_offers",
  given: [{ member: "name", column: "name", type: "text" }]
}

/** Of the records that `resolve` of Channels.ts makes. */
export const channels = (sql: Sql, now: Date): Part => ({
  table: "channels",
  given: [
    { member: "providerType", column: "provider_type", type: "text" },
    { member: "displayName", column: "display_name", type: "text" },
    { member: "status", column: "status", type: "text", initial: sql`'active'` },
    { member: "config", column: "config", type: "bytea" }
  ],
  derived: [
    { column: "source_id", created: sql`new_id('src', ${now}::timestamptz)`, changed: sql`old.source_id` },
    { column: "connected_at", created: sql`${now}::timestamptz`, changed: sql`old.connected_at` },
    {
      column: "revoked_at",
      created: sql`CASE WHEN file.status = 'revoked' THEN ${now}::timestamptz END`,
      changed: sql`CASE WHEN coalesce(file.status, old.status) = 'revoked'
        THEN coalesce(old.revoked_at, ${now}::timestamptz) END`
    }
  ]
})

const version = (sql: Sql): Derived => ({ column: "version", created: sql`1`, changed: sql`old.version + 1` })
const updatedAt = (sql: Sql, now: Date): Derived => ({
  column: "updated_at",
  created: sql`${now}::timestamptz`,
  changed: sql`${now}::timestamptz`
})

/** Of the records that `clientRecord` makes. */
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
    { member: "marketingConsent", column: "marketing_consent", type: "boolean", initial: sql`false` },
    { member: "suppressed", column: "suppressed", type: "boolean", initial: sql`false` },
    { member: "mergedIntoClientId", column: "merged_into_client_id", type: "text" },
    { member: "createdAt", column: "created_at", type: "timestamptz", initial: sql`${now}::timestamptz` },
    { member: "loyaltyCardNumber", column: "loyalty_card_number", type: "text" },
    { member: "loyaltyLevelId", column: "loyalty_level_id", type: "text" },
    { member: "loyaltyBalance", column: "loyalty_balance", type: "integer", initial: sql`0` },
    { member: "readyStampOfferIds", column: "ready_stamp_offer_ids", type: "text[]", initial: sql`'{}'` }
  ],
  derived: [
    version(sql),
    updatedAt(sql, now),
    {
      column: "archived_at",
      created: sql`CASE WHEN file.status = 'archived' THEN ${now}::timestamptz END`,
      changed: sql`CASE WHEN coalesce(file.status, old.status) = 'archived'
        THEN coalesce(old.archived_at, ${now}::timestamptz) END`
    }
  ],
  lists: [
    {
      member: "addresses",
      table: "client_addresses",
      owner: "client_id",
      position: "position",
      items: [
        { member: "channelId", column: "channel_id", type: "text" },
        { member: "address", column: "address", type: "text" }
      ]
    }
  ]
})

/** Of the records that `resolve` of Deals.ts makes. */
export const deals = (sql: Sql, now: Date): Part => ({
  table: "deals",
  given: [
    { member: "title", column: "title", type: "text" },
    { member: "clientId", column: "client_id", type: "text" },
    { member: "organizationId", column: "organization_id", type: "text" },
    { member: "pipelineId", column: "pipeline_id", type: "text" },
    { member: "stageId", column: "stage_id", type: "text" },
    { member: "status", column: "status", type: "text" },
    { member: "lifecycle", column: "lifecycle", type: "text", initial: sql`'active'` },
    { member: "amountMinor", column: "amount_minor", type: "bigint" },
    { member: "currency", column: "currency", type: "text" },
    { member: "expectedCloseDate", column: "expected_close_date", type: "date" },
    { member: "responsibleMemberId", column: "responsible_member_id", type: "text" },
    { member: "lostReason", column: "lost_reason", type: "text" },
    { member: "closedAt", column: "closed_at", type: "timestamptz" },
    { member: "createdAt", column: "created_at", type: "timestamptz", initial: sql`${now}::timestamptz` }
  ],
  derived: [version(sql), updatedAt(sql, now)]
})

/** Of the records that `ticketRecord` makes. */
export const tickets = (sql: Sql): Part => ({
  table: "tickets",
  given: [
    { member: "subject", column: "subject", type: "text" },
    { member: "status", column: "status", type: "text" },
    { member: "clientId", column: "client_id", type: "text" },
    { member: "ratingScore", column: "rating_score", type: "smallint" },
    { member: "ratingComment", column: "rating_comment", type: "text" },
    { member: "ratingBy", column: "rating_by", type: "text" }
  ],
  derived: [version(sql)]
})

export const conversations = (sql: Sql, now: Date): Part => ({
  table: "conversations",
  given: [
    { member: "clientId", column: "client_id", type: "text" },
    { member: "channelId", column: "channel_id", type: "text" },
    { member: "address", column: "address", type: "text" }
  ],
  derived: [
    {
      column: "observed_at",
      created: sql`${now}::timestamptz`,
      changed: sql`CASE WHEN file."channelId" = old.channel_id THEN old.observed_at ELSE ${now}::timestamptz END`
    }
  ]
})

/** Of the records that `segmentRecord` makes. */
export const segments = (sql: Sql, now: Date): Part => ({
  table: "segments",
  given: [
    { member: "name", column: "name", type: "text" },
    { member: "description", column: "description", type: "text" }
  ],
  derived: [
    {
      column: "contact_count",
      created: sql`jsonb_array_length(file.members -> 'clients')`,
      changed: sql`jsonb_array_length(file.members -> 'clients')`
    },
    { column: "created_at", created: sql`${now}::timestamptz`, changed: sql`old.created_at` },
    updatedAt(sql, now)
  ],
  lists: [
    {
      member: "clients",
      table: "segment_clients",
      owner: "segment_id",
      position: "position",
      items: [{ member: "clientId", column: "client_id", type: "text" }]
    }
  ]
})

export const templates: Part = {
  table: "templates",
  key: [{ member: "version", column: "version", type: "bigint" }],
  given: [
    { member: "name", column: "name", type: "text" },
    { member: "body", column: "body", type: "text" }
  ]
}

/** Only its name comes from a file; the rest is done by commands. */
export const campaigns = (sql: Sql, now: Date): Part => ({
  table: "campaigns",
  given: [{ member: "name", column: "name", type: "text" }],
  derived: [
    version(sql),
    { column: "created_at", created: sql`${now}::timestamptz`, changed: sql`old.created_at` },
    updatedAt(sql, now)
  ]
})

export const tasks = (sql: Sql, now: Date): Part => ({
  table: "tasks",
  given: [
    { member: "title", column: "title", type: "text" },
    { member: "dealId", column: "deal_id", type: "text" },
    { member: "clientId", column: "client_id", type: "text" },
    { member: "assigneeId", column: "assignee_id", type: "text" },
    { member: "dueAt", column: "due_at", type: "timestamptz" },
    { member: "completedAt", column: "completed_at", type: "timestamptz" }
  ],
  derived: [version(sql), { column: "created_at", created: sql`${now}::timestamptz`, changed: sql`old.created_at` }]
})

/** Of the records that `installationRecord` makes. */
export const installations = (sql: Sql): Part => ({
  table: "installations",
  given: [
    { member: "name", column: "name", type: "text" },
    { member: "status", column: "status", type: "text", initial: sql`'active'` },
    { member: "profileVersion", column: "profile_version", type: "integer" },
    { member: "profileMappings", column: "profile_mappings", type: "jsonb" },
    { member: "stagedDigest", column: "staged_digest", type: "text" }
  ]
})
