/** SQL of tasks. A statement returns no row when the project does not exist. */
import type { SqlClient } from "effect/sql"
import type { ProjectId, TaskId } from "../../api/Ids.ts"
import { jsonObject } from "../../platform/Columns.ts"
import { append, type Appended, appended, type EventContext, eventType } from "../../platform/outbox/Outbox.ts"
import { client, missingReferences, deal } from "../References.ts"
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

/** The `data` of the task events, from the rows that the two statements return. */
const createdData = `json_build_object('task', ${jsonObject(columns, "created")})`
const completedData = `json_build_object('task', ${jsonObject(columns, "completed")})`

/** Locks the project before its records, in the same order as a project file. */
const project = (sql: Sql, projectId: ProjectId) => sql`
  project AS MATERIALIZED (
    SELECT project_id FROM projects WHERE project_id = ${projectId} AND deleted_at IS NULL FOR KEY SHARE
  )`

/** Creates the task, unless a reference is missing; `members` names the missing ones. */
export const create = (sql: Sql, context: EventContext, id: TaskId, task: NewTask) => {
  const { at, projectId, traceparent } = context
  return sql<{ readonly members: string; readonly appended: Appended }>`
    WITH ${project(sql, projectId)},
    given AS (
      SELECT project_id, ${task.title}::text AS title, ${task.dealId}::text AS deal_id, ${task.clientId}::text AS client_id,
             ${task.dueAt}::timestamptz AS due_at
      FROM project
    ),
    verdict AS (SELECT concat(${missingReferences(sql, "given", [deal, client])}) AS members FROM given),
    created AS (
      INSERT INTO tasks (project_id, id, title, deal_id, client_id, due_at, version, created_at)
      SELECT ${projectId}::text, ${id}::text, title, deal_id, client_id, due_at, 1, ${at}::timestamptz
      FROM given, verdict WHERE members = ''
      RETURNING *
    ),
    ${append(
      sql,
      sql`
        SELECT project_id, ${eventType(sql, "crm.task.created.v1")}, ${sql.literal(createdData)}, created_at, ${traceparent}::text FROM created`
    )}
    SELECT members, ${appended(sql, sql`${projectId}`)} AS appended FROM verdict`
}

/** Completes an open task. Of two concurrent commands, the second waits and finds the task completed. */
export const complete = (sql: Sql, context: EventContext, id: TaskId) => {
  const { at, projectId, traceparent } = context
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
        SELECT project_id, ${eventType(sql, "crm.task.completed.v1")}, ${sql.literal(completedData)}, completed_at, ${traceparent}::text FROM completed`
    )}
    SELECT EXISTS (SELECT FROM tasks WHERE project_id = ${projectId} AND id = ${id}) AS known,
      ${appended(sql, sql`${projectId}`)} AS appended
    FROM project`
}
