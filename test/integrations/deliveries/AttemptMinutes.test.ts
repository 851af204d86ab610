/** Attempts by minute, which the charts of the console show. */
import { assert, it, layer } from "../../support/Vitest.ts"
import { Duration, Effect } from "effect"
import { bucketOf, endOf, read, retentionDays } from "../../../src/integrations/deliveries/AttemptMinutes.ts"
import { ProjectId } from "../../../src/api/schema/Ids.ts"
import { retentions } from "../../../src/service/Retentions.ts"
import { TestServer } from "../../support/TestServer.ts"
import { untilRows } from "../../support/Waiting.ts"
import { open, receiver, settings, status } from "./Deliveries.support.ts"

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
    const counted = yield* read(sql, ProjectId.make(project.projectId), { slices: 60, minutes: 1 })
    assert.strictEqual(
      counted.reduce((sum, { attempts }) => sum + attempts, 0),
      12
    )

    yield* sql`
      INSERT INTO attempt_minutes (project_id, minute, worker_id, delivered, bucket, attempts)
      SELECT project_id, minute - interval '8 days' - interval '1 minute', worker_id, delivered, bucket, attempts
      FROM attempt_minutes`
    yield* sql`
      INSERT INTO attempt_minutes (project_id, minute, worker_id, delivered, bucket, attempts)
      VALUES (${project.projectId}, now() - interval '7 days 23 hours', 1, true, 0, 5)`
    const pruner = retentions.find(({ name }) => name === "attempt minutes retention") ?? assert.fail()
    assert.isFalse(yield* pruner.step(sql, new Date(Date.now() - Duration.toMillis(Duration.days(retentionDays)))))
    assert.deepStrictEqual(yield* counts(project.projectId), [
      { delivered: false, attempts: 9 },
      { delivered: true, attempts: 8 }
    ])
    assert.deepStrictEqual(yield* counts(""), expected)
  })
})

it("the range of a duration has the duration in it, and ends at most 19 % above its start", () => {
  for (const millis of [1, 2, 17, 250, 3_000, 60_000]) {
    const end = endOf(bucketOf(millis))
    assert.isTrue(millis < end && end <= millis * 1.19, `${millis}: ${end}`)
  }
})
