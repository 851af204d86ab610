/** Applies project files. They create projects, members and all other records that the API does not create. */
import { Data, Effect, Option, Record, Result } from "effect"
import { SqlClient } from "effect/sql"
import type { ProjectId } from "../api/schema/Ids.ts"
import { digestOf, stage } from "../integrations/imports/StagedBatches.ts"
import { Operator, recordDone } from "../operators/Audit.ts"
import { SecretBox } from "../secrets/SecretBox.ts"
import { analyzeChanged, reportChanges } from "../sql/Statistics.ts"
import { lineOf, parseProjectFile, type ProjectFile } from "./ProjectFile.ts"
import * as Channels from "./Projects/Channels.ts"
import * as Deals from "./Projects/Deals.ts"
import { type FileRecord, flatten, type PartName, parts } from "./Projects/Parts.ts"
import * as ProjectRow from "./Projects/ProjectRow.ts"
import { faultsWithin, takenExternalIds, unknownReferences } from "./Projects/References.ts"
import { type Counts, upsert } from "./Projects/Upsert.ts"

/** The faults of a project file, one line each: `path: message`. Nothing was written. */
class ProjectFileInvalid extends Data.TaggedError("ProjectFileInvalid")<{
  readonly faults: ReadonlyArray<string>
}> {
  override get message() {
    return this.faults.join("\n")
  }
}

/** The numbers of created, updated and unchanged records, under each top-level name of the file, such as `clients`. */
export interface ApplyReport {
  readonly projectId: ProjectId
  readonly created: Record<string, number>
  readonly updated: Record<string, number>
  readonly unchanged: Record<string, number>
}

/** Applies the JSON text of a project file in one transaction. Emits no events. */
export const applyProject = Effect.fn("applyProject")(function* (text: string) {
  const sql = yield* SqlClient.SqlClient
  const parsed = parseProjectFile(text)
  if (Result.isFailure(parsed)) return yield* new ProjectFileInvalid({ faults: parsed.failure })
  yield* Effect.annotateCurrentSpan("project.id", parsed.success.project.id)
  const operator = yield* Effect.serviceOption(Operator)
  const applied = Effect.tap(applyFile(sql, parsed.success), ({ created, projectId, updated }) => {
    const hasChanged = [created, updated].some((counts) => Object.values(counts).some((count) => count > 0))
    return Option.isSome(operator) && hasChanged
      ? Effect.provideService(
          recordDone(projectId, { action: "project.apply", target: projectId, detail: { created, updated } }),
          Operator,
          operator.value
        )
      : Effect.void
  })
  return yield* sql.withTransaction(Effect.tap(applied, () => reportChanges(sql))).pipe(
    Effect.catchTag("SqlError", Effect.die),
    // After the transaction, so that the project's mutations do not also wait for ANALYZE.
    Effect.tap(() => analyzeChanged(sql))
  )
})

const applyFile = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, file: ProjectFile) {
  const box = yield* SecretBox
  const { project, ...records } = file
  const { id } = project
  const { created, isDeleted, row: given } = yield* ProjectRow.open(sql, project)
  if (isDeleted) return yield* new ProjectFileInvalid({ faults: [`project.id: ${id} is being deleted or moved`] })
  const now = yield* ProjectRow.timeOfApply(sql, id)
  const channels = yield* Channels.resolve(sql, box, file)
  const pipelines = yield* Deals.loadPipelines(sql, file)
  const row = { ...given, defaultPipelineId: given.defaultPipelineId ?? Deals.onlyOne(pipelines) }
  const deals = yield* Deals.resolve(sql, file, { pipelines, defaultPipelineId: row.defaultPipelineId, now })

  const faults = [
    ...faultsWithin(file),
    ...(yield* unknownReferences(sql, file, pipelines)),
    ...(yield* takenExternalIds(sql, file)),
    ...channels.faults,
    ...Deals.stagesOfOtherPipelines(file, pipelines),
    ...(yield* Deals.removedStagesInUse(sql, file, pipelines, deals.records)),
    ...deals.faults
  ]
  if (faults.length > 0) return yield* new ProjectFileInvalid({ faults: faults.map(lineOf) })

  const updated = yield* ProjectRow.update(sql, id, row)
  const counts: Record<string, Counts> = { project: countOne(created, updated) }
  const recordsOf: { readonly [Name in PartName]?: ReadonlyArray<FileRecord> | undefined } = {
    ...records,
    channels: records.channels && channels.records,
    deals: records.deals && deals.records,
    installations: records.installations?.map(withDigest)
  }
  for (const name of Record.keys(parts)) {
    const part = parts[name]
    const flat = recordsOf[name]?.map((record) => flatten(part, record))
    if (flat !== undefined) counts[name] = yield* upsert(sql, part, id, now, flat)
  }
  yield* stage(sql, id, records.installations ?? [])
  yield* ProjectRow.close(sql, id)
  return report(id, counts)
})

/** Replaces the staged records by a digest. A different digest shows that the records have changed. */
const withDigest = ({ stagedRecords, ...installation }: NonNullable<ProjectFile["installations"]>[number]) => ({
  ...installation,
  stagedDigest: stagedRecords && digestOf(stagedRecords)
})

const countOne = (created: boolean, updated: boolean): Counts => ({
  created: created ? 1 : 0,
  updated: updated ? 1 : 0,
  unchanged: created || updated ? 0 : 1
})

const report = (projectId: ProjectId, counts: Record<string, Counts>): ApplyReport => {
  const of = (outcome: keyof Counts) =>
    Object.fromEntries(Object.entries(counts).map(([name, count]) => [name, count[outcome]]))
  return { projectId, created: of("created"), updated: of("updated"), unchanged: of("unchanged") }
}
