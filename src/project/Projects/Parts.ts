/** The tables and columns of the parts of a project file. */
import type { SqlClient, Statement } from "effect/sql"
import * as Clients from "../../crm/ClientColumns.ts"
import * as Deals from "../../crm/DealColumns.ts"
import { type Columns, listOf } from "../../platform/Columns.ts"
import type { Derived, Given, Part } from "./Upsert.ts"

type Sql = SqlClient.SqlClient

/** Returns columns with the values of a new record whose member is absent; null unless one is given. */
const columns = (declared: Columns, initial: Readonly<Record<string, Statement.Fragment>> = {}): ReadonlyArray<Given> =>
  listOf(declared).map((column) => {
    const value = initial[column.member]
    return value === undefined ? column : { ...column, initial: value }
  })

export const members = (sql: Sql): Part => ({
  table: "members",
  given: columns({ name: "name", email: "email", active: ["active", "boolean"] }, { active: sql`true` })
})

export const organizations = (sql: Sql): Part => ({
  table: "organizations",
  given: columns({ name: "name", archived: ["archived", "boolean"] }, { archived: sql`false` })
})

export const pipelines: Part = {
  table: "pipelines",
  given: columns({ name: "name" }),
  lists: [
    {
      member: "stages",
      table: "stages",
      owner: "pipeline_id",
      position: "position",
      items: columns({ id: "id", name: "name" })
    }
  ]
}

export const loyaltyLevels: Part = {
  table: "loyalty_levels",
  given: columns({ name: "name" })
}

export const stampOffers: Part = {
  table: "stamp_offers",
  given: columns({ name: "name" })
}

/** For the records of `resolve` in Channels.ts. */
export const channels = (sql: Sql, now: Date): Part => ({
  table: "channels",
  given: columns(
    { providerType: "provider_type", displayName: "display_name", status: "status", config: ["config", "bytea"] },
    { status: sql`'active'` }
  ),
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

/** For the records of `clientRecord`. */
export const clients = (sql: Sql, now: Date): Part => ({
  table: "clients",
  given: columns(Clients.fileColumns, {
    tags: sql`'{}'`,
    status: sql`'active'`,
    marketingConsent: sql`false`,
    suppressed: sql`false`,
    createdAt: sql`${now}::timestamptz`,
    loyaltyBalance: sql`0`,
    readyStampOfferIds: sql`'{}'`
  }),
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
      items: columns({ channelId: "channel_id", address: "address" })
    }
  ]
})

/** For the records of `resolve` in Deals.ts. */
export const deals = (sql: Sql, now: Date): Part => ({
  table: "deals",
  given: columns(Deals.fileColumns, { lifecycle: sql`'active'`, createdAt: sql`${now}::timestamptz` }),
  derived: [version(sql), updatedAt(sql, now)]
})

/** For the records of `ticketRecord`. */
export const tickets = (sql: Sql): Part => ({
  table: "tickets",
  given: columns({
    subject: "subject",
    status: "status",
    clientId: "client_id",
    ratingScore: ["rating_score", "smallint"],
    ratingComment: "rating_comment",
    ratingBy: "rating_by"
  }),
  derived: [version(sql)]
})

export const conversations = (sql: Sql, now: Date): Part => ({
  table: "conversations",
  given: columns({ clientId: "client_id", channelId: "channel_id", address: "address" }),
  derived: [
    {
      column: "observed_at",
      created: sql`${now}::timestamptz`,
      changed: sql`CASE WHEN file."channelId" = old.channel_id THEN old.observed_at ELSE ${now}::timestamptz END`
    }
  ]
})

/** For the records of `segmentRecord`. */
export const segments = (sql: Sql, now: Date): Part => ({
  table: "segments",
  given: columns({ name: "name", description: "description" }),
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
      items: columns({ clientId: "client_id" })
    }
  ]
})

export const templates: Part = {
  table: "templates",
  key: columns({ version: ["version", "bigint"] }),
  given: columns({ name: "name", body: "body" })
}

/** A file sets the name only; commands set the rest. */
export const campaigns = (sql: Sql, now: Date): Part => ({
  table: "campaigns",
  given: columns({ name: "name" }),
  derived: [
    version(sql),
    { column: "created_at", created: sql`${now}::timestamptz`, changed: sql`old.created_at` },
    updatedAt(sql, now)
  ]
})

export const tasks = (sql: Sql, now: Date): Part => ({
  table: "tasks",
  given: columns({
    title: "title",
    dealId: "deal_id",
    clientId: "client_id",
    assigneeId: "assignee_id",
    dueAt: ["due_at", "timestamptz"],
    completedAt: ["completed_at", "timestamptz"]
  }),
  derived: [version(sql), { column: "created_at", created: sql`${now}::timestamptz`, changed: sql`old.created_at` }]
})

/** For the records of `installationRecord`. */
export const installations = (sql: Sql): Part => ({
  table: "installations",
  given: columns(
    {
      name: "name",
      status: "status",
      profileVersion: ["profile_version", "integer"],
      profileMappings: ["profile_mappings", "jsonb"],
      stagedDigest: "staged_digest"
    },
    { status: sql`'active'` }
  )
})
