/** Tasks. Operators create and complete tasks with commands, which emit events (contract §7, §13). */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { Task } from "../api/integrations/Events.ts"
import { type ProjectId, TaskId } from "../api/schema/Ids.ts"
import { columnsOf, jsonObject } from "../sql/Columns.ts"
import { retryContended } from "../sql/Database.ts"
import { newId } from "../platform/Ids.ts"
import {
  append,
  type Appended,
  appendedInstallations,
  type EventContext,
  eventContext,
  eventType,
  Notifier
} from "../outbox/Outbox.ts"
import { noSuchRecord, ProjectUnknown, Refused, servedProject } from "../operating/Refusals.ts"
import { missingReferences } from "./References.ts"

type Sql = SqlClient.SqlClient

interface NewTask {
  readonly title: string
  readonly dealId: string | null
  readonly clientId: string | null
  readonly dueAt: Date | null
}

/** Creates an open task and emits `crm.task.created.v1`. */
export const createTask = Effect.fn("createTask")(function* (projectId: ProjectId, task: NewTask) {
  const sql = yield* SqlClient.SqlClient
  const id = TaskId.make(yield* newId("task"))
  const [verdict] = yield* retryContended(create(sql, yield* eventContext(projectId), id, task))
  if (verdict === undefined) return yield* new ProjectUnknown({ projectId })
  const unknown = [
    ...(verdict.members.includes("dealId") ? [`deal "${task.dealId}"`] : []),
    ...(verdict.members.includes("clientId") ? [`client "${task.clientId}"`] : [])
  ]
  if (unknown.length > 0)
    return yield* new Refused({ message: `Project "${projectId}" has no ${unknown.join(" and no ")}` })
  yield* (yield* Notifier).appended(projectId, verdict.appended)
  return id
})

/** Completes a task and emits `crm.task.completed.v1`. A task that is completed already stays as it is. */
export const completeTask = Effect.fn("completeTask")(function* (projectId: ProjectId, id: string) {
  const [verdict] = yield* complete(yield* SqlClient.SqlClient, yield* eventContext(projectId), id).pipe(Effect.orDie)
  if (verdict === undefined) return yield* new ProjectUnknown({ projectId })
  if (!verdict.known) return yield* noSuchRecord(projectId, "task", id)
  yield* (yield* Notifier).appended(projectId, verdict.appended)
})

const columns = columnsOf(Task.fields, {})

/** The `data` of the two task events, from the rows `created` and `completed` of the statements. */
const createdData = `json_build_object('task', ${jsonObject(columns, "created")})`
const completedData = `json_build_object('task', ${jsonObject(columns, "completed")})`

/**
 * Creates the task if the records that it references exist; otherwise `members` names the references that are missing. Returns
 * no row if the project does not exist.
 */
const create = (sql: Sql, context: EventContext, id: TaskId, task: NewTask) => {
  const { at, projectId, traceparent } = context
  return sql<{ readonly members: ReadonlyArray<string>; readonly appended: Appended }>`
    WITH ${servedProject(sql, projectId)},
    given AS (
      SELECT project_id, ${task.title}::text AS title, ${task.dealId}::text AS deal_id, ${task.clientId}::text AS client_id,
             ${task.dueAt}::timestamptz AS due_at
      FROM project
    ),
    verdict AS (SELECT array_remove(ARRAY[${sql.literal(missingReferences("given", ["dealId", "clientId"]))}], NULL) AS members FROM given),
    created AS (
      INSERT INTO tasks (project_id, id, title, deal_id, client_id, due_at, version, created_at)
      SELECT ${projectId}::text, ${id}::text, title, deal_id, client_id, due_at, 1, ${at}::timestamptz
      FROM given, verdict WHERE members = '{}'
      RETURNING *
    ),
    ${append(
      sql,
      sql`
        SELECT project_id, ${eventType(sql, "crm.task.created.v1")}, ${sql.literal(createdData)}, created_at, ${traceparent}::text FROM created`
    )}
    SELECT members, ${appendedInstallations(sql, sql`${projectId}`)} AS appended FROM verdict`
}

/**
 * Completes an open task. Of two concurrent commands, the second waits and finds the task completed. Returns no row if the
 * project does not exist.
 */
const complete = (sql: Sql, context: EventContext, id: string) => {
  const { at, projectId, traceparent } = context
  return sql<{ readonly known: boolean; readonly appended: Appended }>`
    WITH ${servedProject(sql, projectId)},
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
      ${appendedInstallations(sql, sql`${projectId}`)} AS appended
    FROM project`
}
