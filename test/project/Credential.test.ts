/** The number of active clients that a credential shows (contract §3). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { KeyId, ProjectId } from "../../src/api/schema/Ids.ts"
import { makeGetCredential } from "../../src/project/Credential.ts"
import { makeProject } from "../support/Projects.ts"
import { TestDatabase } from "../support/TestDatabase.ts"

layer(TestDatabase.layer)("a project without a capacity", (it) => {
  it.effect("has its active clients counted, those above 10,000 every 10 seconds at most", function* () {
    const sql = yield* SqlClient.SqlClient
    yield* makeProject("p")
    yield* sql`
      INSERT INTO api_keys (project_id, key_id, token_hash, name, scopes, lifetime, created_at, expires_at)
      VALUES ('p', 'keykeykeykey', '\\x00', 'key', '{}', '1 hour', now(), now())`
    const add = (from: number, to: number) => sql`
      INSERT INTO clients (project_id, id, display_name, tags, status, archived_at, version, created_at, updated_at)
      SELECT 'p', n, 'C', '{}', CASE n WHEN 0 THEN 'archived' ELSE 'active' END, CASE n WHEN 0 THEN now() END, 1, now(), now() FROM generate_series(${from}::int, ${to}::int) n`
    const get = yield* makeGetCredential
    const active = Effect.map(
      get(ProjectId.make("p"), KeyId.make("keykeykeykey")),
      ({ activeClients }) => activeClients
    )
    yield* add(0, 9_999)
    assert.strictEqual(yield* active, 9_999)
    yield* add(10_000, 10_001)
    assert.strictEqual(yield* active, 10_001)
    yield* add(10_002, 10_002)
    assert.strictEqual(yield* active, 10_001)
    yield* TestClock.adjust("10 seconds")
    assert.strictEqual(yield* active, 10_002)
  })
})
