/** Long queues of disabled webhooks and of expired deliveries, which are dead-lettered in batches (contract §10). */
import { Duration, Effect, Redacted } from "effect"
import type { SqlClient } from "effect/sql"
import { InstallationId, ProjectId } from "../../../src/api/schema/Ids.ts"
import { deadLetterBatch, discard, expire } from "../../../src/webhooks/delivery/DeliveryMaintenance.ts"
import { disable } from "../../../src/webhooks/delivery/Disabling.ts"
import { maxAge } from "../../../src/webhooks/Endpoint.ts"
import { at, documentOf, run } from "../../cli/Cli.support.ts"
import { TestServer } from "../../support/TestServer.ts"
import { layerOf, open, openShop, receiver, settings, status } from "./Deliveries.support.ts"
import { created, openDue } from "./Due.support.ts"
import { untilRows } from "../../support/Waiting.ts"
import { assert, it, layer } from "../../support/Vitest.ts"
import { attemptDays, bucketOf, countPending, readAttempts } from "../../../src/webhooks/delivery/DeliveryMetrics.ts"
import { listDue } from "../../../src/webhooks/WebhookList.ts"
import { retentions } from "../../../src/service/StoredData.ts"

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

layerOf({}, "api")("the queue of deliveries", (it) => {
  it.effect("has its length, and the wait of the oldest due delivery, whatever its endpoint does", function* () {
    const { created, deliveries, projectId, setHealth, sql, subscribe } = yield* open(yield* TestServer)
    yield* subscribe("shop", (yield* receiver()).url)
    for (const _ of [1, 2, 3, 4]) yield* created()
    const oldest = Effect.map(Effect.orDie(listDue(sql, 1)), ([first]) => ({
      hours: Math.round((first?.oldestSeconds ?? 0) / 3_600),
      behind: first?.behind ?? 0,
      condition: first?.condition
    }))
    const changes = [
      sql`available_at = NULL, finished_at = now(), status = 'delivered'`,
      sql`available_at = now() - interval '2 hours'`,
      sql`available_at = now() - interval '5 minutes'`,
      sql`available_at = now() + interval '2 hours'`
    ]
    for (const [n, { id }] of (yield* deliveries()).entries())
      yield* Effect.orDie(
        sql`UPDATE deliveries SET ${changes[n] ?? assert.fail()} WHERE project_id = ${projectId} AND id = ${id}`
      )
    assert.deepStrictEqual(yield* Effect.orDie(countPending(sql, 100)), [{ pending: 3 }])

    // No worker has marked the endpoint as due; a slow one has its concurrency in flight; a pause explains a wait while it lasts.
    const late = { hours: 2, behind: 1, condition: "behind" } as const
    const cases = [
      ["next_due_at = NULL", late],
      ["next_due_at = now(), saturated = true, last_success_at = now()", late],
      ["failures = 1, strikes = 1, saturated = false", late],
      ["failures = 10, parked_until = now() + interval '1 hour'", { ...late, behind: 0, condition: "parked" }],
      ["parked_until = now() - interval '2 minutes'", late],
      ["parked_until = NULL, resting_until = now() + interval '1 hour'", { ...late, behind: 0, condition: "resting" }],
      ["resting_until = now() - interval '2 minutes'", late]
    ] as const
    for (const [health, expected] of cases) {
      yield* setHealth(health)
      assert.deepStrictEqual(yield* oldest, expected, health)
    }
    yield* Effect.orDie(sql`
      UPDATE deliveries SET available_at = now() + interval '1 hour'
      WHERE project_id = ${projectId} AND available_at IS NOT NULL`)
    assert.deepStrictEqual(yield* oldest, { hours: 0, behind: 0, condition: undefined })
  })

  it.effect("is led by the endpoints that are behind, however long others have waited", function* () {
    const { created, projectId, sql, subscribe } = yield* open(yield* TestServer, ["away", "slow"])
    const { url } = yield* receiver()
    for (const name of ["away", "slow"]) yield* subscribe(name, url)
    yield* created()
    for (const [name, since] of [
      ["away", "2 hours"],
      ["slow", "1 hour"]
    ] as const)
      yield* Effect.orDie(sql`
        UPDATE deliveries SET available_at = now() - ${since}::interval
        WHERE project_id = ${projectId} AND installation_id = ${name}`)
    yield* Effect.orDie(sql`
      UPDATE endpoint_health SET failures = 10, parked_until = now() + interval '1 hour'
      WHERE project_id = ${projectId} AND installation_id = 'away'`)
    const found = yield* Effect.orDie(listDue(sql, 10))
    assert.deepStrictEqual(
      found.map(({ behind, condition, dueSeconds, name, oldestSeconds }) => [
        name,
        condition,
        behind,
        Math.round(dueSeconds / 3_600),
        Math.round(oldestSeconds / 3_600)
      ]),
      [
        ["slow", "behind", 1, 1, 2],
        ["away", "parked", 1, 2, 2]
      ]
    )
  })
})

