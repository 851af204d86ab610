/**
 * Applies project files. They create projects, members and all other records that the API does not create. An apply locks the row of its
 * project first, and changes it last.
 */
import { Data, DateTime, Effect, Option, Record, Result, Struct } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { ProjectId } from "../api/schema/Ids.ts"
import { digestOf, stage } from "../imports/StagedBatches.ts"
import { Operator, recordDone } from "../operating/Audit.ts"
import { type Found, pageOf, type Range } from "../operating/Lists.ts"
import { SecretBox } from "../secrets/SecretBox.ts"
import { analyzeChanged, reportChanges } from "../sql/migrations/Migrations.ts"
import { lineOf, parseProjectFile, type ProjectFile } from "./ProjectFile.ts"
import { type FileRecord, flatten, type PartName, parts } from "./Parts.ts"
import { faultsWithin, takenExternalIds, unknownReferences } from "./Projects/References.ts"
import { type Counts, upsert } from "./Projects/Upsert.ts"
import { modules } from "../api/Access.ts"
import { assignmentList, type Columns, differ, insertList, insertedValues, listOf, selectList } from "../sql/Columns.ts"
import { livesHere } from "../platform/MoveState.ts"
import * as Channels from "./Projects/Channels.ts"
import * as Deals from "./Projects/Deals.ts"

/** The faults of a project file, one line each: `path: message`. Nothing was written. */
class ProjectFileInvalid extends Data.TaggedError("ProjectFileInvalid")<{
  readonly faults: ReadonlyArray<string>
}> {
  override get message() {
    return this.faults.join("\n")
  }
}

/** The numbers of created, updated and unchanged records, under each top-level name of the file, such as `clients`. */
interface ApplyReport {
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
  // Before the project is locked, because its mutations wait from then on.
  const within = faultsWithin(file)
  const { created, isDeleted, row: given } = yield* openProject(sql, project)
  if (isDeleted) return yield* new ProjectFileInvalid({ faults: [`project.id: ${id} is being deleted or moved`] })
  const now = yield* timeOfApply(sql, id)
  const channels = yield* Channels.resolve(sql, box, file)
  const pipelines = yield* Deals.loadPipelines(sql, file)
  const row = { ...given, defaultPipelineId: given.defaultPipelineId ?? Deals.onlyOne(pipelines) }
  const deals = yield* Deals.resolve(sql, file, { pipelines, defaultPipelineId: row.defaultPipelineId, now })

  const faults = [
    ...within,
    ...(yield* unknownReferences(sql, file, pipelines)),
    ...(yield* takenExternalIds(sql, file)),
    ...channels.faults,
    ...Deals.stagesOfOtherPipelines(file, pipelines),
    ...(yield* Deals.removedStagesInUse(sql, file, pipelines, deals.records)),
    ...deals.faults
  ]
  if (faults.length > 0) return yield* new ProjectFileInvalid({ faults: faults.map(lineOf) })

  const updated = yield* updateProject(sql, id, row)
  const counts: Record<string, Counts> = {
    project: {
      created: Number(created),
      updated: Number(updated && !created),
      unchanged: Number(!updated && !created)
    }
  }
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
  yield* closeProject(sql, id)
  return report(id, counts)
})

/** Replaces the staged records by a digest. A different digest shows that the records have changed. */
const withDigest = ({ stagedRecords, ...installation }: NonNullable<ProjectFile["installations"]>[number]) => ({
  ...installation,
  stagedDigest: stagedRecords && digestOf(stagedRecords)
})

const report = (projectId: ProjectId, counts: Record<string, Counts>): ApplyReport => {
  const of = (outcome: keyof Counts) =>
    Object.fromEntries(Object.entries(counts).map(([name, count]) => [name, count[outcome]]))
  return { projectId, created: of("created"), updated: of("updated"), unchanged: of("unchanged") }
}

type Sql = SqlClient.SqlClient
type Project = ProjectFile["project"]

const columns = {
  name: "name",
  timeZone: "time_zone",
  contactCapacity: ["contact_capacity", "integer"],
  modules: ["modules", "text[]"],
  entitlements: ["entitlements", "text[]"],
  rateLimits: ["rate_limits", "jsonb"],
  defaultPipelineId: "default_pipeline_id"
} as const satisfies Columns<Exclude<keyof Project, "id">>

type Row = Required<Omit<Project, "id">>

const types = listOf(columns)
  .map(({ member, type }) => `"${member}" ${type}`)
  .join(", ")

const nextOf = (sql: Sql, row: Row) => sql`(
  SELECT ${sql.literal(insertedValues(columns))} FROM jsonb_to_record(${JSON.stringify(row)}::jsonb) AS row (${sql.literal(types)})
) AS next (${sql.literal(insertList(columns))})`

const next = (project: Project, old: Row): Row => ({ ...old, ...Struct.omit(project, ["id"]) })

const initial: Row = {
  name: "",
  timeZone: "UTC",
  contactCapacity: null,
  modules,
  entitlements: ["developer_api"],
  rateLimits: {},
  defaultPipelineId: null
}

/**
 * Creates the project unless it exists, and locks it. Returns the row with the values of the file. `isDeleted` is also true if
 * another database serves the project.
 *
 * The advisory lock is the first lock of an apply, and waits for the mutations in flight, which take it in shared mode (`enter_project`).
 * Mutations that come later retry until the apply has ended, and hold no lock meanwhile, so there is no deadlock. The row lock blocks the
 * commands of operators, which lock the row `FOR KEY SHARE`. Under both locks, all records that the API changes are stable.
 */
