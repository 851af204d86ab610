/**
 * The parts of a project file (its lists, such as `clients`): how the members of their records map to tables and columns, for
 * `project apply` and `project export`.
 */
import * as Clients from "../crm/ClientColumns.ts"
import * as Deals from "../crm/DealColumns.ts"
import type { ProjectFile } from "./ProjectFile.ts"
import { Equal } from "effect"
import type { Columns } from "../sql/Columns.ts"

export interface FileRecord {
  readonly id: string
  readonly [member: string]: unknown
}

/**
 * The table of a part, with a column for each member of a record. An apply keeps the stored value of an absent member. In
 * SQL, `file` is the record of the file, with `project_id` and `applied_at` (the time of the apply), and `old` the stored record.
 */
export interface Part<Member extends string = string> {
  readonly table: string
  readonly columns: Columns<Member>
  /** Columns of the key besides the id. */
  readonly key?: Columns
  /** A member whose values are unique in a project. */
  readonly unique?: NoInfer<Member>
  /** SQL for the defaults of members that a new record may omit. A member without a default gets NULL. */
  readonly initial?: { readonly [M in NoInfer<Member>]?: string }
  /** Members that an export omits, because they are secret or not part of a file. */
  readonly hidden?: ReadonlyArray<NoInfer<Member>>
  /** An SQL condition of the records that an export writes. Default: all. */
  readonly exported?: string
  /** Columns that the service sets, each with SQL for its value in a new record and in a changed record. */
  readonly derived?: Readonly<Record<string, { readonly created: string; readonly changed: string }>>
  readonly groups?: Readonly<Record<string, Group<NoInfer<Member>>>>
  readonly lists?: Readonly<Record<string, List>>
  /** Lists that an export reads, but another module stores. */
  readonly foreignLists?: Readonly<Record<string, List>>
}

/** A member that is one object in a file, and several members in the record that `flatten` returns. */
interface Group<Member extends string> {
  /** For each member of the object, the member of the record. */
  readonly members: Readonly<Record<string, Member>>
  /** The object that null in a file stands for. */
  readonly none: Readonly<Record<string, unknown>>
  /** Whether a given object replaces the whole stored object. Then absent members have the values of `none`. */
  readonly isValue?: boolean
}

/** A member that is a list, with rows in its own table. A given list replaces the stored list; an absent list keeps it. */
export interface List {
  readonly table: string
  /** The column, in the table of the list, that has the id of the record. */
  readonly owner: string
  /** The members of an item, all required. If there is only one, the item in a file is the value of this member. */
  readonly items: Columns
  /** Whether the order of items has no meaning. */
  readonly isSet?: boolean
}

/** Whether the items of a list are values and not objects. */
export const hasValues = ({ items }: List): boolean => Object.keys(items).length === 1

/** Converts a record of a file: the members of a group become members of the record, and `isSet` lists are sorted. */
export const flatten = ({ groups = {}, lists = {} }: Part, record: FileRecord): FileRecord => {
  const flat: Record<string, unknown> & FileRecord = { ...record }
  for (const [member, { isValue = false, members, none }] of Object.entries(groups)) {
    const given = record[member]
    delete flat[member]
    if (given === undefined) continue
    const object: Readonly<Record<string, unknown>> = { ...(isValue || given === null ? none : {}), ...Object(given) }
    for (const [inner, outer] of Object.entries(members)) flat[outer] = object[inner]
  }
  for (const [member, { isSet = false }] of Object.entries(lists)) {
    const given = record[member]
    if (isSet && Array.isArray(given)) flat[member] = given.toSorted()
  }
  return flat
}

/** Converts a stored record to a record of a project file, without its lists. */
export const nest = ({ groups = {} }: Part, record: FileRecord): FileRecord => {
  const file: Record<string, unknown> & FileRecord = { ...record }
  for (const [member, { members, none }] of Object.entries(groups)) {
    const object = Object.fromEntries(Object.entries(members).map(([inner, outer]) => [inner, record[outer]]))
    for (const outer of Object.values(members)) delete file[outer]
    file[member] = Equal.equals(object, none) ? null : object
  }
  return file
}

/** Makes the compiler check that the members in `initial`, `hidden` and `groups` have columns. */
const part = <Member extends string>(part: Part<Member>): Part => part

const version = { version: { created: "1", changed: "old.version + 1" } }
const createdAt = { created_at: { created: "file.applied_at", changed: "old.created_at" } }
const updatedAt = { updated_at: { created: "file.applied_at", changed: "file.applied_at" } }

/** A column with the time at which a record took a status; NULL while it has another status. */
const since = (status: string, column: string) => ({
  [column]: {
    created: `CASE WHEN file.status = '${status}' THEN file.applied_at END`,
    changed: `CASE WHEN coalesce(file.status, old.status) = '${status}' THEN coalesce(old.${column}, file.applied_at) END`
  }
})

const contactCount = `jsonb_array_length(file.members -> 'clientIds')`

