/**
 * The lines that a start with the embedded database prints: the URLs of the reference and the console. The first start also
 * prints a token.
 */
import { DateTime, Duration, Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { scopes } from "../api/Access.ts"
import { noteExample } from "../api/crm/Notes.ts"
import { messageExample } from "../api/messaging/Messaging.ts"
import { type KeyId, ProjectId } from "../api/schema/Ids.ts"
import { service } from "../operating/Audit.ts"
import { issue, signInPath } from "../http/auth/OperatorSessions.ts"
import { issueKey } from "../http/auth/ApiKeys.ts"
import demo from "../project/demo.json" with { type: "json" }
import { applyProject } from "../project/Projects.ts"

interface Urls {
  readonly service: string
  readonly admin: string
}

/**
 * Returns the lines. If there is no key, and no project except the demo project, first loads the demo project, issues a key for
 * it, and adds the records that the samples of the reference name.
 */
export const welcome = Effect.fnUntraced(function* (urls: Urls) {
  const sql = yield* SqlClient.SqlClient
  const known = yield* sql`SELECT 1 FROM api_keys UNION ALL SELECT 1 FROM projects WHERE project_id <> 'demo' LIMIT 1`
  if (known.length > 0) return [referenceAt(urls.service), consoleAt(urls.admin, "/console"), anotherToken]

  yield* applyProject(JSON.stringify(demo))
  const { keyId, token } = yield* issueKey({
    projectId: ProjectId.make("demo"),
    name: "first start",
    scopes,
    expiresIn: Duration.days(90),
    member: null
  })
  yield* addSamples(sql, keyId, (yield* DateTime.nowAsDate).toISOString())
  const links = (yield* issue(sql, service)).map(({ code }) => consoleAt(urls.admin, `${signInPath}?code=${code}`))
  return [...banner(urls.service, Redacted.value(token)), ...links, ""]
})

/** Writes the note and the message that the samples of the reference name. A project file can't contain notes and messages. */
const addSamples = (sql: SqlClient.SqlClient, author: KeyId, at: string) => sql`
  WITH note AS (
    INSERT INTO notes (project_id, id, deal_id, body, author_key_id, version, created_at, updated_at)
    SELECT project_id, ${noteExample.id}, id, ${noteExample.body}, ${author}, 1, ${at}::timestamptz, ${at}::timestamptz
    FROM deals WHERE project_id = 'demo' AND id = ${noteExample.dealId}
    ON CONFLICT DO NOTHING
  )
  INSERT INTO messages (project_id, id, conversation_id, channel_id, provider_type, address, text, status, attempts,
    attempting, attempt_log, traceparent, created_at, updated_at)
  SELECT conversation.project_id, ${messageExample.messageId}, conversation.id, channel_id, provider_type, address, 'Welcome to the demo.',
    ${messageExample.deliveryStatus}, 1, false,
    ${JSON.stringify(messageExample.attempts.map((attempt) => ({ ...attempt, startedAt: at, finishedAt: at })))}::jsonb,
    '', ${at}::timestamptz, ${at}::timestamptz
  FROM conversations AS conversation
    JOIN channels ON channels.project_id = conversation.project_id AND channels.id = channel_id
  WHERE conversation.project_id = 'demo' AND conversation.id = ${messageExample.conversationId}
  ON CONFLICT DO NOTHING`

const referenceAt = (service: string) => `reference at ${service}/docs`

const anotherToken = "another token by: npm run --silent cli -- token issue --project demo --name tour --scope all"

const consoleAt = (admin: string, path: string) => `console at ${admin}${path}`

const banner = (url: string, token: string) => {
  const api = `${url}/api/v1/developer`
  const clients = `${api}/crm/clients`
  const authorization = `-H "Authorization: Bearer ${token}"`
  return [
    "",
    "The demo project is loaded. This token opens it for 90 days, and is shown only now:",
    "",
    `  base URL  ${url}`,
    `  token     ${token}`,
    "",
    "For the tour of README.md, paste this line into a second terminal:",
    "",
    `export API=${api} TOKEN=${token}`,
    "",
    "Or try it at once:",
    "",
    `curl -i -w '\\n' "${clients}?limit=2" ${authorization}`,
    `curl -i -w '\\n' -X POST "${clients}" ${authorization} -H "content-type: application/json" -H "idempotency-key: first-client" -d '{"displayName":"Robin Example"}'`,
    `curl -i -w '\\n' "${clients}/cli_mara" ${authorization}`,
    "",
    referenceAt(url),
    "",
    "The console opens once, within 10 minutes, by this link:"
  ]
}
