/** Why the command of an operator fails, and the check whether this database serves its project. */
import { Data, Effect, Schema } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import { ProjectId } from "../api/schema/Ids.ts"
import { livesHere } from "../platform/MoveState.ts"

/** The project does not exist in this database, is being deleted, or is closed by a move (`livesHere`). */
export class ProjectUnknown extends Data.TaggedError("ProjectUnknown")<{ readonly projectId: string }> {
  override get message() {
    return `There is no project "${this.projectId}"`
  }
}

/** Reads the id of a project. An invalid one names no project. */
export const decodeProjectId = (text: string): Effect.Effect<ProjectId, ProjectUnknown> =>
  Schema.decodeEffect(ProjectId)(text).pipe(Effect.mapError(() => new ProjectUnknown({ projectId: text })))

/**
 * The common table expression `project` locks the project's row, before the statement locks records of the project. The
 * expression has no row if this database does not serve the project, even if an earlier check has passed.
 */
export const servedProject = (sql: SqlClient.SqlClient, projectId: ProjectId) => sql`
  project AS MATERIALIZED (
    SELECT project_id FROM projects WHERE project_id = ${projectId} AND deleted_at IS NULL AND ${livesHere(sql, sql`move_state`)}
    FOR KEY SHARE
  )`

export const requireProject = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  projectId: ProjectId
): Effect.fn.Return<void, ProjectUnknown | SqlError.SqlError> {
  const rows = yield* sql`
    SELECT FROM projects WHERE project_id = ${projectId} AND deleted_at IS NULL AND ${livesHere(sql, sql`move_state`)}`
  if (rows.length === 0) return yield* new ProjectUnknown({ projectId })
})

/** An operator's command failed: the record does not exist, or its state does not allow the command. */
export class Refused extends Data.TaggedError("Refused")<{ readonly message: string }> {}

export const noSuchRecord = (projectId: ProjectId, kind: string, id: string) =>
  new Refused({ message: `Project "${projectId}" has no ${kind} "${id}"` })
