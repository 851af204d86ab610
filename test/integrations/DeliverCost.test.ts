/** Rows that a claim reads: only those of visited endpoints, with any number of parked or idle ones (contract §10). */
import { PgClient } from "@effect/sql-pg"
import { assert } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { InstallationId, ProjectId } from "../../src/api/Ids.ts"
import { claim } from "../../src/integrations/Deliveries/Claim.ts"
import type { Named } from "../../src/integrations/Deliveries/Claim/Endpoints.ts"
import { pools } from "../../src/platform/Database/Pools.ts"
import { TestServer } from "../support/TestServer.ts"
import { open, layerOf } from "./Deliveries.support.ts"

const parked = 2_000
/** Deliveries for one endpoint, enough that a scan by any index but the queue's shows. */
const waiting = 10_000

/** Returns the number of rows that the transaction has read from the tables, by index or not. */
const reads = (sql: PgClient.PgClient) =>
  Effect.map(
    sql<{ readonly rows: number }>`
      SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::int AS rows FROM pg_stat_xact_user_tables
      WHERE relname IN ('deliveries', 'endpoint_health', 'webhooks')`,
    ([row]) => row?.rows ?? 0
  )

/** Claims in a transaction; returns the number of claims and of rows that were read. */
const counted = (sql: PgClient.PgClient, named: ReadonlyArray<Named>) =>
  sql.withTransaction(
    Effect.gen(function* () {
      const before = yield* reads(sql)
      const slots = { healthy: 512, suspect: 512 }
      const claims = yield* claim(sql, { workerId: 1n, leaseMillis: 60_000, concurrency: 4, slots, named })
      return { claims: claims.length, rows: (yield* reads(sql)) - before }
    })
  )

/** Runs statements on a connection with the settings of the service's claims. */
const asService = <E, R>(
  { databaseUrl }: TestServer["Service"],
  run: (sql: PgClient.PgClient) => Effect.Effect<void, E, R>
) =>
  Effect.flatMap(PgClient.PgClient, run).pipe(
    Effect.provide(
      PgClient.layer({ url: Redacted.make(databaseUrl), maxConnections: 1, startupParameters: pools.claims.session })
    )
  )

layerOf({}, "api")("a claim of deliveries", (it) => {
  it.effect("reads neither parked endpoints nor their deliveries", () =>
    Effect.gen(function* () {
      const server = yield* TestServer
      const { created, projectId, subscribe } = yield* open(server)
      yield* subscribe("shop", "http://127.0.0.1:9/", ["crm.deal.created.v1"])
      yield* created()
      const setUp = server.sql
      yield* setUp`
        INSERT INTO installations (project_id, id, name, status)
        SELECT ${projectId}::text, 'parked' || n, 'Parked', 'active' FROM generate_series(1, ${parked}::int) n`
      yield* setUp`
        INSERT INTO webhooks (project_id, installation_id, endpoint_url, event_types, enabled, version)
        SELECT project_id, id, 'http://127.0.0.1:9/', '{}', true, 1 FROM installations
        WHERE project_id = ${projectId} AND id LIKE 'parked%'`
      yield* setUp`
        INSERT INTO endpoint_health (project_id, installation_id, failures, strikes, parked_until, next_due_at)
        SELECT project_id, id, 12, 12, now() + interval '1 day', now() FROM installations
        WHERE project_id = ${projectId} AND id LIKE 'parked%'`
      yield* setUp`
        INSERT INTO deliveries (project_id, id, installation_id, event_id, available_at, created_at)
        SELECT health.project_id, new_id('dlv', now()), health.installation_id, event_id, now(), now()
        FROM deliveries JOIN endpoint_health health USING (project_id)
        WHERE project_id = ${projectId} AND parked_until IS NOT NULL`
      yield* setUp`ANALYZE deliveries, endpoint_health, webhooks`

      const named = [{ projectId: ProjectId.make(projectId), installationId: InstallationId.make("shop"), width: 4 }]
      yield* asService(
        server,
        Effect.fnUntraced(function* (sql) {
          const { claims, rows } = yield* counted(sql, named)
          assert.strictEqual(claims, 1)
          assert.isBelow(rows, 20)
        })
      )
    }).pipe(Effect.orDie)
  )
})

layerOf({}, "api")("a claim from a table without statistics", (it) => {
  it.effect("reads no delivery beyond those that it leases and the next", () =>
    Effect.gen(function* () {
      const server = yield* TestServer
      const { created, projectId, subscribe } = yield* open(server)
      yield* subscribe("shop", "http://127.0.0.1:9/", ["crm.deal.created.v1"])
      yield* created()
      yield* server.sql`
      INSERT INTO deliveries (project_id, id, installation_id, event_id, available_at, created_at)
      SELECT project_id, new_id('dlv', now()), installation_id, event_id, now(), now()
      FROM deliveries, generate_series(1, ${waiting}::int) WHERE project_id = ${projectId}`
      const named = [{ projectId: ProjectId.make(projectId), installationId: InstallationId.make("shop"), width: 4 }]
      yield* asService(
        server,
        Effect.fnUntraced(function* (sql) {
          const { claims, rows } = yield* counted(sql, named)
          assert.strictEqual(claims, 4)
          assert.isBelow(rows, 40)
        })
      )
    }).pipe(Effect.orDie)
  )
})
