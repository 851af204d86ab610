/** Clients, the contacts of a project (contract §7). */
import { Context, DateTime, Effect, Layer, Predicate } from "effect"
import { SqlClient } from "effect/sql"
import type { Client, ClientCreate, ClientPatch, ClientStatusFilter } from "../api/crm/Clients.ts"
import { details } from "../api/Details.ts"
import { ClientId, type ProjectId } from "../api/schema/Ids.ts"
import {
  type ClientArchived,
  ClientNotFound,
  type ContactCapacityExhausted,
  type CursorInvalid,
  type IdempotencyKeyReused,
  type MemberNotFound,
  type OrganizationArchived,
  type OrganizationNotFound,
  type ServiceUnavailable
} from "../api/Problems.ts"
import { selectList } from "../platform/database/Columns.ts"
import { statement } from "../platform/database/Database.ts"
import { makeGrouped } from "../platform/mutations/Grouped.ts"
import type { Command, Outcome } from "../platform/mutations/Idempotency.ts"
import { Mutations } from "../platform/mutations/Mutations.ts"
import { lookup } from "../platform/database/Lookups.ts"
import { newId } from "../platform/NewId.ts"
import { pageCondition, pageLimit, type Page, type PageQuery, Pages, type Window } from "../platform/requests/Pages.ts"
import { create } from "./Clients/Create.ts"
import { patch } from "./Clients/Patch.ts"
import { columns } from "./ClientColumns.ts"

export class Clients extends Context.Service<
  Clients,
  {
    /** Lists clients, newest first, up to `limit` on a page. */
    readonly list: (
      projectId: ProjectId,
      query: PageQuery & { readonly status: ClientStatusFilter }
    ) => Effect.Effect<Page<Client>, CursorInvalid | ServiceUnavailable>

    readonly get: (projectId: ProjectId, id: ClientId) => Effect.Effect<Client, ClientNotFound | ServiceUnavailable>

    /** Creates an active client, unless the project's contact capacity is exhausted. */
    readonly create: (
      command: Command,
      client: ClientCreate
    ) => Effect.Effect<Outcome, IdempotencyKeyReused | ContactCapacityExhausted | ServiceUnavailable>

    /** Changes the fields of the patch. An archived client accepts only its reactivation. */
    readonly patch: (
      command: Command,
      id: ClientId,
      patch: ClientPatch
    ) => Effect.Effect<
      Outcome,
      | IdempotencyKeyReused
      | ClientNotFound
      | MemberNotFound
      | OrganizationNotFound
      | ClientArchived
      | OrganizationArchived
      | ContactCapacityExhausted
      | ServiceUnavailable
    >
  }
>()("developer-api/crm/Clients") {
  static readonly layer = Layer.effect(
    Clients,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const mutations = yield* Mutations
      const pages = yield* Pages
      const find = lookup<Client>(sql, "clients", columns)
      const creating = makeGrouped(mutations, create(sql))
      const patching = makeGrouped(mutations, patch(sql))

      return {
        list: (projectId, { status, ...query }) =>
          pages.read({ projectId, operation: "listClients", filters: { status } }, query, (window) =>
            statement(list(sql, projectId, status, window))
          ),
        get: (projectId, id) =>
          Effect.filterOrFail(
            find({ projectId, id }),
            Predicate.isNotUndefined,
            () => new ClientNotFound({ detail: details.client_not_found })
          ),
        create: (command, client) =>
          Effect.flatMap(DateTime.nowAsDate, (now) =>
            Effect.flatMap(newId("cli"), (id) => creating(command, now, { id: ClientId.make(id), ...client }))
          ),
        patch: (command, id, p) => Effect.flatMap(DateTime.nowAsDate, (now) => patching(command, now, { id, p }))
      }
    })
  )
}

const record = selectList(columns)

const list = (sql: SqlClient.SqlClient, projectId: ProjectId, status: ClientStatusFilter, window: Window) =>
  sql<Client>`
    SELECT ${sql.literal(record)} FROM clients
    WHERE project_id = ${projectId}
      ${sql.literal(status === "all" ? "" : `AND status = '${status}'`)}
      ${pageCondition(sql, "clients", projectId, window.after)}
    ORDER BY created_at DESC, id DESC
    ${pageLimit(sql, window)}`
