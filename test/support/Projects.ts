/** Projects for tests that start below the project file. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { ProjectId } from "../../src/api/Ids.ts"

/** A project with an active member and one who has left. */
export const makeProject = Effect.fnUntraced(function* (id: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    INSERT INTO projects (project_id, name, time_zone, modules, entitlements, rate_limits, created_at)
    VALUES (${id}, 'Acme', 'UTC', '{}', '{}', '{}', now())`
  yield* sql`
    INSERT INTO members (project_id, id, name, active)
    VALUES (${id}, 'anna', 'Anna', true), (${id}, 'left', 'Left', false)`
  return ProjectId.make(id)
})
