/** Clients, the contacts of a project (contract §7). */
import { DateTime, Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { Client, ClientCreate, ClientPatch, ClientStatusFilter } from "../api/crm/Clients.ts"
import { ClientId, type ProjectId } from "../api/schema/Ids.ts"
import { ClientNotFound } from "../api/Problems.ts"
import { selectList } from "../platform/database/Columns.ts"
import { statement } from "../platform/database/Database.ts"
import { makeGrouped } from "../platform/mutations/Grouped.ts"
import type { Command } from "../platform/mutations/Idempotency.ts"
import { Mutations } from "../platform/mutations/Mutations.ts"
import { lookup } from "../platform/database/Lookups.ts"
import { newId } from "../platform/NewId.ts"
import { pageCondition, pageLimit, type PageQuery, Pages, type Window } from "../platform/requests/Pages.ts"
import { create } from "./Clients/Create.ts"
import { patch } from "./Clients/Patch.ts"
import { columns } from "./ClientColumns.ts"

export const makeClients = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const mutations = yield* Mutations
  const pages = yield* Pages
  const creating = makeGrouped(mutations, create(sql))
  const patching = makeGrouped(mutations, patch(sql))
  return {
    list: (projectId: ProjectId, { status, ...query }: PageQuery & { readonly status: ClientStatusFilter }) =>
      pages.read({ projectId, operation: "listClients", filters: { status } }, query, (window) =>
        statement(list(sql, projectId, status, window))
      ),
    get: lookup<Client, ClientNotFound>(sql, "clients", columns, () => new ClientNotFound()),
    create: (command: Command, client: ClientCreate) =>
      Effect.flatMap(DateTime.nowAsDate, (now) =>
        Effect.flatMap(newId("cli"), (id) => creating(command, now, { id: ClientId.make(id), ...client }))
      ),
    /** Changes the fields of the patch. An archived client accepts only its reactivation. */
    patch: (command: Command, id: ClientId, p: ClientPatch) =>
      Effect.flatMap(DateTime.nowAsDate, (now) => patching(command, now, { id, p }))
  }
})

const record = selectList(columns)

const list = (sql: SqlClient.SqlClient, projectId: ProjectId, status: ClientStatusFilter, window: Window) =>
  sql<Client>`
    SELECT ${sql.literal(record)} FROM clients
    WHERE project_id = ${projectId}
      ${sql.literal(status === "all" ? "" : `AND status = '${status}'`)}
      ${pageCondition(sql, window.after)}
    ORDER BY created_at DESC, id DESC
    ${pageLimit(sql, window)}`
