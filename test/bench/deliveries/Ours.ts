/** The service as a contender, and projects for it: installations with a webhook each. */
import { PgClient } from "@effect/sql-pg"
import { Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import type { ProjectId } from "../../../src/api/schema/Ids.ts"
import { Notifier } from "../../../src/outbox/Outbox.ts"
import { secretOwner } from "../../../src/webhooks/WebhookSecrets.ts"
import { SecretBox, SecretKey } from "../../../src/secrets/SecretBox.ts"
import { connect, openProject, type Program, type Running, secretKey, start } from "../Stage.ts"
import { projectFile, projectId } from "../requests/Seed.ts"
import { secret } from "./Scene.ts"
import { type Contender, eventType, installationId, traceparent, type Work } from "./Work.ts"

const box = SecretBox.layer.pipe(Layer.provide(Layer.succeed(SecretKey, SecretKey.make(Redacted.make(secretKey)))))

/**
 * Creates a project with a webhook for each URL, in the state that the configure operation leaves, and returns a token with
 * all scopes.
 */
export const open = Effect.fnUntraced(function* (sql: PgClient.PgClient, id: ProjectId, urls: ReadonlyArray<string>) {
  const installations = urls.map((_, i) => ({ id: installationId(i), name: installationId(i) }))
  const token = yield* openProject(sql, projectFile(id, { installations }))
  const { seal } = yield* SecretBox
  for (const [i, url] of urls.entries()) {
    const sealed = yield* seal(secretOwner(id, installationId(i)), Redacted.make(secret))
    yield* sql`
      WITH webhook AS (
        INSERT INTO webhooks (project_id, installation_id, endpoint_url, event_types, enabled, version)
        VALUES (${id}, ${installationId(i)}, ${url}, ${[eventType]}, true, 1)
        RETURNING project_id, installation_id
      ),
      secret AS (
        INSERT INTO webhook_secrets (project_id, installation_id, version, sealed)
        SELECT project_id, installation_id, 1, ${sealed}::bytea FROM webhook
      )
      INSERT INTO endpoint_health (project_id, installation_id) SELECT * FROM webhook`
  }
  return token
}, Effect.provide(box))

/** Stores events and their deliveries in a project as commands do, but all at once. */
const give = (sql: PgClient.PgClient, work: ReadonlyArray<Work>) => {
  const rows = work.map((one) => ({ ...one, installation: installationId(one.endpoint) }))
  const installations = [...new Set(rows.map(({ installation }) => installation))]
  return Effect.andThen(
    sql`
      WITH work AS MATERIALIZED (
        SELECT * FROM json_to_recordset(${JSON.stringify(rows)}::json)
          AS work (id text, "eventId" text, installation text, "occurredAt" timestamptz, data text)
      ),
      event AS (
        INSERT INTO events (project_id, id, type, data, traceparent, occurred_at)
        SELECT ${projectId}::text, "eventId", ${eventType}::text, data::json, ${traceparent}::text, "occurredAt" FROM work
      )
      INSERT INTO deliveries (project_id, id, installation_id, event_id, event_type, available_at, created_at)
      SELECT ${projectId}::text, id, installation, "eventId", ${eventType}::text, "occurredAt", "occurredAt" FROM work`,
    Effect.flatMap(Notifier, (notifier) => notifier.appended(projectId, installations)).pipe(
      Effect.provide(Notifier.layerInline.pipe(Layer.provide(Layer.succeed(SqlClient.SqlClient, sql))))
    )
  )
}

/** Whether no delivery of the project is open. */
const done = (sql: PgClient.PgClient) =>
  Effect.map(
    // Ordered by the index of open deliveries, so that no finished one is read, whatever the statistics are.
    sql`
      SELECT FROM deliveries WHERE project_id = ${projectId} AND finished_at IS NULL
      ORDER BY installation_id, available_at, id LIMIT 1`,
    (rows) => rows.length === 0
  )

/** Creates projects and their records on a database, then starts the service on it. */
export const ours = Effect.fnUntraced(function* <E, R>(
  program: Program,
  url: Redacted.Redacted,
  prepare: (sql: PgClient.PgClient) => Effect.Effect<unknown, E, R>,
  env: Readonly<Record<string, string>> = {}
) {
  const sql = yield* connect(url)
  yield* prepare(sql)
  // Analyzed as after the first minute; tables that are still empty are left as on a new service.
  yield* sql`ANALYZE projects, installations, webhooks, webhook_secrets, endpoint_health`
  const running = yield* start(program, url, { WEBHOOK_ALLOWED_NETWORKS: "127.0.0.0/8", ...env })
  const contender: Contender & Running = { ...running, give: (work) => give(sql, work), done: done(sql) }
  return contender
})
