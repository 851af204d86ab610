/** Deals: chances of business, on their way through the stages of a pipeline (contract §7). */
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import type { Deal, DealCreate, DealLifecycleFilter, DealPatch, DealStatusFilter } from "../api/crm/Deals.ts"
import { DealId, type ProjectId } from "../api/Ids.ts"
import {
  type CursorInvalid,
  DealNotFound,
  type DealReferenceNotFound,
  type DealStatusInvalid,
  type IdempotencyKeyReused,
  type ServiceUnavailable,
  type ValidationFailed
} from "../api/Problems.ts"
import { statement } from "../platform/Database.ts"
import { type Command, mutate, type Outcome } from "../platform/idempotency/Idempotency.ts"
import { newId } from "../platform/NewId.ts"
import { type Appended, causeOf } from "../platform/outbox/Outbox.ts"
import { Notifier } from "../platform/outbox/Notifier.ts"
import { type Page, Pages } from "../platform/Pages.ts"
import { create, find, list, noSuchDeal, patch } from "./Deals/Repo.ts"

export class Deals extends Context.Service<
  Deals,
  {
    /** Newest first, `limit` to a page. */
    readonly list: (
      projectId: ProjectId,
      query: {
        readonly lifecycle: DealLifecycleFilter
        readonly status: DealStatusFilter
        readonly limit: number
        readonly cursor: string | undefined
      }
    ) => Effect.Effect<Page<Deal>, CursorInvalid | ServiceUnavailable>

    readonly get: (projectId: ProjectId, id: DealId) => Effect.Effect<Deal, DealNotFound | ServiceUnavailable>

    /** Adds an open deal, on the project's default pipeline and the pipeline's first stage unless it names others. */
    readonly create: (
      command: Command,
      deal: DealCreate
    ) => Effect.Effect<Outcome<Appended>, IdempotencyKeyReused | DealReferenceNotFound | ServiceUnavailable>

    /** Changes what the patch names, by the moves of `dealMoves` and the rules of `dealRules`. */
    readonly patch: (
      command: Command,
      id: DealId,
      patch: DealPatch
    ) => Effect.Effect<
      Outcome<Appended>,
      | IdempotencyKeyReused
      | DealNotFound
      | DealReferenceNotFound
      | DealStatusInvalid
      | ValidationFailed
      | ServiceUnavailable
    >
  }
>()("developer-api/crm/Deals") {
  static readonly layer = Layer.effect(
    Deals,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const pages = yield* Pages
      const notifier = yield* Notifier
      /** Notifies the delivery workers of what the command's first run has appended. */
      const notifying = <E>(projectId: ProjectId, mutation: Effect.Effect<Outcome<Appended>, E>) =>
        Effect.tap(mutation, ({ returned }) => notifier.appended(projectId, returned ?? []))

      return {
        list: (projectId, { lifecycle, status, ...query }) =>
          pages.read({ projectId, operation: "listDeals", filters: { lifecycle, status } }, query, (window) =>
            statement(list(sql, projectId, lifecycle, status, window))
          ),
        get: Effect.fnUntraced(function* (projectId, id) {
          const [deal] = yield* statement(find(sql, projectId, id))
          return deal ?? (yield* new DealNotFound({ detail: noSuchDeal }))
        }),
        create: Effect.fnUntraced(function* (command, deal) {
          const id = DealId.make(yield* newId("deal"))
          const { projectId } = command
          return yield* notifying(projectId, mutate(sql, command, create(sql, yield* causeOf(projectId), id, deal)))
        }),
        patch: Effect.fnUntraced(function* (command, id, changes) {
          const { projectId } = command
          return yield* notifying(projectId, mutate(sql, command, patch(sql, yield* causeOf(projectId), id, changes)))
        })
      }
    })
  )
}
