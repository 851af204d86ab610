/** The service as a contender, and projects for it: installations with a webhook each. */
import { PgClient } from "@effect/sql-pg"
import { Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { InstallationId, type ProjectId } from "../../../src/api/schema/Ids.ts"
import { Notifier } from "../../../src/outbox/Outbox.ts"
import { secretOwner } from "../../../src/integrations/endpoints/WebhookSecrets.ts"
import { SecretBox, SecretKey } from "../../../src/secrets/SecretBox.ts"
import { connect, openProject, type Program, type Running, secretKey, start } from "../Stage.ts"
import type { Contender } from "./Protocol.ts"
import { secret } from "./Endpoints.ts"
import { eventType, installationId, projectId, traceparent, type Work } from "./Work.ts"

const plenty = { limit: 1_000_000_000, windowSeconds: 60 }

const projectFile = (id: ProjectId, installations: number) => ({
  project: { id, name: id, rateLimits: { read: plenty, write: plenty }, defaultPipelineId: "pipe_sales" },
  pipelines: [{ id: "pipe_sales", name: "Sales", stages: [{ id: "stage_new", name: "New" }] }],
  installations: Array.from({ length: installations }, (_, i) => ({ id: installationId(i), name: installationId(i) }))
})

const box = SecretBox.layer.pipe(Layer.provide(Layer.succeed(SecretKey, SecretKey.make(Redacted.make(secretKey)))))

/**
 * Creates a project with a webhook for each URL, in the state that the configure operation leaves, and returns a token with
 * all scopes. The first `subscribed` webhooks receive the events of new deals.
 */
export const open = Effect.fnUntraced(function* (
  sql: PgClient.PgClient,
  id: ProjectId,
  urls: ReadonlyArray<string>,
  { subscribed }: { readonly subscribed: number }
) {
  const token = yield* openProject(sql, projectFile(id, urls.length))
  const { seal } = yield* SecretBox
  for (const [i, url] of urls.entries()) {
    const sealed = yield* seal(secretOwner(id, installationId(i)), Redacted.make(secret))
    const types = [i < subscribed ? eventType : "crm.task.created.v1"]
    yield* sql`
      WITH webhook AS (
        INSERT INTO webhooks (project_id, installation_id, endpoint_url, event_types, enabled, version)
        VALUES (${id}, ${installationId(i)}, ${url}, ${types}, true, 1)
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
export const give = (sql: PgClient.PgClient, work: ReadonlyArray<Work>, id = projectId) => {
  const rows = work.map((one) => ({ ...one, installation: installationId(one.endpoint) }))
  return Effect.andThen(
    sql`
      WITH work AS MATERIALIZED (
        SELECT * FROM json_to_recordset(${JSON.stringify(rows)}::json)
          AS work (id text, "eventId" text, installation text, "occurredAt" timestamptz, data text)
      ),
      event AS (
        INSERT INTO events (project_id, id, type, data, traceparent, occurred_at)
        SELECT ${id}::text, "eventId", ${eventType}::text, data::json, ${traceparent}::text, "occurredAt" FROM work
      )
      INSERT INTO deliveries (project_id, id, installation_id, event_id, event_type, available_at, created_at)
      SELECT ${id}::text, id, installation, "eventId", ${eventType}::text, "occurredAt", "occurredAt" FROM work`,
    Effect.flatMap(Notifier, (notifier) =>
      notifier.appended(
        id,
        [...new Set(rows.map(({ installation }) => installation))].map((installation) =>
          InstallationId.make(installation)
        )
      )
    ).pipe(Effect.provide(Notifier.layerInline.pipe(Layer.provide(Layer.succeed(SqlClient.SqlClient, sql)))))
  )
}

/** Whether no delivery of the project is open. */
export const done = (sql: PgClient.PgClient) =>
  Effect.map(
    // Ordered by the index of open deliveries, so that no finished one is read, whatever the statistics are.
    sql`
      SELECT FROM deliveries WHERE project_id = ${projectId} AND finished_at IS NULL
      ORDER BY installation_id, available_at, id LIMIT 1`,
    (rows) => rows.length === 0
  )

/** The running service, and what is needed to send commands to it. */
export interface Ours extends Contender, Running {
  readonly sql: PgClient.PgClient
  readonly token: string
}

/** Creates the project and the other records on a database, then starts the service on it. */
export const ours = Effect.fnUntraced(function* <E, R>(
  program: Program,
  url: Redacted.Redacted,
  prepare: (sql: PgClient.PgClient) => Effect.Effect<string, E, R>,
  env: Readonly<Record<string, string>> = {}
) {
  const sql = yield* connect(url)
  const token = yield* prepare(sql)
  // Analyzed as after the first minute; tables that are still empty are left as on a new service.
  yield* sql`ANALYZE projects, installations, webhooks, webhook_secrets, endpoint_health`
  const running = yield* start(program, url, { WEBHOOK_ALLOWED_NETWORKS: "127.0.0.0/8", ...env })
  const made: Ours = { ...running, sql, token, give: (work) => give(sql, work), done: done(sql) }
  return made
})
