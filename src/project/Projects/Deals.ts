/**
 * The pipelines of a project before and after a file is applied, and the deals of the file: the values of omitted members depend on the
 * stored deal and its pipeline.
 */
import { Effect, Struct } from "effect"
import type { SqlClient as Sql } from "effect/sql/SqlClient"
import { type Deal, dealRules, missingOfMoney } from "../../api/crm/Deals.ts"
import type { DealId, PipelineId, StageId } from "../../api/schema/Ids.ts"
import * as Record from "../../crm/DealColumns.ts"
import { selectList } from "../../sql/Columns.ts"
import type { Fault } from "../../api/schema/Faults.ts"
import type { ProjectFile } from "../ProjectFile.ts"

type StagesByPipeline = ReadonlyMap<PipelineId, ReadonlySet<StageId>>

export interface Pipelines {
  readonly before: StagesByPipeline
  /** The stored pipelines, with the pipelines of the file added or replaced. The stages of each pipeline are in order. */
  readonly after: StagesByPipeline
  /** The stages of all pipelines after the file is applied. */
  readonly stages: ReadonlySet<StageId>
}

const stageIds = (stages: ReadonlyArray<{ readonly id: StageId }>) => new Set(stages.map(({ id }) => id))

/** Reads the pipelines of the project; the lock on the project's row keeps them stable. */
export const loadPipelines = Effect.fnUntraced(function* (sql: Sql, { pipelines = [], project }: ProjectFile) {
  const rows = yield* sql<{ readonly pipelineId: PipelineId; readonly stages: ReadonlyArray<StageId> }>`
    SELECT pipeline_id AS "pipelineId", array_agg(id ORDER BY position) AS stages
    FROM stages WHERE project_id = ${project.id} GROUP BY pipeline_id`
  const before = new Map(rows.map(({ pipelineId, stages }) => [pipelineId, new Set(stages)]))
  const after = new Map(before)
  for (const { id, stages } of pipelines) after.set(id, stageIds(stages))
  return { before, after, stages: new Set([...after.values()].flatMap((stages) => [...stages])) } satisfies Pipelines
})

const stagesOf = ({ after }: Pipelines, id: PipelineId | null) => (id === null ? undefined : after.get(id))

/** Returns the pipeline of a project that has exactly one: it becomes the default of a project without a default. */
export const onlyOne = ({ after }: Pipelines): PipelineId | null => {
  const [only = null] = after.size === 1 ? after.keys() : []
  return only
}

/** Lists stages of the file that are stored on another pipeline which the file does not replace. */
export const stagesOfOtherPipelines = (
  { pipelines = [] }: ProjectFile,
  { before }: Pipelines
): ReadonlyArray<Fault> => {
  const replaced = new Set(pipelines.map(({ id }) => id))
  const owners = new Map(
    [...before].flatMap(([pipelineId, stages]) =>
      replaced.has(pipelineId) ? [] : [...stages].map((stageId) => [stageId, pipelineId] as const)
    )
  )
  return pipelines.flatMap(({ stages }, index) =>
    stages.flatMap(({ id }, place): ReadonlyArray<Fault> => {
      const owner = owners.get(id)
      if (owner === undefined) return []
      const message = `belongs to the pipeline ${owner}, which the file doesn't replace`
      return [{ path: ["pipelines", index, "stages", place, "id"], message }]
    })
  )
}

/** Lists stages that the file removes although a deal of the file or a stored deal is on them. */
export const removedStagesInUse = Effect.fnUntraced(function* (
  sql: Sql,
  { deals = [], pipelines = [], project }: ProjectFile,
  { before }: Pipelines,
  placed: ReadonlyArray<{
    readonly id: DealId
    readonly pipelineId: PipelineId | null
    readonly stageId: StageId | null
  }>
) {
  const lost = new Map(
    pipelines.flatMap(({ id: pipelineId, stages }, index) =>
      [...(before.get(pipelineId) ?? new Set<StageId>()).difference(stageIds(stages))].map(
        (stageId) => [stageId, { index, pipelineId }] as const
      )
    )
  )
  if (lost.size === 0) return []

  const others = yield* sql<{ readonly id: DealId; readonly stageId: StageId }>`
    SELECT min(id) AS id, stage_id AS "stageId" FROM deals
    WHERE project_id = ${project.id} AND stage_id = ANY(${[...lost.keys()]}::text[])
      AND NOT EXISTS (SELECT FROM unnest(${deals.map(({ id }) => id)}::text[]) AS file (id) WHERE file.id = deals.id)
    GROUP BY stage_id`
  const dealIn = new Map(others.map(({ id, stageId }) => [stageId, id]))
  for (const { id, pipelineId, stageId } of placed) {
    if (stageId !== null && lost.get(stageId)?.pipelineId === pipelineId) dealIn.set(stageId, id)
  }
  return [...lost].flatMap(([stageId, { index }]): ReadonlyArray<Fault> => {
    const deal = dealIn.get(stageId)
    if (deal === undefined) return []
    return [
      { path: ["pipelines", index, "stages"], message: `must keep the stage ${stageId}: the deal ${deal} is in it` }
    ]
  })
})

