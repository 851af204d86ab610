/** Projects for tests that do not use a project file. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { ProjectId } from "../../src/api/schema/Ids.ts"
import { readFileSync } from "node:fs"
import { join } from "node:path"

/** Creates a project with an active and an inactive member. */
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

export const demoText = readFileSync(join(import.meta.dirname, "../../src/project/demo.json"), "utf8")
