import { assert, layer } from "../support/Vitest.ts"
import { Duration, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { makeProject } from "../support/Projects.ts"
import { prunersWith } from "../support/Pruners.ts"
import { TestDatabase } from "../support/TestDatabase.ts"

const pruner = (env: Readonly<Record<string, string>>) => prunersWith(env, "message pruning")

const now = 100 * 86_400_000

/** Inserts messages of a status and an age in days, named after both. */
const putMessages = Effect.fnUntraced(function* (project: string, status: string, days: number, count: number) {
  const sql = yield* SqlClient.SqlClient
  const at = new Date(now - days * 86_400_000)
  yield* sql`
    INSERT INTO messages (project_id, id, conversation_id, channel_id, provider_type, address, text, status, attempts,
      attempting, attempt_log, traceparent, created_at, updated_at)
    SELECT ${project}, ${`${status} ${days}`} || ' ' || n, 'conversation', 'channel', 'sandbox', 'a', 'Hello', ${status}, 1,
      false, '[]', '', ${at}, ${at}
    FROM generate_series(1, ${count}::int) n`
})

/** Returns the names of the remaining messages, each with its count. */
const remaining = (project: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const rows = yield* sql<{ readonly line: string }>`
      SELECT regexp_replace(id, ' \\d+$', '') || ': ' || count(*) AS line FROM messages
      WHERE project_id = ${project} GROUP BY regexp_replace(id, ' \\d+$', '') ORDER BY 1`
    return rows.map(({ line }) => line)
  })

layer(TestDatabase.layer)("the pruner of messages", (it) => {
  it.effect("deletes sent and failed messages after the retention, and keeps those that are not settled", function* () {
    const sql = yield* SqlClient.SqlClient
    yield* TestClock.setTime(now)
    for (const project of ["a", "b"]) {
      yield* makeProject(project)
      yield* putMessages(project, "sent", 11, 1_500)
      yield* putMessages(project, "failed", 11, 3)
      yield* putMessages(project, "unknown", 11, 2)
      yield* putMessages(project, "sent", 9.99, 5)
      // It has just changed, so that its campaign has to see it.
      yield* putMessages(project, "failed", 12, 1)
      yield* sql`UPDATE messages SET updated_at = ${new Date(now)} WHERE project_id = ${project} AND id LIKE 'failed 12%'`
    }
    yield* Layer.build(pruner({ MESSAGE_RETENTION: "10d" }))
    for (const project of ["a", "b"]) {
      yield* remaining(project).pipe(Effect.repeat({ until: (lines) => lines.length === 3 }))
      assert.deepStrictEqual(yield* remaining(project), ["failed 12: 1", "sent 9.99: 5", "unknown 11: 2"])
    }
    yield* TestClock.adjust(Duration.minutes(15))
    yield* Effect.andThen(TestClock.adjust(Duration.minutes(1)), remaining("a")).pipe(
      Effect.repeat({ until: (lines) => lines.length === 2 })
    )
    assert.deepStrictEqual(yield* remaining("a"), ["failed 12: 1", "unknown 11: 2"])
  })

  it.effect("keeps a message for as long as an idempotency key, and while its key is there", function* () {
    const sql = yield* SqlClient.SqlClient
    yield* TestClock.setTime(now)
    yield* makeProject("c")
    for (const days of [6, 8, 9]) yield* putMessages("c", "sent", days, 1)
    yield* sql`
      INSERT INTO idempotency_keys (project_id, key, fingerprint, resource_id, changed, created_at)
      VALUES ('c', 'key', '', 'sent 8 1', true, ${new Date(now - 8 * 86_400_000)})`
    yield* Layer.build(pruner({ MESSAGE_RETENTION: "1d", IDEMPOTENCY_RETENTION: "7d" }))
    yield* remaining("c").pipe(Effect.repeat({ until: (lines) => lines.length < 3 }))
    assert.deepStrictEqual(yield* remaining("c"), ["sent 6: 1", "sent 8: 1"])
    yield* sql`DELETE FROM idempotency_keys WHERE project_id = 'c'`
    yield* Effect.andThen(TestClock.adjust(Duration.minutes(1)), remaining("c")).pipe(
      Effect.repeat({ until: (lines) => lines.length < 2 })
    )
    assert.deepStrictEqual(yield* remaining("c"), ["sent 6: 1"])
  })
})
