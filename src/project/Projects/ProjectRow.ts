/** The project's own row: made, locked, changed, and its count of active clients set right. */
import { DateTime, Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { modules } from "../../api/Access.ts"
import type { PipelineId, ProjectId } from "../../api/Ids.ts"
import type { ProjectFile } from "../ProjectFile.ts"

type Sql = SqlClient.SqlClient
type Project = ProjectFile["project"]

/** What of a project can be set. */
interface Row {
  readonly name: string
  readonly timeZone: string
  readonly contactCapacity: number | null
  readonly modules: ReadonlyArray<string>
  readonly entitlements: ReadonlyArray<string>
  readonly rateLimits: unknown
  readonly defaultPipelineId: PipelineId | null
}

/** The row that a file leaves behind: what it sets, and the rest of `old`. */
const next = (project: Project, old: Row): Row => ({
  name: project.name,
  timeZone: project.timeZone ?? old.timeZone,
  contactCapacity: project.contactCapacity === undefined ? old.contactCapacity : project.contactCapacity,
  modules: project.modules ?? old.modules,
  entitlements: project.entitlements ?? old.entitlements,
  rateLimits: project.rateLimits ?? old.rateLimits,
  defaultPipelineId: project.defaultPipelineId === undefined ? old.defaultPipelineId : project.defaultPipelineId
})

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
 * Takes exclusively the advisory lock that each mutation of the API shares (`enter_project`). Waits for the mutations in
 * flight; later ones never wait for the lock, so a file gets its turn under any stream of them.
 */
const first = (sql: Sql, projectId: ProjectId) => sql`SELECT pg_advisory_xact_lock(hashtextextended(${projectId}, 0))`

/**
 * Makes the project unless it exists, and locks it; tells whether it was made, and the row that the file leaves behind.
 *
 * The advisory lock is the first that an apply takes: applies of one project wait for each other, and for every mutation
 * of the API that is in flight. Later mutations are sent again until the apply is through, and hold nothing meanwhile, so
 * no two wait for each other. The row lock keeps out the commands of operators, which lock the project `FOR KEY SHARE`.
 * Whatever the API changes is as stable under these locks as if it were locked itself.
 */
export const open = Effect.fnUntraced(function* (sql: Sql, project: Project) {
  yield* first(sql, project.id)
  const row = next(project, initial)
  // The pipeline may be one of the file that isn't there yet: that the project refers to it is checked at the end.
  const made = yield* sql`
    INSERT INTO projects
      (project_id, name, time_zone, contact_capacity, modules, entitlements, rate_limits, default_pipeline_id, created_at)
    VALUES (
      ${project.id}, ${row.name}, ${row.timeZone}, ${row.contactCapacity}, ${row.modules}, ${row.entitlements},
      ${JSON.stringify(row.rateLimits)}::jsonb, ${row.defaultPipelineId}, ${yield* DateTime.nowAsDate}
    )
    ON CONFLICT DO NOTHING
    RETURNING project_id`
  // A statement of its own, so that it sees what a concurrent apply has committed while the INSERT waited for it.
  const [old = initial] = yield* sql<Row & { readonly isDeleted: boolean }>`
    SELECT deleted_at IS NOT NULL AS "isDeleted", name, time_zone AS "timeZone", contact_capacity AS "contactCapacity", modules, entitlements,
      rate_limits AS "rateLimits", default_pipeline_id AS "defaultPipelineId"
    FROM projects WHERE project_id = ${project.id} FOR UPDATE`
  return { created: made.length > 0, isDeleted: "isDeleted" in old && old.isDeleted, row: next(project, old) }
})

/** Sets what differs from `row`, and tells whether anything did. */
export const update = Effect.fnUntraced(function* (sql: Sql, projectId: ProjectId, row: Row) {
  const changed = yield* sql`
    UPDATE projects SET
      name = ${row.name}, time_zone = ${row.timeZone}, contact_capacity = ${row.contactCapacity},
      modules = ${row.modules}, entitlements = ${row.entitlements},
      rate_limits = ${JSON.stringify(row.rateLimits)}::jsonb, default_pipeline_id = ${row.defaultPipelineId}
    WHERE project_id = ${projectId}
      AND (name, time_zone, contact_capacity, modules, entitlements, rate_limits, default_pipeline_id)
        IS DISTINCT FROM (
          ${row.name}::text, ${row.timeZone}::text, ${row.contactCapacity}::integer, ${row.modules}::text[],
          ${row.entitlements}::text[], ${JSON.stringify(row.rateLimits)}::jsonb, ${row.defaultPipelineId}::text
        )
    RETURNING project_id`
  return changed.length > 0
})

/**
 * Raises the project's revision, which tells the API's statements that what they have read is old, and sets
 * `active_clients` to the truth; without a capacity nobody keeps it, and it is 0.
 *
 * The count is exact under the lock that `open` took: no create is in flight that saw another capacity than ours, be it
 * one that counts itself or one that does not. More clients than the capacity are the operator's choice; the API then
 * creates none until there is room.
 */
export const close = (sql: Sql, projectId: ProjectId) => sql`
  UPDATE projects SET
    revision = revision + 1,
    active_clients = CASE WHEN contact_capacity IS NULL THEN 0 ELSE (
      SELECT count(*)::int FROM clients WHERE clients.project_id = ${projectId} AND status = 'active'
    ) END
  WHERE project_id = ${projectId}`
