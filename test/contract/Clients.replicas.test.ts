/** Commands that reach the same clients through two replicas at once. */
import { assert, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { makeDatabase } from "../support/TestDatabase.ts"
import { startServer } from "../support/TestServer.ts"

const clients = ["ada", "bob", "cyd", "dan"]

it.live("two replicas that patch the same clients concurrently lose no patch and never deadlock", () =>
  Effect.gen(function* () {
    const environment = { DATABASE_URL: Redacted.value(yield* makeDatabase()) }
    const one = yield* startServer(environment, "api")
    const other = yield* startServer(environment, "api")
    // With a capacity, those that archive and reactivate lock the project's row, too.
    const seeded = yield* Effect.forEach([0, 1], () =>
      one.seed({ project: { contactCapacity: 4 }, clients: clients.map((id) => ({ id, displayName: id })) })
    )
    const patches = Array.from({ length: 240 }, (_, n) => {
      const { projectId, token } = seeded[n % 2] ?? assert.fail()
      const id = clients[(n >> 1) % 4] ?? ""
      const json = n % 5 === 0 ? { status: n % 10 === 0 ? "archived" : "active" } : { firstName: `${n}` }
      const request = {
        method: "PATCH",
        path: `/api/v1/developer/crm/clients/${id}`,
        token,
        key: `replica-${n}`,
        json
      }
      return { id, projectId, send: (n % 3 === 0 ? one : other).send(request) }
    })
    const answers = yield* Effect.forEach(
      patches,
      ({ id, projectId, send }) => Effect.map(send, ({ status, text }) => ({ id, projectId, status, text })),
      { concurrency: 60 }
    )
    const isChange = ({ status, text }: { status: number; text: string }) =>
      status === 200 && text.includes('"changed":true')
    for (const { status, text } of answers) assert.include([200, 409], status, text)
    const sql: SqlClient.SqlClient = one.sql
    for (const { projectId } of seeded) {
      const rows = yield* Effect.orDie(sql<{ readonly id: string; readonly version: number }>`
        SELECT id, version FROM clients WHERE project_id = ${projectId} ORDER BY id`)
      assert.deepStrictEqual(
        rows.map(({ id, version }) => [id, version]),
        clients.map((id) => [
          id,
          1 + answers.filter((of) => of.projectId === projectId && of.id === id && isChange(of)).length
        ])
      )
    }
    const [database] = yield* Effect.orDie(
      sql`SELECT deadlocks::int FROM pg_stat_database WHERE datname = current_database()`
    )
    assert.deepStrictEqual(database, { deadlocks: 0 })
  }).pipe(Effect.scoped)
)
