/** Clients, the contacts of a project (contract §7). */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type {
  Client,
  ClientBatch,
  ClientCreate,
  ClientFilters,
  ClientPatch,
  ClientStatusFilter,
  ClientUpsert
} from "../api/crm/Clients.ts"
import { ClientId, type ProjectId } from "../api/schema/Ids.ts"
import {
  ClientNotFound,
  MemberNotFound,
  OrganizationArchived,
  OrganizationNotFound,
  PreconditionFailed
} from "../api/Problems.ts"
import { selectList } from "../sql/Columns.ts"
import { statement } from "../sql/Database.ts"
import { makeGrouped } from "../commands/Grouped.ts"
import type { Command } from "../commands/Command.ts"
import { mutate, Mutations } from "../commands/Mutations.ts"
import { lookup } from "../sql/Lookups.ts"
import { newId } from "../platform/NewId.ts"
import { type Appended, eventContext, Notifier, notifyingAfter } from "../outbox/Outbox.ts"
import { orderOf, pageLimit, pageOfRanges, type PageQuery, Pages, type Window } from "../http/pages/Pages.ts"
import { makeAddresses } from "./Clients/Addresses.ts"
import * as Create from "./Clients/Create.ts"
import { erase } from "./Clients/Erase.ts"
import { type ClientChange, patch, type Problem as PatchProblem } from "./Clients/Patch.ts"
import { columns } from "./ClientColumns.ts"
import { makeBatch } from "./Batches.ts"
import { makeFind, OtherRecord, upsert, without } from "./ExternalIds.ts"

export const makeClients = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const mutations = yield* Mutations
  const pages = yield* Pages
  const notifyAfter = notifyingAfter(yield* Notifier)
  const creating = makeGrouped<Create.NewClient, Create.Problem, Appended>(mutations, Create.create(sql))
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
