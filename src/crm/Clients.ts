/** Clients: the contacts of a project (contract §7). */
import { Clock, Context, Effect, Layer, Predicate } from "effect"
import { SqlClient } from "effect/sql"
import type { Client, ClientCreate, ClientPatch, ClientStatusFilter } from "../api/crm/Clients.ts"
import { ClientId, type ProjectId } from "../api/Ids.ts"
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
import { statement } from "../platform/Database.ts"
import { type Command, mutate, type Outcome } from "../platform/idempotency/Idempotency.ts"
import { Mutations } from "../platform/idempotency/Mutations.ts"
import { newId } from "../platform/NewId.ts"
import { type Page, Pages } from "../platform/Pages.ts"
import { create, find, list, noSuchClient, patch } from "./Clients/Repo.ts"

export class Clients extends Context.Service<
  Clients,
  {
    /** Newest first, `limit` to a page. */
    readonly list: (
      projectId: ProjectId,
      query: { readonly status: ClientStatusFilter; readonly limit: number; readonly cursor: string | undefined }
    ) => Effect.Effect<Page<Client>, CursorInvalid | ServiceUnavailable>

    readonly get: (projectId: ProjectId, id: ClientId) => Effect.Effect<Client, ClientNotFound | ServiceUnavailable>

    /** Adds an active client while the project's contact capacity has room. */
    readonly create: (
      command: Command,
      client: ClientCreate
    ) => Effect.Effect<Outcome, IdempotencyKeyReused | ContactCapacityExhausted | ServiceUnavailable>

    /** Changes what the patch names. An archived client takes only its reactivation. */
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
      const lookUp = find(sql)
      const now = Effect.map(Clock.currentTimeMillis, (millis) => new Date(millis))

      return {
        list: (projectId, { status, ...query }) =>
          pages.read({ projectId, operation: "listClients", filters: { status } }, query, (window) =>
            statement(list(sql, projectId, status, window))
          ),
        get: (projectId, id) =>
          Effect.filterOrFail(
            lookUp({ projectId, id }),
            Predicate.isNotUndefined,
            () => new ClientNotFound({ detail: noSuchClient })
          ),
        create: Effect.fnUntraced(function* (command, client) {
          const id = ClientId.make(yield* newId("cli"))
          return yield* mutate(mutations, command, create(sql, command.projectId, id, client, yield* now))
        }),
        patch: Effect.fnUntraced(function* (command, id, changes) {
          return yield* mutate(mutations, command, patch(sql, command.projectId, id, changes, yield* now))
        })
      }
    })
  )
}