type Given = NonNullable<ProjectFile["deals"]>[number]

/** The columns of the members that the rules of a deal use. */
const columns = Struct.pick(Record.columns, [
  "id",
  "pipelineId",
  "stageId",
  "status",
  "amountMinor",
  "currency",
  "lostReason",
  "closedAt"
])
type Old = Pick<Deal, keyof typeof columns>

interface Dependencies {
  readonly pipelines: Pipelines
  /** The default pipeline after the file is applied. */
  readonly defaultPipelineId: PipelineId | null
  readonly now: Date
}

/** Returns all deals with the members of `columns` filled in, and the faults of all deals. */
export const resolve = Effect.fnUntraced(function* (
  sql: Sql,
  { deals = [], project }: ProjectFile,
  dependencies: Dependencies
) {
  if (deals.length === 0) return { records: [], faults: [] }
  const rows = yield* sql<Old>`
    SELECT ${sql.literal(selectList(columns))} FROM deals
    WHERE project_id = ${project.id} AND id = ANY(${deals.map(({ id }) => id)}::text[])`
  const old = new Map(rows.map((row) => [row.id, row]))
  const resolved = deals.map((given) => ({ given, deal: next(given, old.get(given.id), dependencies) }))
  const faults = resolved.flatMap(({ deal, given }, index) =>
    brokenRules(given, deal, dependencies).map(([member, message]): Fault => ({
      path: ["deals", index, member],
      message
    }))
  )
  return { records: resolved.map(({ deal }) => deal), faults }
})

const orElse = <A, B>(given: A | undefined, otherwise: B): A | B => (given === undefined ? otherwise : given)

const next = (given: Given, old: Old | undefined, { defaultPipelineId, now, pipelines }: Dependencies) => {
  const pipelineId = given.pipelineId ?? old?.pipelineId ?? defaultPipelineId
  const [firstStage = null] = stagesOf(pipelines, pipelineId) ?? []
  const status = given.status ?? old?.status ?? "open"
  return {
    ...given,
    pipelineId,
    stageId: given.stageId ?? (old?.pipelineId === pipelineId ? old.stageId : firstStage),
    status,
    amountMinor: orElse(given.amountMinor, old?.amountMinor ?? null),
    currency: orElse(given.currency, old?.currency ?? null),
    lostReason: orElse(given.lostReason, status === "lost" ? (old?.lostReason ?? null) : null),
    closedAt: orElse(given.closedAt, status === "open" ? null : (old?.closedAt ?? now.toISOString()))
  }
}

/**
 * Lists the broken rules of a deal, each with the member to report. No rule restricts the change of the status: unlike a patch,
 * a file may change a deal from won to lost.
 */
const brokenRules = (given: Given, deal: ReturnType<typeof next>, { pipelines }: Dependencies) => {
  const missing = missingOfMoney(deal)
  const isOpen = deal.status === "open"
  const rules: ReadonlyArray<readonly [member: string, message: string, broken: boolean]> = [
    ["pipelineId", "is required while the project has no default pipeline", deal.pipelineId === null],
    ["stageId", "names no stage of the deal's pipeline", isOnOtherPipeline(given.stageId, deal.pipelineId, pipelines)],
    ["amountMinor", dealRules.amountMinor, missing === "amountMinor"],
    ["currency", dealRules.currency, missing === "currency"],
    ["lostReason", dealRules.lostReason, deal.status !== "lost" && deal.lostReason !== null],
    ["closedAt", "must be null while the deal is open", isOpen && deal.closedAt !== null],
    ["closedAt", "must not be null once the deal is won or lost", !isOpen && deal.closedAt === null]
  ]
  return rules.filter(([, , broken]) => broken)
}

/**
 * Whether a stage belongs to a pipeline other than `pipelineId` after the file is applied. False if the stage does not exist,
 * which is reported as a missing reference.
 */
const isOnOtherPipeline = (
  stageId: StageId | undefined,
  pipelineId: PipelineId | null,
  pipelines: Pipelines
): boolean =>
  stageId !== undefined && pipelines.stages.has(stageId) && stagesOf(pipelines, pipelineId)?.has(stageId) === false