/** The parts by their names in a file. Referenced records precede the records that reference them. */
export const parts = {
  members: part({
    table: "members",
    columns: { name: "name", email: "email", active: ["active", "boolean"] },
    initial: { active: "true" }
  }),
  organizations: part({
    table: "organizations",
    columns: { name: "name", archived: ["archived", "boolean"] },
    initial: { archived: "false" }
  }),
  pipelines: part({
    table: "pipelines",
    columns: { name: "name" },
    lists: { stages: { table: "stages", owner: "pipeline_id", items: { id: "id", name: "name" } } }
  }),
  loyaltyLevels: part({ table: "loyalty_levels", columns: { name: "name" } }),
  stampOffers: part({ table: "stamp_offers", columns: { name: "name" } }),
  /** The records come from `resolve` in Channels.ts, which completes and seals their configs. */
  channels: part({
    table: "channels",
    columns: {
      providerType: "provider_type",
      displayName: "display_name",
      status: "status",
      config: ["config", "bytea"],
      providerVersion: ["provider_version", "integer"]
    },
    initial: { status: "'active'" },
    hidden: ["config", "providerVersion"],
    derived: {
      source_id: { created: "new_id('src', file.applied_at)", changed: "old.source_id" },
      connected_at: { created: "file.applied_at", changed: "old.connected_at" },
      ...since("revoked", "revoked_at")
    }
  }),
  clients: part({
    table: "clients",
    columns: Clients.fileColumns,
    unique: "externalId",
    initial: {
      tags: "'{}'",
      status: "'active'",
      marketingConsent: "false",
      suppressed: "false",
      createdAt: "file.applied_at",
      loyaltyBalance: "0",
      readyStampOfferIds: "'{}'"
    },
    derived: { ...version, ...updatedAt, ...since("archived", "archived_at") },
    groups: {
      loyalty: {
        members: {
          cardNumber: "loyaltyCardNumber",
          levelId: "loyaltyLevelId",
          balance: "loyaltyBalance",
          readyStampOfferIds: "readyStampOfferIds"
        },
        none: { cardNumber: null, levelId: null, balance: 0, readyStampOfferIds: [] }
      }
    },
    lists: {
      addresses: {
        table: "client_addresses",
        owner: "client_id",
        items: { channelId: "channel_id", address: "address" }
      }
    }
  }),
  /** `resolve` in Deals.ts has filled in omitted members such as the stage and the status, so these have no `initial`. */
  deals: part({
    table: "deals",
    columns: Deals.fileColumns,
    unique: "externalId",
    initial: { lifecycle: "'active'", createdAt: "file.applied_at" },
    derived: { ...version, ...updatedAt }
  }),
  tickets: part({
    table: "tickets",
    columns: {
      subject: "subject",
      status: "status",
      clientId: "client_id",
      ratingScore: ["rating_score", "smallint"],
      ratingComment: "rating_comment",
      ratingBy: "rating_by"
    },
    derived: version,
    groups: {
      // `isValue`, so that a new rating without a comment removes the old comment.
      rating: {
        members: { score: "ratingScore", comment: "ratingComment", by: "ratingBy" },
        none: { score: null, comment: null, by: null },
        isValue: true
      }
    }
  }),
  conversations: part({
    table: "conversations",
    columns: { clientId: "client_id", channelId: "channel_id", address: "address" },
    // A conversation of a client who was erased has no address, which a file requires.
    exported: "address <> ''",
    derived: {
      observed_at: {
        created: "file.applied_at",
        changed: `CASE WHEN file."channelId" = old.channel_id THEN old.observed_at ELSE file.applied_at END`
      }
    }
  }),
  segments: part({
    table: "segments",
    columns: { name: "name", description: "description" },
    derived: {
      contact_count: { created: contactCount, changed: contactCount },
      ...createdAt,
      ...updatedAt
    },
    lists: {
      clientIds: { table: "segment_clients", owner: "segment_id", items: { clientId: "client_id" }, isSet: true }
    }
  }),
  templates: part({
    table: "templates",
    key: { version: ["version", "bigint"] },
    columns: { name: "name", body: "body" }
  }),
  /** A file sets only the name of a campaign, not its settings or its state. */
  campaigns: part({
    table: "campaigns",
    columns: { name: "name" },
    derived: { ...version, ...createdAt, ...updatedAt }
  }),
  /** The table has only a digest of the staged records. `StagedBatches.ts` stores the staged records themselves. */
  installations: part({
    table: "installations",
    columns: {
      name: "name",
      status: "status",
      profileVersion: ["profile_version", "integer"],
      profileMappings: ["profile_mappings", "jsonb"],
      stagedDigest: "staged_digest"
    },
    initial: { status: "'active'" },
    hidden: ["stagedDigest"],
    groups: {
      importProfile: {
        members: { version: "profileVersion", mappings: "profileMappings" },
        none: { version: null, mappings: null }
      }
    },
    foreignLists: {
      stagedRecords: {
        table: "staged_records",
        owner: "installation_id",
        items: { entityType: "entity_type", externalId: "external_id", fields: ["fields", "json"] }
      }
    }
  }),
  tasks: part({
    table: "tasks",
    columns: {
      title: "title",
      dealId: "deal_id",
      clientId: "client_id",
      assigneeId: "assignee_id",
      dueAt: ["due_at", "timestamptz"],
      completedAt: ["completed_at", "timestamptz"]
    },
    derived: { ...version, ...createdAt }
  })
} satisfies Record<Exclude<keyof ProjectFile, "project">, Part>
export type PartName = keyof typeof parts
