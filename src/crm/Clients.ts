/** Clients, the contacts of a project (contract §7). */
import { Effect, Struct } from "effect"
import { SqlClient } from "effect/sql"
import {
  type Client,
  type ClientBatch,
  type ClientCreate,
  type ClientFilters,
  type ClientPatch,
  clientRules,
  type ClientStatusFilter,
  type ClientUpsert
} from "../api/crm/Clients.ts"
import { ClientId, type ProjectId } from "../api/schema/Ids.ts"
import {
  ClientNotFound,
  ContactCapacityExhausted,
  type ExternalIdTaken,
  MemberNotFound,
  OrganizationArchived,
  OrganizationNotFound,
  PreconditionFailed,
  ValidationFailed
} from "../api/Problems.ts"
import { argumentsOf, insertedValues, insertList, selectList } from "../sql/Columns.ts"
import { statement } from "../sql/Database.ts"
import { makeGrouped } from "../commands/Grouped.ts"
import { type Command, plain, preconditionFailed } from "../commands/Command.ts"
import { mutate, Mutations } from "../commands/Mutations.ts"
import { lookup } from "../sql/Lookups.ts"
import { newId } from "../platform/Ids.ts"
import { type Appended, eventContext, eventsOf, Notifier, notifyingAfter } from "../outbox/Outbox.ts"
import { orderOf, pageLimit, pageOfRanges, type PageQuery, Pages, type Window } from "../http/pages/Pages.ts"
import { makeAddresses } from "./Clients/Addresses.ts"
import { erase } from "./Clients/Erase.ts"
import { type ClientChange, patch, type Problem as PatchProblem } from "./Clients/Patch.ts"
import {
  addActiveClients,
  clientReferences,
  columns,
  eventClient,
  lockCapacity,
  referenceFailures,
  writable
} from "./ClientColumns.ts"
import { makeBatch } from "./Batches.ts"
import { external_id_taken, holderOf, makeFind, OtherRecord, takenBy, upsert, without } from "./References.ts"
import type { Kind } from "../commands/Kind.ts"

export const makeClients = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const mutations = yield* Mutations
  const pages = yield* Pages
  const notifyAfter = notifyingAfter(yield* Notifier)
  const creating = makeGrouped<NewClient, CreateProblem, Appended>(mutations, createClients(sql))
  const patching = makeGrouped<ClientChange, PatchProblem, Appended>(mutations, patch(sql))
  const find = makeFind(sql, "clients")
  const create = Effect.fnUntraced(function* (command: Command, client: ClientPatch) {
    const { at, traceparent } = yield* eventContext(command.projectId)
    const id = ClientId.make(yield* newId("cli"))
    return yield* notifyAfter(command.projectId, creating(command, at, { id, traceparent, ...client }))
  })
  const change = Effect.fnUntraced(function* (command: Command, id: ClientId, p: ClientPatch, externalId?: string) {
    const { at, traceparent } = yield* eventContext(command.projectId)
    const expected = externalId === undefined ? {} : { expectedExternalId: externalId }
    return yield* notifyAfter(command.projectId, patching(command, at, { id, traceparent, p, ...expected }))
  })
  const upserted = (command: Command, externalId: string, p: ClientUpsert) =>
    upsert({
      command,
      find: find(command.projectId, externalId),
      create: (command) => create(command, { ...p, externalId }),
      patch: (command, id) => change(command, ClientId.make(id), p, externalId)
    })
  const batch = yield* makeBatch

  return {
    list: (projectId: ProjectId, { cursor, limit, ...given }: PageQuery & ClientFilters) => {
      const filters = { ...given, email: given.email?.toLowerCase() }
      const read = filters.updatedSince === undefined ? pages.read : pages.readByChange
      return read({ projectId, operation: "listClients", filters }, { cursor, limit }, (window) =>
        statement(list(sql, projectId, filters, window))
      )
    },
    get: lookup<Client, ClientNotFound>(sql, "clients", columns, () => new ClientNotFound()),
    create: (command: Command, client: ClientCreate) => asCreate(create(command, client)),
    /** Changes the fields of the patch. An archived client accepts only its reactivation. */
    patch: (command: Command, id: ClientId, p: ClientPatch) => asPatch(change(command, id, p)),
    upsert: upserted,
    batch: (command: Command, { items }: ClientBatch) =>
      batch(command, items, (command, { externalId, ...p }) => upserted(command, externalId, p)),
    erase: Effect.fnUntraced(function* (command: Command, id: ClientId) {
      const erasing = mutate<ClientNotFound | PreconditionFailed, Appended>(
        mutations,
        command,
        erase(sql, yield* eventContext(command.projectId), id)
      )
      return yield* notifyAfter(command.projectId, erasing)
    }),
    addresses: makeAddresses(sql, mutations)
  }
})

const asCreate = without<MemberNotFound | OrganizationNotFound | OrganizationArchived | PreconditionFailed>(
  PreconditionFailed,
  MemberNotFound,
  OrganizationNotFound,
  OrganizationArchived
)
const asPatch = without(OtherRecord)

const record = selectList(columns)

