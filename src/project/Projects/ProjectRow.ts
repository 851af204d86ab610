/** Creates, locks and updates the row of a project, with its count of active clients. */
import { DateTime, Effect, Struct } from "effect"
import type { SqlClient } from "effect/sql"
import { modules } from "../../api/Access.ts"
import type { ProjectId } from "../../api/schema/Ids.ts"
import {
  assignmentList,
  type Columns,
  differ,
  insertList,
  insertedValues,
  listOf,
  selectList
} from "../../sql/Columns.ts"
import { livesHere } from "../../platform/Moves.ts"
import type { ProjectFile } from "../ProjectFile.ts"

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
 * Takes the project's advisory lock exclusively, and so waits for the mutations in flight. Each mutation of the API takes this
 * lock in shared mode (`enter_project`). Later mutations fail to get the lock and retry, so they do not delay an apply.
 */
const first = (sql: Sql, projectId: ProjectId) => sql`SELECT pg_advisory_xact_lock(hashtextextended(${projectId}, 0))`

/**
 * Creates the project unless it exists, and locks it. Returns the row with the values of the file. `isDeleted` is also true if
 * another database serves the project.
 *
 * The advisory lock is the first lock of an apply. Mutations of the API that come later retry until the apply has ended, and
 * hold no lock meanwhile, so there is no deadlock. The row lock blocks the commands of operators, which lock the row `FOR KEY
 * SHARE`. Under both locks, all records that the API changes are stable.
 */
export const open = Effect.fnUntraced(function* (sql: Sql, project: Project) {
  yield* first(sql, project.id)
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
export const read = Effect.fnUntraced(function* (sql: Sql, projectId: ProjectId) {
  const [row] = yield* sql<Row & { readonly id: ProjectId }>`
    SELECT project_id AS id, ${sql.literal(selectList(columns))}
    FROM projects WHERE project_id = ${projectId} AND deleted_at IS NULL AND ${livesHere(sql, sql`move_state`)}`
  return row
})

export const update = Effect.fnUntraced(function* (sql: Sql, projectId: ProjectId, row: Row) {
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
export const timeOfApply = Effect.fnUntraced(function* (sql: Sql, projectId: ProjectId) {
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
 * The count is exact, because the lock of `open` has waited for the mutations in flight. A file may set a capacity below the
 * number of active clients. The API then creates no client until fewer are active.
 */
export const close = (sql: Sql, projectId: ProjectId) => sql`
  UPDATE projects SET
    revision = revision + 1,
    active_clients = CASE WHEN contact_capacity IS NULL THEN 0 ELSE (
      SELECT count(*)::int FROM clients WHERE clients.project_id = ${projectId} AND status = 'active'
    ) END
  WHERE project_id = ${projectId}`
