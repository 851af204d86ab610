/** Deals, which are on the stages of pipelines (contract §7). */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import {
  type Deal,
  type DealBatch,
  type DealCreate,
  type DealFilters,
  DealLifecycle,
  type DealPatch,
  DealStatus,
  type DealStatusFilter,
  type DealUpsert
} from "../api/crm/Deals.ts"
import { DealId, type ProjectId } from "../api/schema/Ids.ts"
import { DealNotFound, PreconditionFailed } from "../api/Problems.ts"
import { selectList } from "../sql/Columns.ts"
import { statement } from "../sql/Database.ts"
import { makeGrouped } from "../commands/Grouped.ts"
import type { Command } from "../commands/Command.ts"
import { Mutations } from "../commands/Mutations.ts"
import { lookup } from "../sql/Lookups.ts"
import { newId } from "../platform/NewId.ts"
import { type Appended, eventContext, Notifier, notifyingAfter } from "../outbox/Outbox.ts"
import { orderOf, pageOfRanges, type PageQuery, Pages, type Window } from "../http/pages/Pages.ts"
import * as Create from "./Deals/Create.ts"
import { type DealChange, patch, type Problem as PatchProblem } from "./Deals/Patch.ts"
import { columns } from "./DealColumns.ts"
import { makeBatch } from "./Batches.ts"
import { makeFind, OtherRecord, upsert, without } from "./ExternalIds.ts"

export const makeDeals = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const mutations = yield* Mutations
  const pages = yield* Pages
  const notifyAfter = notifyingAfter(yield* Notifier)
  const creating = makeGrouped<Create.NewDeal, Create.Problem, Appended>(mutations, Create.create(sql))
  const patching = makeGrouped<DealChange, PatchProblem, Appended>(mutations, patch(sql))
  const find = makeFind(sql, "deals")
  const create = Effect.fnUntraced(function* (command: Command, deal: DealPatch) {
    const { at, traceparent } = yield* eventContext(command.projectId)
    const id = DealId.make(yield* newId("deal"))
    return yield* notifyAfter(command.projectId, creating(command, at, { id, traceparent, ...deal }))
  })
  const change = Effect.fnUntraced(function* (command: Command, id: DealId, p: DealPatch, externalId?: string) {
    const { at, traceparent } = yield* eventContext(command.projectId)
    const expected = externalId === undefined ? {} : { expectedExternalId: externalId }
    return yield* notifyAfter(command.projectId, patching(command, at, { id, traceparent, p, ...expected }))
  })
  const upserted = (command: Command, externalId: string, p: DealUpsert) =>
    upsert({
      command,
      find: find(command.projectId, externalId),
      create: (command) => create(command, { ...p, externalId }),
      patch: (command, id) => change(command, DealId.make(id), p, externalId)
    })
  const batch = yield* makeBatch

  return {
    list: (projectId: ProjectId, { cursor, limit, ...filters }: PageQuery & DealFilters) => {
      const read = filters.updatedSince === undefined ? pages.read : pages.readByChange
      return read({ projectId, operation: "listDeals", filters: { ...filters } }, { cursor, limit }, (window) =>
        statement(list(sql, projectId, filters, window))
      )
    },
    get: lookup<Deal, DealNotFound>(sql, "deals", columns, () => new DealNotFound()),
    /**
     * Creates an open deal. The default of `pipelineId` is the project's default pipeline. The default of `stageId` is the
     * first stage of the pipeline.
     */
    create: (command: Command, deal: DealCreate) => asCreate(create(command, deal)),
    patch: (command: Command, id: DealId, p: DealPatch) => asPatch(change(command, id, p)),
    upsert: upserted,
    batch: (command: Command, { items }: DealBatch) =>
      batch(command, items, (command, { externalId, ...p }) => upserted(command, externalId, p))
  }
})

const asCreate = without(PreconditionFailed)
const asPatch = without(OtherRecord)

const record = selectList(columns)

/**
 * Lists deals. An index of a filtered list has the order of the list for one lifecycle and one status, so the list of several merges
 * their ranges. At most one deal has an external id. Few deals of a client are on one stage.
 */
const list = (sql: SqlClient.SqlClient, projectId: ProjectId, filters: DealFilters, window: Window) => {
  const { clientId, externalId, lifecycle, stageId, status, updatedSince } = filters
  const order = orderOf(sql, updatedSince, window)
  const values = [
    ...(externalId === undefined ? [] : [sql`AND external_id = (SELECT ${externalId}::text)`]),
    ...(clientId === undefined ? [] : [sql`AND client_id = (SELECT ${clientId}::text)`]),
    ...(stageId === undefined ? [] : [sql`AND stage_id = (SELECT ${stageId}::text)`])
  ]
  const range = (lifecycle: DealLifecycle, status: DealStatusFilter) => sql`
    project_id = ${projectId} AND lifecycle = ${lifecycle}
    ${sql.literal(status === "all" ? "" : `AND status = '${status}'`)} ${sql.join(" ", false)(values)}
    ${sql.literal(externalId === undefined ? order.listed : "")}`
  const lifecycles = lifecycle === "all" ? DealLifecycle.literals : [lifecycle]
  const isByAge = values.length === 0 && updatedSince === undefined
  const statuses = status === "all" && !isByAge && externalId === undefined ? DealStatus.literals : [status]
  return pageOfRanges<Deal>(
    sql,
    { table: "deals", record },
    order,
    window,
    lifecycles.flatMap((lifecycle) => statuses.map((status) => range(lifecycle, status)))
  )
}