const openProject = Effect.fnUntraced(function* (sql: Sql, project: Project) {
  yield* sql`SELECT pg_advisory_xact_lock(hashtextextended(${project.id}, 0))`
  const row = next(project, initial)
  // The default pipeline may not exist yet. Its foreign key is checked at the end of the transaction.
  const made = yield* sql`
    INSERT INTO projects (project_id, ${sql.literal(insertList(columns))}, created_at)
    SELECT ${project.id}, next.*, ${yield* DateTime.nowAsDate}::timestamptz FROM ${nextOf(sql, row)}
    ON CONFLICT DO NOTHING
    RETURNING project_id`
  // A separate statement, so that it sees a row that a concurrent apply committed while the INSERT waited.
  const [old = initial] = yield* sql<Row & { readonly isDeleted: boolean }>`
    SELECT deleted_at IS NOT NULL OR NOT ${livesHere(sql, sql`move_state`)} AS "isDeleted", ${sql.literal(selectList(columns))}
    FROM projects WHERE project_id = ${project.id} FOR UPDATE`
  return { created: made.length > 0, isDeleted: "isDeleted" in old && old.isDeleted, row: next(project, old) }
})

/** Reads the project for a file; undefined if it does not exist, is being deleted, or is served by another database. */
export const readProject = Effect.fnUntraced(function* (sql: Sql, projectId: ProjectId) {
  const [row] = yield* sql<Row & { readonly id: ProjectId }>`
    SELECT project_id AS id, ${sql.literal(selectList(columns))}
    FROM projects WHERE project_id = ${projectId} AND deleted_at IS NULL AND ${livesHere(sql, sql`move_state`)}`
  return row
})

const updateProject = Effect.fnUntraced(function* (sql: Sql, projectId: ProjectId, row: Row) {
  const changed = yield* sql`
    UPDATE projects SET ${sql.literal(assignmentList(columns, "next"))} FROM ${nextOf(sql, row)}
    WHERE project_id = ${projectId} AND ${sql.literal(differ(columns, "projects", "next"))}
    RETURNING project_id`
  return changed.length > 0
})

/**
 * Returns the time of an apply, which is later than every change of the project so far, also if the clock of this host is behind. No
 * client or deal changes until the apply is committed, so a list in the order of changes has not passed this time.
 */
const timeOfApply = Effect.fnUntraced(function* (sql: Sql, projectId: ProjectId) {
  const [row] = yield* sql<{ readonly after: Date }>`
    SELECT max(newest.updated_at) + interval '1 ms' AS after
    FROM (
      SELECT client.updated_at
      FROM unnest(ARRAY['active', 'archived']) AS status, LATERAL (
        SELECT updated_at FROM clients
        WHERE project_id = ${projectId} AND clients.status = status.status AND updated_at > '-infinity'
        ORDER BY updated_at DESC, id DESC LIMIT 1
      ) AS client
      UNION ALL
      SELECT deal.updated_at
      FROM unnest(ARRAY['active', 'archived']) AS lifecycle, unnest(ARRAY['open', 'won', 'lost']) AS status, LATERAL (
        SELECT updated_at FROM deals
        WHERE project_id = ${projectId} AND deals.lifecycle = lifecycle.lifecycle AND deals.status = status.status
          AND updated_at > '-infinity'
        ORDER BY updated_at DESC, id DESC LIMIT 1
      ) AS deal
    ) AS newest`
  const now = yield* DateTime.nowAsDate
  return row?.after !== undefined && row.after > now ? row.after : now
})

/**
 * Increments the project's revision, so that statements of the API with an older snapshot are retried. Recounts
 * `active_clients`. Without a capacity, this counter is not maintained and is 0.
 *
 * The count is exact, because the lock of `openProject` has waited for the mutations in flight. A file may set a capacity below the
 * number of active clients. The API then creates no client until fewer are active.
 */
const closeProject = (sql: Sql, projectId: ProjectId) => sql`
  UPDATE projects SET
    revision = revision + 1,
    active_clients = CASE WHEN contact_capacity IS NULL THEN 0 ELSE (
      SELECT count(*)::int FROM clients WHERE clients.project_id = ${projectId} AND status = 'active'
    ) END
  WHERE project_id = ${projectId}`

interface Listed {
  readonly projectId: ProjectId
  readonly name: string
  /** The number of webhooks, at most `maxWebhooks`. */
  readonly webhooks: number
  readonly createdAt: string
}

export const maxWebhooks = 1_000

/** Lists projects by id, which is `from` or later, including projects whose deletion was interrupted. */
export const listProjects = Effect.fn("listProjects")(function* (
  { after, limit }: Range,
  from = ""
): Effect.fn.Return<Found<Listed>, SqlError.SqlError, SqlClient.SqlClient> {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<Listed>`
    SELECT project_id AS "projectId", name, ${sql.literal(selectList({ createdAt: ["created_at", "timestamptz"] }))}, (
      SELECT count(*)::int FROM (
        SELECT FROM webhooks WHERE webhooks.project_id = projects.project_id LIMIT ${maxWebhooks}::int
      ) counted
    ) AS webhooks
    FROM projects WHERE project_id >= ${from} AND project_id > ${after ?? ""} ORDER BY project_id LIMIT ${limit + 1}::int`
  return pageOf(rows, limit, ({ projectId }) => projectId)
})
