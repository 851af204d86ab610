/** The banner of the first start with the embedded database: a token, and requests to try. */
import { Duration, Effect, Option, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { scopes } from "../api/Access.ts"
import { ProjectId } from "../api/Ids.ts"
import { ApiKeys } from "../platform/auth/ApiKeys.ts"
import { demoProjectFile } from "../project/Demo.ts"
import { Projects } from "../project/Projects.ts"

/** Loads the demo project and issues its key, unless a key exists: a token is shown once. */
export const welcome = Effect.fnUntraced(function* (url: string) {
  const sql = yield* SqlClient.SqlClient
  const known = yield* sql`SELECT 1 FROM api_keys UNION ALL SELECT 1 FROM projects WHERE project_id <> 'demo' LIMIT 1`
  if (known.length > 0) return []

  yield* (yield* Projects).apply(JSON.stringify(demoProjectFile))
  const { token } = yield* (yield* ApiKeys).issue({
    projectId: ProjectId.make("demo"),
    name: "first start",
    scopes,
    expiresIn: Duration.days(90),
    memberId: Option.none()
  })
  return banner(url, Redacted.value(token))
})

const banner = (url: string, token: string) => {
  const clients = `${url}/api/v1/developer/crm/clients`
  const authorization = `-H "Authorization: Bearer ${token}"`
  return [
    "",
    "The demo project is loaded. This token opens it for 90 days, and is shown only now:",
    "",
    `  base URL  ${url}`,
    `  token     ${token}`,
    "",
    "Try it:",
    "",
    `curl -i "${clients}?limit=2" ${authorization}`,
    `curl -i -X POST "${clients}" ${authorization} -H "content-type: application/json" -H "idempotency-key: first-client" -d '{"displayName":"Robin Example"}'`,
    `curl -i "${clients}/cli_mara" ${authorization}`,
    "",
    `The reference is at ${url}/docs`,
    ""
  ]
}