const api = TestServer.layer({ ...settings, WEBHOOK_RETRY_SCHEDULE: "50ms,100ms" })

layer(api, { excludeTestServices: true })("the counts of attempts", (it) => {
  it.effect("are those of the attempt logs, for a project and for all, and are kept for 8 days", function* () {
    const server = yield* TestServer
    const working = yield* receiver()
    const failing = yield* receiver(status(500))
    const project = yield* open(server, ["works", "fails"])
    yield* project.subscribe("works", working.url, ["crm.deal.created.v1"])
    yield* project.subscribe("fails", failing.url, ["crm.deal.created.v1"])
    yield* Effect.forEach([1, 2, 3], () => project.created())
    yield* project.finished
    const { sql } = server
    const counts = (id: string) => sql<{ delivered: boolean; attempts: number }>`
      SELECT delivered, sum(attempts)::int AS attempts FROM attempt_minutes WHERE project_id = ${id}
      GROUP BY 1 ORDER BY 1`
    const expected = [
      { delivered: false, attempts: 9 },
      { delivered: true, attempts: 3 }
    ]
    const logged = yield* sql<{ count: number }>`
      SELECT sum(jsonb_array_length(attempt_log))::int AS count FROM deliveries WHERE project_id = ${project.projectId}`
    assert.deepStrictEqual(logged, [{ count: 12 }])
    assert.deepStrictEqual(
      yield* untilRows(Effect.orDie(counts(project.projectId)), (rows) => rows.length === 2),
      expected
    )
    assert.deepStrictEqual(yield* counts(""), expected)
    const slices = yield* readAttempts(sql, ProjectId.make(project.projectId), { slices: 60, minutes: 1 })
    assert.deepStrictEqual(
      slices.map(({ slice }) => slice),
      Array.from({ length: 60 }, (_, slice) => slice)
    )
    assert.strictEqual(
      slices.reduce((sum, { delivered, failed }) => sum + delivered + failed, 0),
      12
    )
    assert.isTrue(slices.every(({ delivered, failed, p50 }) => (p50 === null) === (delivered + failed === 0)))

    yield* sql`
      INSERT INTO attempt_minutes (project_id, minute, worker_id, delivered, bucket, attempts)
      SELECT project_id, minute - interval '8 days' - interval '1 minute', worker_id, delivered, bucket, attempts
      FROM attempt_minutes`
    yield* sql`
      INSERT INTO attempt_minutes (project_id, minute, worker_id, delivered, bucket, attempts)
      VALUES (${project.projectId}, now() - interval '7 days 23 hours', 1, true, 0, 5)`
    const pruner = retentions.find(({ name }) => name === "attempt minutes retention") ?? assert.fail()
    const age = Duration.toMillis(Duration.days(attemptDays))
    assert.isFalse(yield* pruner.step(sql, new Date(Date.now() - age), age))
    assert.deepStrictEqual(yield* counts(project.projectId), [
      { delivered: false, attempts: 9 },
      { delivered: true, attempts: 8 }
    ])
    assert.deepStrictEqual(yield* counts(""), expected)
  })
})

it("the range of a duration has the duration in it, and ends at most 19 % above its start", () => {
  for (const millis of [1, 2, 17, 250, 3_000, 60_000]) {
    const end = 2 ** (bucketOf(millis) / 4)
    assert.isTrue(millis < end && end <= millis * 1.19, `${millis}: ${end}`)
  }
})
