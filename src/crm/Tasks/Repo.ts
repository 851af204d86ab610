/** The SQL of tasks. Every statement names the project first, and gives no row when there is none. */
import type { SqlClient } from "effect/sql"
import type { ProjectId, TaskId } from "../../api/Ids.ts"
import { jsonObject } from "../../platform/Columns.ts"
import { append, type Appended, appended, type Cause } from "../../platform/outbox/Outbox.ts"
import { client, dangling, deal } from "../References.ts"
import type { NewTask } from "../Tasks.ts"

type Sql = SqlClient.SqlClient

const columns = {
  id: "id",
  title: "title",
  dealId: "deal_id",
  clientId: "client_id",
  assigneeId: "assignee_id",
  dueAt: ["due_at", "timestamptz"],
  completedAt: ["completed_at", "timestamptz"],
  createdAt: ["created_at", "timestamptz"]
} as const

/** The `data` of the task events, of the rows that the two statements leave. */
const createdData = `json_build_object('task', ${jsonObject(columns, "created")})`
const completedData = `json_build_object('task', ${jsonObject(columns, "completed")})`

/** The project, locked before what is in it, in the order that a project file locks them, too. */
const project = (sql: Sql, projectId: ProjectId) => sql`
  project AS MATERIALIZED (
    SELECT project_id FROM projects WHERE project_id = ${projectId} AND deleted_at IS NULL FOR KEY SHARE
  )`

/** Creates the task unless it refers to what the project lacks: then `members` names that. */
export const create = (sql: Sql, cause: Cause, id: TaskId, task: NewTask) => {
  const { at, projectId, traceparent } = cause
  return sql<{ readonly members: string; readonly appended: Appended }>`
    WITH ${project(sql, projectId)},
    given AS (
      SELECT project_id, ${task.title}::text AS title, ${task.dealId}::text AS deal_id, ${task.clientId}::text AS client_id,
             ${task.dueAt}::timestamptz AS due_at
      FROM project
    ),
    verdict AS (SELECT concat(${dangling(sql, "given", [deal, client])}) AS members FROM given),
    created AS (
      INSERT INTO tasks (project_id, id, title, deal_id, client_id, due_at, version, created_at)
      SELECT ${projectId}::text, ${id}::text, title, deal_id, client_id, due_at, 1, ${at}::timestamptz
      FROM given, verdict WHERE members = ''
      RETURNING *
    ),
    ${append(
      sql,
      sql`
        SELECT project_id, 'crm.task.created.v1', ${sql.literal(createdData)}, created_at, ${traceparent}::text FROM created`
    )}
    SELECT members, ${appended(sql, sql`${projectId}`)} AS appended FROM verdict`
}

/** Completes the task if it is open. Of two that do so at once, the second waits, and finds it completed. */
export const complete = (sql: Sql, cause: Cause, id: TaskId) => {
  const { at, projectId, traceparent } = cause
  return sql<{ readonly known: boolean; readonly appended: Appended }>`
    WITH ${project(sql, projectId)},
    completed AS (
      UPDATE tasks SET completed_at = ${at}::timestamptz, version = version + 1
      FROM project
      WHERE tasks.project_id = project.project_id AND tasks.id = ${id} AND tasks.completed_at IS NULL
      RETURNING tasks.*
    ),
    ${append(
      sql,
      sql`
        SELECT project_id, 'crm.task.completed.v1', ${sql.literal(completedData)}, completed_at, ${traceparent}::text FROM completed`
    )}
    SELECT EXISTS (SELECT FROM tasks WHERE project_id = ${projectId} AND id = ${id}) AS known,
      ${appended(sql, sql`${projectId}`)} AS appended
    FROM project`
}
