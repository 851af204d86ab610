import { assert, layer } from "@effect/vitest"
import { Duration, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import * as AudiencePruner from "../../src/campaigns/AudiencePruner.ts"
import { makeProject } from "../support/Projects.ts"
import { Supervisor } from "../../src/platform/background/Supervisor.ts"
import { TestDatabase } from "../support/TestDatabase.ts"

const putAudience = Effect.fnUntraced(function* (project: string, id: string, size: number, abandoned: boolean) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    INSERT INTO audiences (project_id, id, filter, candidate_count, eligible_count, merged, filter_mismatch,
      consent_not_granted, suppressed, channel_unavailable, duplicate, created_at, abandoned_at)
    VALUES (${project}, ${id}, '{}', ${size}, ${size}, 0, 0, 0, 0, 0, 0, now(),
      CASE WHEN ${abandoned}::boolean THEN now() END)`
  yield* sql`
    INSERT INTO campaign_recipients (project_id, audience_id, position, client_id)
    SELECT ${project}, ${id}, n, 'client' || n FROM generate_series(0, ${size - 1}::int) n`
})

/** The audiences that are there, each with the number of its recipients. */
const remaining = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ readonly line: string }>`
    SELECT audiences.project_id || ' ' || audiences.id || ' ' || count(position) AS line
    FROM audiences LEFT JOIN campaign_recipients recipient
      ON recipient.project_id = audiences.project_id AND recipient.audience_id = audiences.id
    GROUP BY audiences.project_id, audiences.id ORDER BY 1`
  return rows.map(({ line }) => line)
})

layer(TestDatabase.layer)("AudiencePruner", (it) => {
  it.effect("removes abandoned audiences of every project with all their recipients, and keeps the others", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      for (const project of ["a", "b"]) {
        yield* makeProject(project)
        yield* putAudience(project, "kept", 1_200, false)
        for (const [id, size] of [
          ["empty", 0],
          ["small", 3],
          ["batch", 1_000],
          ["large", 2_500]
        ] as const) {
          yield* putAudience(project, id, size, true)
        }
      }
      const kept = ["a kept 1200", "b kept 1200"]

      yield* Layer.build(AudiencePruner.layer.pipe(Layer.provide(Supervisor.layer)))
      yield* remaining.pipe(Effect.repeat({ until: (lines) => lines.length === 2 }))
      assert.deepStrictEqual(yield* remaining, kept)

      // It looks every minute.
      yield* sql`UPDATE audiences SET abandoned_at = now() WHERE project_id = 'b'`
      assert.deepStrictEqual(yield* remaining, kept)
      yield* Effect.andThen(TestClock.adjust(Duration.minutes(1)), remaining).pipe(
        Effect.repeat({ until: (lines) => lines.length === 1 })
      )
      assert.deepStrictEqual(yield* remaining, ["a kept 1200"])
    })
  )
})
