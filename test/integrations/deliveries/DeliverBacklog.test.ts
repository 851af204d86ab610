/** Long queues of disabled webhooks and of expired deliveries, which are dead-lettered in batches (contract §10). */
import { assert, describe, it as test } from "../../support/Vitest.ts"
import { Duration, Effect, Redacted } from "effect"
import type { SqlClient } from "effect/sql"
import { InstallationId, ProjectId } from "../../../src/api/schema/Ids.ts"
import {
  deadLetterBatch,
  discard,
  expire
} from "../../../src/integrations/deliveries/DeliveryMaintenance/DeadLetter.ts"
import { disableGone } from "../../../src/integrations/deliveries/Disabling.ts"
import { maxAge } from "../../../src/integrations/deliveries/DeliverySchedule.ts"
import { at, documentOf, run } from "../../cli/Cli.support.ts"
import { TestServer } from "../../support/TestServer.ts"
import { open, receiver, serve, layerOf, status } from "./Deliveries.support.ts"
import { untilRows } from "../../support/Waiting.ts"

const created = ["crm.deal.created.v1"]

/** Adds pending deliveries to the project's first event. */
const queue = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  projectId: string,
  count: number,
  age = "0 seconds"
) {
  yield* sql`
    INSERT INTO deliveries (project_id, id, installation_id, event_id, available_at, created_at)
    SELECT project_id, new_id('dlv', now()), installation_id, event_id, at, at
    FROM deliveries first, generate_series(1, ${count}::int), LATERAL (SELECT now() - ${age}::interval AS at) AS past
    WHERE project_id = ${projectId} AND id = (SELECT min(id) FROM deliveries WHERE project_id = ${projectId})`
}, Effect.orDie)

const countOf = (sql: SqlClient.SqlClient, projectId: string, where: string) =>
  Effect.map(
    Effect.orDie(sql<{ readonly count: number }>`
      SELECT count(*)::int FROM deliveries WHERE project_id = ${projectId} AND ${sql.literal(where)}`),
    ([row]) => row?.count
  )

const openQueue = Effect.fnUntraced(function* (count: number, age?: string) {
  const server = yield* TestServer
  const project = yield* open(server)
  yield* project.subscribe("shop", "http://127.0.0.1:9/", created)
  yield* project.created()
  yield* queue(server.sql, project.projectId, count, age)
  return project
})

