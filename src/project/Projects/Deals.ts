/** The deals of a file as they will be: what a file may leave out follows from the deal as it is, and from its pipeline. */
import { Effect, Struct } from "effect"
import type { SqlClient } from "effect/sql"
import { type Deal, dealRules, missingOfMoney } from "../../api/crm/Deals.ts"
import type { PipelineId, StageId } from "../../api/Ids.ts"
import * as Record from "../../crm/Deals/Record.ts"
import { selected } from "../../platform/Columns.ts"
import type { Fault } from "../../api/Faults.ts"
import type { ProjectFile } from "../ProjectFile.ts"
import { type Pipelines, stagesOf } from "./Pipelines.ts"

type Sql = SqlClient.SqlClient
type Given = NonNullable<ProjectFile["deals"]>[number]

/** The columns of the members that the rules of a deal relate to each other. */
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

/** What the deals of a file rest on. */
export interface Around {
  readonly pipelines: Pipelines
  /** The project's, as the file leaves it. */
  readonly defaultPipelineId: PipelineId | null
  readonly now: Date
}

/** Each deal with the members of `columns` filled in, and all that is wrong with them. */
export const resolve = Effect.fnUntraced(function* (sql: Sql, { deals = [], project }: ProjectFile, around: Around) {
  if (deals.length === 0) return { records: [], faults: [] }
  const rows = yield* sql<Old>`
    SELECT ${sql.literal(selected(columns))} FROM deals
    WHERE project_id = ${project.id} AND id = ANY(${deals.map(({ id }) => id)}::text[])`
  const old = new Map(rows.map((row) => [row.id, row]))
  const resolved = deals.map((given) => ({ given, deal: next(given, old.get(given.id), around) }))
  const faults = resolved.flatMap(({ deal, given }, index) =>
    wrongIn(given, deal, around).map(([member, message]): Fault => ({ path: ["deals", index, member], message }))
  )
  return { records: resolved.map(({ deal }) => deal), faults }
})

/** What the file gives, be it null, and something else where it is silent. */
const orElse = <A, B>(given: A | undefined, otherwise: B): A | B => (given === undefined ? otherwise : given)

const next = (given: Given, old: Old | undefined, { defaultPipelineId, now, pipelines }: Around) => {
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

/** The rules that a deal breaks, by the member at fault. Files state what is so: a deal may go from won to lost. */
const wrongIn = (given: Given, deal: ReturnType<typeof next>, { pipelines }: Around) => {
  const missing = missingOfMoney(deal)
  const isOpen = deal.status === "open"
  const rules: ReadonlyArray<readonly [member: string, message: string, broken: boolean]> = [
    ["pipelineId", "is required while the project has no default pipeline", deal.pipelineId === null],
    ["stageId", "names no stage of the deal's pipeline", isElsewhere(given.stageId, deal.pipelineId, pipelines)],
    ["amountMinor", dealRules.amountMinor, missing === "amountMinor"],
    ["currency", dealRules.currency, missing === "currency"],
    ["lostReason", dealRules.lostReason, deal.status !== "lost" && deal.lostReason !== null],
    ["closedAt", "must be null while the deal is open", isOpen && deal.closedAt !== null],
    ["closedAt", "must not be null once the deal is won or lost", !isOpen && deal.closedAt === null]
  ]
  return rules.filter(([, , broken]) => broken)
}

/** Whether a stage will be there, but on another pipeline. What won't be there at all is a fault of reference. */
const isElsewhere = (stageId: StageId | undefined, pipelineId: PipelineId | null, pipelines: Pipelines): boolean =>
  stageId !== undefined && pipelines.stages.has(stageId) && stagesOf(pipelines, pipelineId)?.has(stageId) === false