/**
 * Lists clients. At most one client has an external id, and few share a mail address or a phone number: they are found by an index
 * of the value, and sorted unless they are listed by age. All other lists read an index in their order.
 */
const list = (
  sql: SqlClient.SqlClient,
  projectId: ProjectId,
  { email, externalId, phone, status, updatedSince }: ClientFilters,
  window: Window
) => {
  const order = orderOf(sql, updatedSince, window)
  const values = [
    ...(externalId === undefined ? [] : [sql`external_id = (SELECT ${externalId}::text)`]),
    ...(email === undefined ? [] : [sql`lower(email COLLATE "C") = (SELECT ${email}::text)`]),
    ...(phone === undefined ? [] : [sql`phone = (SELECT ${phone}::text)`])
  ]
  const range = (status: ClientStatusFilter, listed: string) => sql`
    project_id = ${projectId} ${sql.literal(status === "all" ? "" : `AND status = '${status}'`)} ${sql.literal(listed)}`
  if (values.length > 0) {
    return sql<Client>`
      SELECT ${sql.literal(record)} FROM clients
      WHERE ${range(status, "")} AND ${sql.and(values)} ${order.following}
      ORDER BY ${sql.literal(order.columns)}
      ${pageLimit(sql, window)}`
  }
  const statuses: ReadonlyArray<ClientStatusFilter> =
    updatedSince !== undefined && status === "all" ? ["active", "archived"] : [status]
  return pageOfRanges<Client>(
    sql,
    { table: "clients", record },
    order,
    window,
    statuses.map((status) => range(status, order.listed))
  )
}

/** A new client. An upsert can set all members, and may lack the name. */
interface NewClient extends ClientPatch {
  readonly id: ClientId
  readonly traceparent: string
}

type CreateProblem =
  | ContactCapacityExhausted
  | ExternalIdTaken
  | MemberNotFound
  | OrganizationArchived
  | OrganizationNotFound
  | PreconditionFailed
  | ValidationFailed

const createdData = `json_build_object(${eventClient("created")})`

const holder = holderOf("clients", "command", `"externalId"`)

/** The columns that take the values of the command unchanged. The status has a default. */
const given = Struct.omit(writable, ["status"])

const status = `coalesce("status", 'active')`

/**
 * If a project has no capacity left, all its commands are refused. If less is left than the group needs, the later commands stay
 * undecided and run again alone, because their outcome depends on the commands before them.
 */
const createClients = (sql: SqlClient.SqlClient): Kind<NewClient, CreateProblem> => ({
  args: { id: "text", traceparent: "text", ...argumentsOf(writable) },
  takes: ({ externalId }) => takenBy(externalId),
  decided: ({ crowded, projects, rank }) => sql`
    ${lockCapacity(sql, projects(sql`command WHERE contact_capacity IS NOT NULL`))},
    decided AS MATERIALIZED (
      SELECT command.*, capacity.free IS NOT NULL AND ${sql.literal(status)} = 'active' AS counted,
        CASE
          WHEN holder.id IS NOT NULL THEN 'external_id_taken'
          WHEN "ifMatch" IS NOT NULL THEN 'precondition_failed'
          WHEN "displayName" IS NULL THEN 'validation_failed'
          ${sql.literal(referenceFailures(`"responsibleMemberId"`, `"organizationId"`))}
          WHEN ${sql.literal(status)} = 'archived' THEN NULL
          WHEN capacity.free <= 0 THEN 'contact_capacity_exhausted'
          WHEN ${rank(`command.project_id, ${status}`)} > capacity.free THEN ${crowded("contact_capacity_exhausted")}
        END AS failure, ARRAY[holder.id] AS faults,
        command.id AS resource_id, true AS changed, CASE WHEN "ifMatch" IS NULL THEN 1 END AS version
      FROM command
        LEFT JOIN capacity ON capacity.project_id = command.project_id
        LEFT JOIN LATERAL (${sql.literal(holder)}) AS holder ON true
        ${sql.literal(clientReferences(`"responsibleMemberId"`, `"organizationId"`))}
    )`,
  effect: ({ sums }) => sql`
    ${addActiveClients(sql, sums(sql`SELECT project_id, 1 AS change FROM applied WHERE applied.counted`))},
    created AS (
      INSERT INTO clients (project_id, id, ${sql.literal(insertList(given))}, status, archived_at, version, created_at, updated_at)
      SELECT project_id, id, ${sql.literal(insertedValues(given))}, ${sql.literal(status)},
        CASE WHEN "status" = 'archived' THEN at END, 1, at, at
      FROM applied
      RETURNING *
    )`,
  events: eventsOf(sql, {
    "crm.client.created.v1": (type) => sql`
      SELECT created.project_id, ${type}, ${sql.literal(createdData)}, created.created_at, applied.traceparent
      FROM created JOIN applied USING (project_id, id)`
  }),
  problems: {
    ...preconditionFailed,
    ...plain(MemberNotFound, OrganizationNotFound, OrganizationArchived, ContactCapacityExhausted),
    validation_failed: () => new ValidationFailed({ errors: { "body/displayName": [clientRules.displayName] } }),
    external_id_taken: external_id_taken("client")
  }
})
