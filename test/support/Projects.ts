/** Projects for tests without a service. */
import { ConfigProvider, Duration, Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { scopes } from "../../src/api/Access.ts"
import { ProjectId } from "../../src/api/schema/Ids.ts"
import { issueKey } from "../../src/http/auth/ApiKeys.ts"
import type { ProjectFile } from "../../src/project/ProjectFile.ts"
import { applyProject } from "../../src/project/Projects.ts"
import { Settings } from "../../src/platform/Settings.ts"
import { secretBox } from "./SecretBox.ts"
import { readFileSync } from "node:fs"
import { join } from "node:path"

/** The settings of a service without environment variables. */
export const usualSettings = Settings.layer.pipe(Layer.provide(ConfigProvider.layer(ConfigProvider.fromUnknown({}))))

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

/** Applies a project file with this `SECRET_KEY`; returns a token with every scope, for a day. */
export const openProject = (file: (typeof ProjectFile)["Encoded"], secretKey: string) =>
  Effect.gen(function* () {
    yield* applyProject(JSON.stringify(file))
    const { token } = yield* issueKey({
      projectId: ProjectId.make(file.project.id),
      name: "test",
      scopes,
      expiresIn: Duration.days(1),
      member: null
    })
    return Redacted.value(token)
  }).pipe(Effect.provide([secretBox(secretKey), usualSettings]))

export const demoText = readFileSync(join(import.meta.dirname, "../../src/project/demo.json"), "utf8")
