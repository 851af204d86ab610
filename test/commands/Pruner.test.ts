import { assert, layer } from "../support/Vitest.ts"
import { Duration, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { makeProject } from "../support/Projects.ts"
import { prunersWith } from "../support/Pruners.ts"
import { TestDatabase } from "../support/TestDatabase.ts"

const remaining = (age: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const [row] = yield* sql<{ n: number }>`
      SELECT count(*)::int AS n FROM idempotency_keys WHERE key LIKE ${`${age}%`}`
    return row?.n
  })

layer(TestDatabase.layer)("the pruner of idempotency keys", (it) => {
  it.effect("deletes old outcomes of every project in batches, and keeps the others", function* () {
    const now = 10 * 86_400_000
    yield* TestClock.setTime(now)
    const sql = yield* SqlClient.SqlClient
    const at = (days: number) => new Date(now - days * 86_400_000)
    for (const project of ["a", "b"]) {
      yield* makeProject(project)
      yield* sql`
        INSERT INTO idempotency_keys (project_id, key, fingerprint, resource_id, changed, version, created_at)
        SELECT ${project}, age.name || n, '\\x00', 'r', true, 1, age.at
        FROM generate_series(1, 1500) n,
             (VALUES ('old', ${at(3)}::timestamptz), ('new', ${at(1.99)}::timestamptz)) age (name, at)`
    }

    yield* Layer.build(prunersWith({ IDEMPOTENCY_RETENTION: "2d" }))
    yield* remaining("old").pipe(Effect.repeat({ until: (n) => n === 0 }))
    assert.strictEqual(yield* remaining("new"), 3_000)

    // The retention of the other outcomes ends too; the pruner runs every minute.
    yield* TestClock.adjust(Duration.minutes(15))
    yield* Effect.andThen(TestClock.adjust(Duration.minutes(1)), remaining("new")).pipe(
      Effect.repeat({ until: (n) => n === 0 })
    )
  })
})
