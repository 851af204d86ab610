/** Long queues of disabled webhooks and of expired deliveries, which are dead-lettered in batches (contract §10). */
import { assert } from "@effect/vitest"
import { Duration, Effect, Redacted } from "effect"
import type { SqlClient } from "effect/sql"
import { InstallationId, ProjectId } from "../../../src/api/schema/Ids.ts"
import { deadLetterBatch, discard, expire } from "../../../src/integrations/deliveries/DeliveryMaintenance.ts"
import { disable } from "../../../src/integrations/deliveries/Disabling.ts"
import { maxAge } from "../../../src/integrations/deliveries/DeliverySchedule.ts"
import { at, documentOf, run } from "../../cli/Cli.support.ts"
import { TestServer } from "../../support/TestServer.ts"
import { layerOf, openShop, status } from "./Deliveries.support.ts"
import { created, openDue } from "./Due.support.ts"
import { untilRows } from "../../support/Waiting.ts"

const countOf = (sql: SqlClient.SqlClient, projectId: string, where: string) =>
  Effect.map(
    Effect.orDie(sql<{ readonly count: number }>`
      SELECT count(*)::int FROM deliveries WHERE project_id = ${projectId} AND ${sql.literal(where)}`),
    ([row]) => row?.count
  )

/** Opens a project with a delivery that is due, and this number of others. */
const openQueue = Effect.fnUntraced(function* (count: number, age?: string) {
  const project = yield* openDue()
  yield* project.queue(count, age)
  const projectId = ProjectId.make(project.projectId)
  return { ...project, endpoint: { projectId, installationId: InstallationId.make("shop"), version: 1 } }
})

layerOf({}, "api")("a backlog of deliveries", (it) => {
  it.effect("of a disabled webhook is dead-lettered in batches after the disabling", function* () {
    const { endpoint, projectId, sql, webhook } = yield* openQueue(2 * deadLetterBatch + 500)
    yield* disable(sql, [endpoint], "gone", 0)
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
    const { sql } = yield* TestServer
    for (const { endpoint } of projects) yield* disable(sql, [endpoint], "gone", 0)
    assert.deepStrictEqual(yield* discard(sql), [{ count: deadLetterBatch, more: true }])
    assert.deepStrictEqual(yield* discard(sql), [{ count: deadLetterBatch - 198, more: false }])
  })

  it.effect("that is older than the schedule and a day expires in batches, tried or not", function* () {
    const schedule = [Duration.hours(30), Duration.hours(2)]
    assert.strictEqual(Duration.toHours(maxAge(schedule)), 56)
    const { deliveries, projectId, queue, retry, sql } = yield* openQueue(deadLetterBatch + 5, "57 hours")
    yield* queue(3, "55 hours")
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

const soonDisabled = {
  WEBHOOK_DISABLE_AFTER: "300ms",
  WEBHOOK_RETRY_SCHEDULE: Array.from({ length: 9 }, () => "50ms").join()
}

layerOf(soonDisabled)("a webhook whose attempts have all failed for WEBHOOK_DISABLE_AFTER", (it) => {
  it.effect("is disabled, with the reason on record; a configure enables it again", function* () {
    const server = yield* TestServer
    const project = yield* openShop(server, status(500), created)
    yield* project.created()
    yield* untilRows(project.webhook(), ({ enabled }) => !enabled)
    yield* untilRows(project.deliveries(), (rows) => rows.every(({ status }) => status === "dead"))
    assert.strictEqual(project.to.hits.length, 10)
    const why = Effect.orDie(server.sql`SELECT disabled_reason FROM webhooks WHERE project_id = ${project.projectId}`)
    assert.deepStrictEqual(yield* why, [{ disabled_reason: "failing" }])
    assert.strictEqual((yield* project.configure("shop", project.to.url, 2, created)).status, 200)
    assert.deepStrictEqual(yield* why, [{ disabled_reason: null }])
  })
})
