/** Deals, which are on the stages of pipelines (contract §7). */
import { Effect, Struct } from "effect"
import { SqlClient } from "effect/sql"
import {
  type Deal,
  type DealBatch,
  type DealCreate,
  type DealFilters,
  DealLifecycle,
  type DealPatch,
  DealStatus,
  type DealUpsert
} from "../api/crm/Deals.ts"
import { DealId, type ProjectId } from "../api/schema/Ids.ts"
import {
  DealNotFound,
  type DealReferenceNotFound,
  type ExternalIdTaken,
  PreconditionFailed,
  type ValidationFailed
} from "../api/Problems.ts"
import { argumentsOf, insertedValues, insertList, selectList } from "../sql/Columns.ts"
import { statement } from "../sql/Database.ts"
import { makeGrouped } from "../commands/Grouped.ts"
import { type Command, preconditionFailed } from "../commands/Command.ts"
import { Mutations } from "../commands/Mutations.ts"
import { lookup } from "../sql/Lookups.ts"
import { newId } from "../platform/Ids.ts"
import { type Appended, eventContext, eventsOf, Notifier, notifyingAfter } from "../outbox/Outbox.ts"
import { orderOf, pageOfRanges, type PageQuery, Pages, type Window } from "../http/pages/Pages.ts"
import { type DealChange, patch, type Problem as PatchProblem } from "./Deals/Patch.ts"
import {
  brokenRules,
  columns,
  deal_reference_not_found,
  eventDeal,
  pipelineExists,
  references,
  validation_failed,
  writable
} from "./DealColumns.ts"
import { makeBatch } from "./Batches.ts"
import {
  external_id_taken,
  holderOf,
  makeFind,
  missingReferences,
  OtherRecord,
  takenBy,
  upsert,
  without
} from "./References.ts"
import type { Kind } from "../commands/Kind.ts"

export const makeDeals = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const mutations = yield* Mutations
  const pages = yield* Pages
  const notifyAfter = notifyingAfter(yield* Notifier)
  const creating = makeGrouped<NewDeal, CreateProblem, Appended>(mutations, createDeals(sql))
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
  const range = (lifecycle: DealLifecycle, status: DealStatus | "all") => sql`
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

/** A new deal. An upsert can set all members, and may lack the title. */
interface NewDeal extends DealPatch {
  readonly id: DealId
  readonly traceparent: string
}

/** Columns that take the values of the command unchanged. The others have defaults. */
const given = Struct.omit(writable, ["pipelineId", "stageId", "status", "lifecycle"])

const holder = holderOf("deals", "next", `"externalId"`)

const createdData = `json_build_object(${eventDeal("created")})`

type CreateProblem = DealReferenceNotFound | ExternalIdTaken | PreconditionFailed | ValidationFailed

const createDeals = (sql: SqlClient.SqlClient): Kind<NewDeal, CreateProblem> => ({
  args: {
    id: "text",
    traceparent: "text",
    ...argumentsOf(writable)
  },
  takes: ({ externalId }) => takenBy(externalId),
  decided: () => sql`
    next AS MATERIALIZED (
      SELECT command.*, "clientId" AS client_id, "organizationId" AS organization_id,
        "responsibleMemberId" AS responsible_member_id, given.pipeline_id, place.stage_id
      FROM command, LATERAL (SELECT coalesce("pipelineId", default_pipeline_id) AS pipeline_id) AS given
        LEFT JOIN LATERAL (
          SELECT stages.id AS stage_id FROM stages
          WHERE stages.project_id = command.project_id AND stages.pipeline_id = given.pipeline_id
            AND ("stageId" IS NULL OR stages.id = "stageId")
          ORDER BY stages.position LIMIT 1
        ) AS place ON true
    ),
    decided AS MATERIALIZED (
      SELECT next.*,
        CASE
          -- Comes first: an upsert then begins again, and its members may be valid for the deal that has the id.
          WHEN holder.id IS NOT NULL THEN 'external_id_taken'
          WHEN "ifMatch" IS NOT NULL THEN 'precondition_failed'
          WHEN invalid <> '{}' THEN 'validation_failed'
          WHEN missing <> '{}' THEN 'deal_reference_not_found'
        END AS failure,
        CASE WHEN holder.id IS NULL THEN coalesce(nullif(invalid, '{}'), missing) ELSE ARRAY[holder.id] END AS faults,
        next.id AS resource_id, true AS changed, CASE WHEN "ifMatch" IS NULL THEN 1 END AS version
      FROM next LEFT JOIN LATERAL (${sql.literal(holder)}) AS holder ON true, LATERAL (
        SELECT array_remove(ARRAY[
          CASE WHEN "title" IS NULL THEN 'title' END,
          ${sql.literal(brokenRules({ amountMinor: `"amountMinor"`, currency: `"currency"`, status: `coalesce("status", 'open')`, lostReason: `"lostReason"` }))}
        ], NULL) AS invalid,
        array_remove(ARRAY[
          ${sql.literal(missingReferences("next", references))},
          CASE
            WHEN next.stage_id IS NOT NULL THEN NULL
            WHEN next.pipeline_id IS NULL THEN 'defaultPipeline'
            WHEN ${sql.literal(pipelineExists)} THEN 'stageId'
            ELSE 'pipelineId'
          END
        ], NULL) AS missing
        OFFSET 0
      ) AS reference
    )`,
  effect: () => sql`
    created AS (
      INSERT INTO deals (project_id, id, ${sql.literal(insertList(given))}, pipeline_id, stage_id, status, lifecycle,
                         closed_at, version, created_at, updated_at)
      SELECT project_id, id, ${sql.literal(insertedValues(given))}, pipeline_id, stage_id, coalesce("status", 'open'),
        coalesce("lifecycle", 'active'), CASE WHEN "status" <> 'open' THEN at END, 1, at, at
      FROM applied
      RETURNING *
    )`,
  events: eventsOf(sql, {
    "crm.deal.created.v1": (type) => sql`
      SELECT created.project_id, ${type}, ${sql.literal(createdData)}, created.created_at, applied.traceparent
      FROM created JOIN applied USING (project_id, id)`
  }),
  problems: {
    ...preconditionFailed,
    deal_reference_not_found,
    validation_failed,
    external_id_taken: external_id_taken("deal")
  }
})
