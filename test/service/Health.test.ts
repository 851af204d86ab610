/** Readiness of a service whose database cannot be used (contract §15). */
import { assert, describe, it } from "../support/Vitest.ts"
import { Effect } from "effect"
import { freePort } from "../support/Process.ts"
import { startServer } from "../support/TestServer.ts"
import { untilRows } from "../support/Waiting.ts"

/** What makes the tables of a service invisible, and what makes them visible again. `sql` is a session that stays as it is. */
const ways = {
  "a table is missing": ["ALTER TABLE projects RENAME TO gone", "ALTER TABLE gone RENAME TO projects"],
  "the schema is missing": ["ALTER SCHEMA public RENAME TO gone", "ALTER SCHEMA gone RENAME TO public"],
  "the search_path of new sessions is empty": [
    `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = ''''', current_database()); END $$`,
    `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I RESET search_path', current_database()); END $$`
  ]
} as const

describe("a service", () => {
  it.live("is not ready while its tables are not found, and is again as soon as they are", function* () {
    const port = yield* Effect.promise(freePort)
    const { sql, url } = yield* startServer({ ADMIN_PORT: String(port) }, "api")
    const readiness = Effect.promise(async () => {
      const answer = await fetch(`${url}/readyz`)
      return { status: answer.status, text: await answer.text() }
    })
    // Statements outside of the schema, over another session each, because the sessions are ended.
    const run = (statement: string) => Effect.orDie(sql.unsafe(statement))
    const anew = run(`
      SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'`)
    assert.deepStrictEqual(yield* readiness, { status: 200, text: '{"status":"ready"}' })
    for (const [way, [lose, find]] of Object.entries(ways)) {
      yield* run(lose)
      yield* anew
      const lost = yield* untilRows(readiness, ({ status }) => status !== 200)
      assert.deepInclude(lost, { status: 503 }, way)
      assert.include(lost.text, '"code":"service_unavailable"')
      // A project file of the database: no process is restarted for it.
      yield* run(find)
      yield* anew
      yield* untilRows(readiness, ({ status }) => status === 200)
    }
  })
})
