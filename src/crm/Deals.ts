/** Deals, which are on the stages of pipelines (contract §7). */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { Deal, DealCreate, DealLifecycleFilter, DealPatch, DealStatusFilter } from "../api/crm/Deals.ts"
import { DealId, type ProjectId } from "../api/schema/Ids.ts"
import { DealNotFound, type DealReferenceNotFound } from "../api/Problems.ts"
import { selectList } from "../platform/database/Columns.ts"
import { statement } from "../platform/database/Database.ts"
import { makeGrouped } from "../platform/mutations/Grouped.ts"
import type { Command, Outcome } from "../platform/mutations/Idempotency.ts"
import { Mutations } from "../platform/mutations/Mutations.ts"
import { lookup } from "../platform/database/Lookups.ts"
import { newId } from "../platform/NewId.ts"
import { type Appended, eventContext } from "../platform/outbox/Outbox.ts"
import { Notifier } from "../platform/outbox/Notifier.ts"
import { pageCondition, pageLimit, type PageQuery, Pages, type Window } from "../platform/requests/Pages.ts"
import { create, type NewDeal } from "./Deals/Create.ts"
import { type DealChange, patch, type Problem as PatchProblem } from "./Deals/Patch.ts"
import { columns } from "./DealColumns.ts"

interface Filters {
  readonly lifecycle: DealLifecycleFilter
  readonly status: DealStatusFilter
}

export const makeDeals = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const mutations = yield* Mutations
  const pages = yield* Pages
  const notifier = yield* Notifier
  const creating = makeGrouped<NewDeal, DealReferenceNotFound, Appended>(mutations, create(sql))
  const patching = makeGrouped<DealChange, PatchProblem, Appended>(mutations, patch(sql))
  /**
   * Runs a mutation, then notifies the delivery workers of the deliveries that the mutation has appended. A repeated request
   * appends none.
   */
  const notifyAfter = <E>(projectId: ProjectId, mutation: Effect.Effect<Outcome<Appended>, E>) =>
    Effect.tap(mutation, ({ returned }) => notifier.appended(projectId, returned ?? []))

  return {
    list: (projectId: ProjectId, { lifecycle, status, ...query }: PageQuery & Filters) =>
      pages.read({ projectId, operation: "listDeals", filters: { lifecycle, status } }, query, (window) =>
        statement(list(sql, projectId, { lifecycle, status }, window))
      ),
    get: lookup<Deal, DealNotFound>(sql, "deals", columns, () => new DealNotFound()),
    /**
     * Creates an open deal. The default of `pipelineId` is the project's default pipeline. The default of `stageId` is the
     * first stage of the pipeline.
     */
    create: Effect.fnUntraced(function* (command: Command, deal: DealCreate) {
      const { at, traceparent } = yield* eventContext(command.projectId)
      const id = DealId.make(yield* newId("deal"))
      return yield* notifyAfter(command.projectId, creating(command, at, { id, traceparent, ...deal }))
    }),
    patch: Effect.fnUntraced(function* (command: Command, id: DealId, p: DealPatch) {
      const { at, traceparent } = yield* eventContext(command.projectId)
      return yield* notifyAfter(command.projectId, patching(command, at, { id, traceparent, p }))
    })
  }
})

const record = selectList(columns)

const list = (sql: SqlClient.SqlClient, projectId: ProjectId, { lifecycle, status }: Filters, window: Window) => {
  const ofOne = (lifecycle: Exclude<DealLifecycleFilter, "all">) => sql`
    (SELECT * FROM deals
     WHERE project_id = ${projectId} AND lifecycle = ${lifecycle}
       ${sql.literal(status === "all" ? "" : `AND status = '${status}'`)}
       ${pageCondition(sql, window.after)}
     ORDER BY created_at DESC, id DESC
     ${pageLimit(sql, window)})`
  return sql<Deal>`
    SELECT ${sql.literal(record)}
    FROM ${lifecycle === "all" ? sql`(${ofOne("active")} UNION ALL ${ofOne("archived")})` : ofOne(lifecycle)} AS deal
    ORDER BY deal.created_at DESC, deal.id DESC
    ${pageLimit(sql, window)}`
}