layerOf({}, "api")("a backlog of deliveries", (it) => {
  it.effect("of a disabled webhook is dead-lettered in batches after the disabling", function* () {
    const { projectId, sql, webhook } = yield* openQueue(2 * deadLetterBatch + 500)
    const endpoint = { projectId: ProjectId.make(projectId), installationId: InstallationId.make("shop") }
    yield* disableGone(sql, { ...endpoint, urlVersion: 1 })
    assert.deepStrictEqual(yield* webhook(), { enabled: false, version: 2 })
    assert.strictEqual(yield* countOf(sql, projectId, "status = 'pending'"), 2 * deadLetterBatch + 501)
    // Each batch is a separate transaction: a crash between two batches loses nothing.
    const batches = []
    for (let more = true; more;) {
      const [batch = assert.fail()] = yield* discard(sql)
      batches.push(batch.count)
      more = batch.more
    }
    assert.deepStrictEqual(batches, [deadLetterBatch, deadLetterBatch, 501])
    assert.strictEqual(yield* countOf(sql, projectId, "status = 'dead' AND dead_code = 'disabled'"), 2_501)
    const [reason] = yield* sql`SELECT disabled_reason FROM webhooks WHERE project_id = ${projectId}`
    assert.deepStrictEqual(reason, { disabled_reason: "gone" })
  })

  it.effect("of several disabled webhooks is dead-lettered no faster", function* () {
    const projects = [yield* openQueue(deadLetterBatch - 100), yield* openQueue(deadLetterBatch - 100)]
    for (const { projectId, sql } of projects) {
      const endpoint = { projectId: ProjectId.make(projectId), installationId: InstallationId.make("shop") }
      yield* disableGone(sql, { ...endpoint, urlVersion: 1 })
    }
    const { sql } = yield* TestServer
    assert.deepStrictEqual(yield* discard(sql), [{ count: deadLetterBatch, more: true }])
    assert.deepStrictEqual(yield* discard(sql), [{ count: deadLetterBatch - 198, more: false }])
  })

  it.effect("that is older than the schedule and a day expires in batches, tried or not", function* () {
    const schedule = [Duration.hours(30), Duration.hours(2)]
    assert.strictEqual(Duration.toHours(maxAge(schedule)), 56)
    const { deliveries, projectId, retry, sql } = yield* openQueue(deadLetterBatch + 5, "57 hours")
    yield* queue(sql, projectId, 3, "55 hours")
    const age = Duration.toMillis(maxAge(schedule))
    assert.deepStrictEqual(yield* expire(sql, age), [{ count: deadLetterBatch, more: true }])
    assert.deepStrictEqual(yield* expire(sql, age), [{ count: 5, more: false }])
    assert.deepStrictEqual(yield* expire(sql, age), [{ count: 0, more: false }])
    assert.strictEqual(yield* countOf(sql, projectId, "dead_code = 'expired'"), deadLetterBatch + 5)
    assert.strictEqual(yield* countOf(sql, projectId, "status = 'pending'"), 4)

    const dead = (yield* deliveries()).find(({ status }) => status === "dead")
    const command = ["deliveries", "show", "--project", projectId, "--delivery", dead?.id ?? "", "--json"]
    const env = at(Redacted.make((yield* TestServer).databaseUrl))
    assert.deepInclude(documentOf(yield* run(command, { env })), {
      status: "dead",
      attempts: 0,
      lastErrorCode: "expired",
      nextAttemptAt: null
    })

    // A retry command resets its age.
    assert.strictEqual((yield* retry("shop", dead?.id ?? "")).status, 200)
    assert.deepStrictEqual(yield* expire(sql, age), [{ count: 0, more: false }])
  })
})

describe("a webhook whose attempts have all failed for WEBHOOK_DISABLE_AFTER", () => {
  test.live("is disabled, with the reason on record; a configure enables it again", function* () {
    const server = yield* serve({
      WEBHOOK_DISABLE_AFTER: "300ms",
      WEBHOOK_RETRY_SCHEDULE: "100ms,100ms,100ms,100ms,100ms"
    })
    const shop = yield* receiver(status(500))
    const project = yield* open(server)
    yield* project.subscribe("shop", shop.url, created)
    yield* project.created()
    yield* untilRows(project.webhook(), ({ enabled }) => !enabled)
    yield* untilRows(project.deliveries(), (rows) => rows.every(({ status }) => status === "dead"))
    assert.isAtLeast(shop.hits.length, 2)
    const why = Effect.orDie(server.sql`SELECT disabled_reason FROM webhooks WHERE project_id = ${project.projectId}`)
    assert.deepStrictEqual(yield* why, [{ disabled_reason: "failing" }])
    assert.strictEqual((yield* project.configure("shop", shop.url, 2, created)).status, 200)
    assert.deepStrictEqual(yield* why, [{ disabled_reason: null }])
  })

  test.live("stays enabled if it is configured to go elsewhere before the last failure disables it", function* () {
    const server = yield* serve({
      WEBHOOK_DISABLE_AFTER: "300ms",
      WEBHOOK_RETRY_SCHEDULE: "100ms,100ms,100ms,100ms,100ms"
    })
    const [failing, next] = [yield* receiver(status(500)), yield* receiver()]
    const project = yield* open(server)
    yield* project.subscribe("shop", failing.url, created)
    const { projectId, sql } = project
    yield* sql.withTransaction(
      Effect.gen(function* () {
        yield* sql`SELECT FROM webhooks WHERE project_id = ${projectId} FOR UPDATE`
        yield* project.created()
        // The statement that disables the webhook waits for its row.
        const waiting = sql`SELECT FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))`
        yield* untilRows(Effect.orDie(waiting), (rows) => rows.length > 0)
        yield* sql`UPDATE webhooks SET endpoint_url = ${next.url}, url_version = url_version + 1 WHERE project_id = ${projectId}`
      })
    )
    yield* project.finished
    assert.isTrue((yield* project.webhook()).enabled)
  })
})
