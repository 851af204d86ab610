/** Resolves the deals of a file: the values of omitted members depend on the stored deal and its pipeline. */
import { Effect, Struct } from "effect"
import type { SqlClient } from "effect/sql"
import { type Deal, dealRules, missingOfMoney } from "../../api/crm/Deals.ts"
import type { PipelineId, StageId } from "../../api/schema/Ids.ts"
import * as Record from "../../crm/DealColumns.ts"
import { selectList } from "../../sql/Columns.ts"
import type { Fault } from "../../api/schema/Faults.ts"
import type { ProjectFile } from "../ProjectFile.ts"
import { type Pipelines, stagesOf } from "./Pipelines.ts"

type Sql = SqlClient.SqlClient
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
