/** Deals: chances of business, on their way through the stages of a pipeline (contract §7). */
import { Context, Effect, Layer, Predicate } from "effect"
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
import { Mutations } from "../platform/idempotency/Mutations.ts"
import { newId } from "../platform/NewId.ts"
import { causeOf } from "../platform/outbox/Outbox.ts"
import { Wake } from "../platform/outbox/Wake.ts"
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
    ) => Effect.Effect<Outcome<boolean>, IdempotencyKeyReused | DealReferenceNotFound | ServiceUnavailable>

    /** Changes what the patch names, by the moves of `dealMoves` and the rules of `dealRules`. */
    readonly patch: (
      command: Command,
      id: DealId,
      patch: DealPatch
    ) => Effect.Effect<
      Outcome<boolean>,
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
      const mutations = yield* Mutations
      const pages = yield* Pages
      const lookUp = find(sql)
      const wake = yield* Wake
      /** Wakes the deliverers where there is something to deliver. */
      const told = <E>(command: Effect.Effect<Outcome<boolean>, E>) =>
        Effect.tap(command, ({ returned }) => (returned === true ? wake.deliverers : Effect.void))

      return {
        list: (projectId, { lifecycle, status, ...query }) =>
          pages.read({ projectId, operation: "listDeals", filters: { lifecycle, status } }, query, (window) =>
            statement(list(sql, projectId, lifecycle, status, window))
          ),
        get: (projectId, id) =>
          Effect.filterOrFail(
            lookUp({ projectId, id }),
            Predicate.isNotUndefined,
            () => new DealNotFound({ detail: noSuchDeal })
          ),
        create: Effect.fnUntraced(function* (command, deal) {
          const id = DealId.make(yield* newId("deal"))
          return yield* told(mutate(mutations, command, create(sql, yield* causeOf(command.projectId), id, deal)))
        }),
        patch: Effect.fnUntraced(function* (command, id, changes) {
          return yield* told(mutate(mutations, command, patch(sql, yield* causeOf(command.projectId), id, changes)))
        })
      }
    })
  )
}
