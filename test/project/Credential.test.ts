/** The number of active clients that a credential shows (contract §3). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect, Fiber, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { KeyId, ProjectId } from "../../src/api/schema/Ids.ts"
import { makeGetCredential } from "../../src/project/Credential.ts"
import { DatabaseUrl } from "../../src/sql/Connections.ts"
import { holding } from "../support/Locks.ts"
import { makeProject } from "../support/Projects.ts"
import { TestDatabase } from "../support/TestDatabase.ts"
import { TestServer } from "../support/TestServer.ts"

const database = Layer.unwrap(Effect.map(TestDatabase, ({ url }) => DatabaseUrl.at(url))).pipe(
  Layer.provideMerge(TestDatabase.layer)
)

/** Makes a project with a key; returns its number of active clients, as the credential shows it. */
const open = Effect.fnUntraced(function* (id: string) {
  const sql = yield* SqlClient.SqlClient
  yield* makeProject(id)
  const key = KeyId.make(id.repeat(12))
  yield* sql`
    INSERT INTO api_keys (project_id, key_id, token_hash, name, scopes, lifetime, created_at, expires_at)
    VALUES (${id}, ${key}, '\\x00', 'key', '{}', '1 hour', now(), now())`
  const get = yield* makeGetCredential
  return Effect.map(get(ProjectId.make(id), key), ({ activeClients }) => activeClients)
})

layer(database)("a project without a capacity", (it) => {
  it.effect("has its active clients counted, those above 10,000 every 10 seconds at most", function* () {
    const sql = yield* SqlClient.SqlClient
    const active = yield* open("p")
    const add = (from: number, to: number) => sql`
      INSERT INTO clients (project_id, id, display_name, tags, status, archived_at, version, created_at, updated_at)
      SELECT 'p', n, 'C', '{}', CASE n WHEN 0 THEN 'archived' ELSE 'active' END, CASE n WHEN 0 THEN now() END, 1, now(), now() FROM generate_series(${from}::int, ${to}::int) n`
    yield* add(0, 9_999)
    assert.strictEqual(yield* active, 9_999)
    yield* add(10_000, 10_001)
    assert.strictEqual(yield* active, 10_001)
    yield* add(10_002, 10_002)
    assert.strictEqual(yield* active, 10_001)
    yield* TestClock.adjust("10 seconds")
    assert.strictEqual(yield* active, 10_002)
  })

  it.effect("has its active clients counted once for all that ask at once, on a connection for reports", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const active = yield* open("q")
      const { release } = yield* holding(sql, sql`LOCK TABLE clients`)
      const asked = Array.from({ length: 100 }, () => active)
      const asking = yield* Effect.forkChild(Effect.all(asked, { concurrency: "unbounded" }))
      // A statement that has waited for 200 ms begins again, after a pause.
      const waiting = sql<{ readonly pool: string }>`
        SELECT application_name AS pool FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'`
      const seen = yield* Effect.replicateEffect(Effect.delay(waiting, "10 millis"), 50)
      yield* release
      const [most] = seen.toSorted((a, b) => b.length - a.length)
      assert.deepStrictEqual(most, [{ pool: "developer-api reports" }])
      assert.deepStrictEqual(new Set(yield* Fiber.join(asking)), new Set([0]))
    }).pipe(TestClock.withLive)
  )
})

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("a process", (it) => {
  it.effect("shares its four connections for reports between all that use them", function* () {
    const { seed, send, sql } = yield* TestServer
    const path = "/api/v1/developer"
    const campaigns = [{ id: "cmp_a", name: "A" }]
    const projects = yield* Effect.replicateEffect(seed({ campaigns }), 6)
    const filter = { contactStatus: "active", providerTypes: [], requiredTags: [], stageIds: [] }
    const json = { operation: "freeze_audience", filter }
    const { release } = yield* holding(sql, sql`LOCK TABLE clients`)
    const asked = projects.flatMap(({ token }) => [
      send({ path: `${path}/credential`, token }),
      send({ method: "PATCH", path: `${path}/campaigns/cmp_a`, token, key: "freeze-0001", json })
    ])
    const asking = yield* Effect.forkChild(Effect.all(asked, { concurrency: "unbounded" }))
    const waiting = Effect.map(
      sql`
        SELECT FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'developer-api reports'`,
      (sessions) => sessions.length
    )
    const seen = yield* Effect.replicateEffect(Effect.delay(waiting, "10 millis"), 100)
    yield* release
    assert.deepStrictEqual(new Set((yield* Fiber.join(asking)).map(({ status }) => status)), new Set([200]))
    assert.strictEqual(Math.max(...seen), 4)
  })
})
