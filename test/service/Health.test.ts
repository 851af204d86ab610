/** Readiness of a service whose database cannot be used (contract §15). */
import { assert, describe, it } from "../support/Vitest.ts"
import { Effect } from "effect"
import { freePort } from "../support/Process.ts"
import { startServer } from "../support/TestServer.ts"
import { untilRows } from "../support/Waiting.ts"
import { sessionOf, startConsole } from "../console/Console.support.ts"

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

describe("the gauge of readiness", () => {
  it.live("stays at 1 when callers of /readyz leave before the answer", function* () {
    const port = yield* Effect.promise(freePort)
    const { sql, url } = yield* startServer({ ADMIN_PORT: String(port) }, "api")
    const gauge = Effect.promise(async () => {
      const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
      return /^service_ready\{check="database"\} (\d)$/m.exec(text)?.[1]
    })
    yield* untilRows(gauge, (value) => value === "1")
    const locked = Effect.andThen(
      sql`LOCK TABLE projects`,
      Effect.promise(async () => {
        const left = await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(300) }).catch(({ name }) => name)
        assert.strictEqual(left, "TimeoutError")
      })
    )
    yield* Effect.orDie(sql.withTransaction(locked))
    yield* Effect.sleep("300 millis")
    assert.strictEqual(yield* gauge, "1")
  })
})

const path = "/api/v1/developer/crm/clients"
const limit = { limit: 1, windowSeconds: 3_600 }

describe("refused requests", () => {
  it.live(
    "are shown by key and project on the overview and by doctor, also those of a key that was revoked in the console",
    function* () {
      const server = yield* startConsole()
      const { projectId, token } = yield* server.seed({ project: { rateLimits: { read: limit } } })
      const narrow = yield* server.issue(projectId, { scopes: ["campaigns.read"] })
      const leaked = yield* server.issue(projectId)
      const [flooding, forbidden, revoked] = [token, narrow, leaked].map((each) => each.slice(3, 15))
      const { get, post } = yield* sessionOf(server, projectId)
      const asked = yield* post("key.revoke", { key: revoked ?? "" })
      assert.include(asked.text, "refused from the next second on")
      const other = yield* server.seed()
      const foreign = yield* post("key.revoke", { key: other.token.slice(3, 15), confirmed: "yes" })
      assert.deepStrictEqual([foreign.status, (yield* server.send({ path, token: other.token })).status], [409, 200])
      assert.strictEqual((yield* post("key.revoke", { key: revoked ?? "", confirmed: "yes" })).status, 303)
      const entries = yield* server.sql<{ action: string; target: string }>`
      SELECT action, target FROM audit_entries WHERE project_id = ${projectId}`.pipe(Effect.orDie)
      assert.deepInclude(
        entries.map((entry) => ({ ...entry })),
        { action: "key.revoke", target: revoked ?? "" }
      )

      const unknown = yield* server.issue(projectId)
      yield* server.sql`DELETE FROM api_keys WHERE key_id = ${unknown.slice(3, 15)}`.pipe(Effect.orDie)
      /** Sends requests to another process, which ends, and so writes what it has counted. */
      const refuse = (all: ReadonlyArray<readonly [token: string, count: number, status: number]>) =>
        Effect.gen(function* () {
          const ending = yield* startConsole({ DATABASE_URL: server.databaseUrl })
          for (const [token, count, status] of all)
            for (let i = 0; i < count; i++) assert.strictEqual((yield* ending.send({ path, token })).status, status)
        }).pipe(Effect.scoped)
      yield* refuse([
        [token, 1, 200],
        [token, 3, 429],
        [narrow, 2, 403],
        [leaked, 1, 401],
        [unknown, 1, 401]
      ])
      const counted = Effect.map(
        Effect.orDie(server.sql<{ key: string; status: number; count: number }>`
        SELECT key_id AS key, status, count::int FROM refused_requests WHERE project_id = ${projectId} ORDER BY count DESC`),
        (found) => found.map((row) => ({ ...row }))
      )
      const rows = [
        { key: flooding, status: 429, count: 3 },
        { key: forbidden, status: 403, count: 2 },
        { key: revoked, status: 401, count: 1 }
      ]
      assert.deepStrictEqual(yield* counted, rows)
      const { stdout } = yield* server.command("doctor")
      const { text } = yield* get("/console")
      for (const { count, key, status } of rows) {
        assert.include(stdout, `${count} × ${status} of test (${key}, project ${projectId})`)
        assert.include(text, `title="${key}"`)
      }
      // A count begins again after a day.
      yield* server.sql`UPDATE refused_requests SET since = now() - interval '2 days'`.pipe(Effect.orDie)
      yield* refuse([[narrow, 1, 403]])
      assert.strictEqual((yield* counted).find(({ status }) => status === 403)?.count, 1)
      yield* refuse([[narrow, 1, 403]])
      assert.strictEqual((yield* counted).find(({ status }) => status === 403)?.count, 2)
    }
  )
})
