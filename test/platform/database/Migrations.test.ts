/** Migrations run while the version before serves. */
import { PgClient } from "@effect/sql-pg"
import { assert, type Body, describe, effectOf, it, layer } from "../../support/Vitest.ts"
import { Effect, Fiber, Layer, Record, type Scope } from "effect"
import type { SqlClient } from "effect/sql"
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises"
import * as Path from "node:path"
import { migrate, migrateFrom } from "../../../src/platform/database/Migrations.ts"
import { makeProject } from "../../support/Projects.ts"
import { put } from "../../support/Rows.ts"
import { makeDatabase, TestDatabase } from "../../support/TestDatabase.ts"
import { untilRows } from "../../support/Waiting.ts"
import { faultsOf, baseline } from "./Migrations.support.ts"

const directory = Path.resolve(import.meta.dirname, "../../../migrations")

describe("a migration after the baseline", () => {
  it("locks no table for long", async () => {
    const names = (await readdir(directory)).filter((name) => Number.parseInt(name, 10) > baseline)
    assert.isAbove(names.length, 0)
    for (const name of names) {
      assert.deepStrictEqual(faultsOf(await readFile(Path.join(directory, name), "utf8")), [], name)
    }
  })

  it.for([
    "CREATE INDEX a ON clients (project_id)",
    "CREATE INDEX CONCURRENTLY a ON clients (project_id)",
    "DROP INDEX clients_by_age",
    "ALTER TABLE clients ADD CONSTRAINT c CHECK (id <> '')",
    "ALTER TABLE clients ADD FOREIGN KEY (project_id, a) REFERENCES other (project_id, id)",
    "ALTER TABLE clients ADD UNIQUE (project_id, email)",
    "ALTER TABLE clients ADD COLUMN a text REFERENCES other",
    "ALTER TABLE clients ADD COLUMN a text CHECK (a IN ('b', 'c'))",
    "ALTER TABLE clients ADD COLUMN a int GENERATED ALWAYS AS (1) STORED",
    "ALTER TABLE clients ADD COLUMN a uuid DEFAULT gen_random_uuid()",
    "ALTER TABLE clients ADD COLUMN a text NOT NULL",
    "ALTER TABLE clients ALTER COLUMN version TYPE bigint",
    "ALTER TABLE clients ALTER COLUMN email SET NOT NULL",
    "ALTER TABLE clients VALIDATE CONSTRAINT c",
    "ALTER TABLE clients DROP COLUMN email",
    "ALTER TABLE clients RENAME COLUMN email TO mail",
    "UPDATE clients SET version = version + 1",
    "DROP TABLE clients",
    "LOCK TABLE clients"
  ])("is refused with: %s", (sql) => {
    assert.isAbove(faultsOf(`export default Effect.gen(function* () { yield* sql\`${sql}\` })`).length, 0)
  })

  it.for([
    "ALTER TABLE clients ADD COLUMN a text",
    "ALTER TABLE clients ADD COLUMN a integer NOT NULL DEFAULT 0",
    "ALTER TABLE clients ADD CONSTRAINT c CHECK (id <> '') NOT VALID",
    "CREATE TABLE other (project_id text)"
  ])("is accepted with: %s", (sql) => {
    assert.deepStrictEqual(faultsOf(`export default Effect.gen(function* () { yield* sql\`${sql}\` })`), [])
  })
})

/** Creates a directory of files, from their texts by name. */
const filesOf = (texts: Readonly<Record<string, string>>) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      // Below the checkout, so that imports find their packages.
      const made = await mkdtemp(Path.join(import.meta.dirname, ".migrations-"))
      for (const [name, text] of Object.entries(texts)) await writeFile(Path.join(made, name), text)
      return made
    }),
    (made) => Effect.promise(() => rm(made, { recursive: true }))
  )

/** Creates a directory of migrations from their bodies by file name. */
const migrations = (bodies: Readonly<Record<string, string>>) =>
  filesOf(
    Record.map(bodies, (body) => `import { Effect } from "effect"\nimport { SqlClient } from "effect/sql"\n${body}`)
  )

/** Creates a directory with the migrations of this version up to a number. */
const copiesUpTo = Effect.fnUntraced(function* (last: number) {
  const names = yield* Effect.promise(() => readdir(directory))
  const copied = names.filter((name) => Number.parseInt(name, 10) <= last)
  const texts = yield* Effect.promise(() =>
    Promise.all(copied.map((name) => readFile(Path.join(directory, name), "utf8")))
  )
  return yield* filesOf(Object.fromEntries(copied.map((name, i) => [name, texts[i] ?? ""])))
})

const inTransaction = (...statements: ReadonlyArray<string>) => `
  export default Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    ${statements.map((sql) => `yield* sql.unsafe(\`${sql}\`)`).join("\n")}
  })`

const alone = (...statements: ReadonlyArray<string>) => `
  const run = (text) => Effect.flatMap(SqlClient.SqlClient, (sql) => sql.unsafe(text))
  export default [${statements.map((sql) => `run(\`${sql}\`)`).join(", ")}]`

const index = "CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS members_by_name ON members (project_id, name)"

layer(TestDatabase.layer, { excludeTestServices: true })("migrations", (it) => {
  it.effect("that fail halfway change nothing, leave those before them, and are applied by the next run", function* () {
    const sql = yield* PgClient.PgClient
    const first = inTransaction("CREATE TABLE halfway_first (id text)")
    const broken = inTransaction("CREATE TABLE halfway_second (id text)", "SELECT 1 / 0")
    const failing = yield* migrations({ "0901_first.ts": first, "0902_second.ts": broken })
    const failure = yield* Effect.flip(migrateFrom(failing))
    assert.strictEqual(failure._tag === "MigrationFailed" ? failure.name : failure._tag, "0902_second")
    const tables = sql<{ name: string }>`
      SELECT relname AS name FROM pg_class WHERE relname LIKE 'halfway_%' AND relkind = 'r' ORDER BY 1`
    assert.deepStrictEqual(yield* tables, [{ name: "halfway_first" }])
    const mended = yield* migrations({
      "0901_first.ts": first,
      "0902_second.ts": inTransaction("CREATE TABLE halfway_second (id text)")
    })
    assert.deepStrictEqual(yield* migrateFrom(mended), [[902, "second"]])
    assert.deepStrictEqual(yield* tables, [{ name: "halfway_first" }, { name: "halfway_second" }])
  })

  it.effect("analyze the tables that they have filled", function* () {
    const sql = yield* PgClient.PgClient
    const directory = yield* migrations({
      "0905_filled.ts": inTransaction(
        "CREATE TABLE filled (id int)",
        "INSERT INTO filled SELECT generate_series(1, 500)"
      )
    })
    assert.deepStrictEqual(yield* migrateFrom(directory), [[905, "filled"]])
    const [filled] = yield* sql`SELECT reltuples::int AS rows FROM pg_class WHERE relname = 'filled'`
    assert.deepStrictEqual(filled, { rows: 500 })
  })

  it.effect("that build an index concurrently and fail are run again, and replace what was left of it", function* () {
    const sql = yield* PgClient.PgClient
    yield* makeProject("acme")
    // Another Anna than the one of the project.
    yield* put(sql, "members", { project_id: "acme", id: "b" })
    const directory = yield* migrations({ "0911_index.ts": alone(index) })
    assert.strictEqual((yield* Effect.flip(migrateFrom(directory)))._tag, "MigrationFailed")
    yield* sql`DELETE FROM members WHERE id = 'b'`
    assert.deepStrictEqual(yield* migrateFrom(directory), [[911, "index"]])
    const [built] = yield* sql`SELECT indisvalid AS valid FROM pg_index WHERE indexrelid = 'members_by_name'::regclass`
    assert.deepStrictEqual(built, { valid: true })
  })

  it.effect("wait for a lock for two seconds at a time, so that statements behind them go on", function* () {
    const sql = yield* PgClient.PgClient
    yield* sql`CREATE TABLE held_up (id text)`
    const directory = yield* migrations({
      "0921_held_up.ts": inTransaction("ALTER TABLE held_up ADD COLUMN name text")
    })
    const holder = yield* sql.reserve
    const execute = (text: string) => holder.execute(text, [], undefined)
    yield* execute("BEGIN")
    yield* execute("LOCK TABLE held_up IN ACCESS SHARE MODE")
    const fiber = yield* Effect.forkDetach(migrateFrom(directory))
    yield* Effect.sleep("500 millis")
    // The query waits behind the migration's request for a lock, and is answered once that request times out.
    yield* Effect.timeout(sql`SELECT FROM held_up`, "20 seconds")
    yield* execute("ROLLBACK")
    assert.deepStrictEqual(yield* Fiber.join(fiber), [[921, "held_up"]])
  })

  it.effect("of two processes at once are applied once", function* () {
    const directory = yield* migrations({
      "0931_once.ts": alone("CREATE INDEX CONCURRENTLY IF NOT EXISTS members_once ON members (project_id, active)"),
      "0932_twice.ts": inTransaction("CREATE TABLE applied_once (id text)", "SELECT pg_sleep(0.3)")
    })
    const runs = yield* Effect.all([migrateFrom(directory), migrateFrom(directory)], { concurrency: 2 })
    assert.deepStrictEqual(runs.map(({ length }) => length).sort(), [0, 2])
  })
})

/** Declares a test on an empty database. */
const older = (title: string, body: () => Body<PgClient.PgClient | SqlClient.SqlClient | Scope.Scope>) =>
  it.live(title, () =>
    effectOf(body()).pipe(
      // What the test reserves is returned before the pool is closed.
      Effect.scoped,
      Effect.provide(
        Layer.unwrap(Effect.map(makeDatabase({ empty: true }), (url) => PgClient.layer({ url, maxConnections: 3 })))
      )
    )
  )

older("migrations give older deliveries the types of their events, also those that are locked at first", function* () {
  const sql = yield* PgClient.PgClient
  yield* migrateFrom(yield* copiesUpTo(15))
  yield* makeProject("acme")
  yield* sql`INSERT INTO installations (project_id, id, name, status) VALUES ('acme', 'shop', 'Shop', 'active')`
  yield* sql`
    INSERT INTO events (project_id, id, type, data, traceparent, occurred_at)
    SELECT 'acme', 'e' || n, CASE n % 2 WHEN 0 THEN 'crm.deal.created.v1' ELSE 'crm.deal.updated.v1' END, '{}', '', now()
    FROM generate_series(1, 11000) n`
  yield* sql`
    INSERT INTO deliveries (project_id, id, installation_id, event_id, available_at, created_at)
    SELECT 'acme', 'd' || n, 'shop', 'e' || n, now(), now() FROM generate_series(1, 11000) n`
  yield* migrateFrom(yield* copiesUpTo(16))
  const holder = yield* sql.reserve
  yield* holder.execute("BEGIN", [], undefined)
  yield* holder.execute("SELECT FROM deliveries WHERE id IN ('d1', 'd9999') FOR UPDATE", [], undefined)
  const migrating = yield* Effect.forkChild(migrate)
  const untyped = Effect.orDie(sql`SELECT id FROM deliveries WHERE event_type IS NULL LIMIT 3`)
  yield* untilRows(untyped, (rows) => rows.length === 2)
  yield* holder.execute("ROLLBACK", [], undefined)
  yield* Fiber.join(migrating)
  const wrong = yield* sql`
    SELECT deliveries.id FROM deliveries LEFT JOIN events ON events.project_id = deliveries.project_id AND events.id = event_id
    WHERE event_type IS DISTINCT FROM type`
  assert.deepStrictEqual(wrong, [])
})

older("migrations count the recipients of older campaigns by state, also those that move meanwhile", function* () {
  const sql = yield* PgClient.PgClient
  yield* migrateFrom(yield* copiesUpTo(21))
  yield* makeProject("acme")
  yield* sql`
    INSERT INTO audiences (project_id, id, filter, candidate_count, eligible_count, merged, filter_mismatch,
      consent_not_granted, suppressed, channel_unavailable, duplicate, created_at)
    SELECT 'acme', id, '{}', 6, 6, 0, 0, 0, 0, 0, 0, now() FROM unnest(ARRAY['draft', 'kept', 'moving', 'removed']) id`
  yield* sql`
    INSERT INTO campaigns (project_id, id, name, audience_id, recipients_removed, final_progress, created_at, updated_at)
    SELECT 'acme', id, id, id, id = 'removed',
      CASE id WHEN 'removed' THEN '{"recipients": 6, "sent": 3, "failed": 2, "unknown": 1, "skipped": 0}'::json END,
      now(), now() FROM audiences`
  yield* sql`
    INSERT INTO campaign_recipients (project_id, audience_id, position, client_id, status)
    SELECT 'acme', id, position, 'c', CASE id WHEN 'draft' THEN 'pending' ELSE status END FROM audiences,
      unnest(ARRAY['pending', 'sending', 'sent', 'failed', 'unknown', 'skipped']) WITH ORDINALITY AS each (status, position)
    WHERE id <> 'removed'`
  yield* migrateFrom(yield* copiesUpTo(22))
  const holder = yield* sql.reserve
  yield* holder.execute("BEGIN", [], undefined)
  const toSent = "UPDATE campaign_recipients SET status = 'sent' WHERE audience_id = 'moving' AND status = 'sending'"
  yield* holder.execute(toSent, [], undefined)
  const migrating = yield* Effect.forkChild(migrate)
  const counted = Effect.orDie(sql`SELECT id FROM audiences WHERE sent_count IS NOT NULL`)
  // The migration waits for the statement whose recipients it could not see.
  yield* untilRows(counted, (rows) => rows.length === 2)
  yield* holder.execute("COMMIT", [], undefined)
  yield* Fiber.join(migrating)
  yield* sql`UPDATE campaign_recipients SET status = 'failed' WHERE audience_id = 'moving' AND status = 'unknown'`
  assert.deepStrictEqual(
    yield* sql`
      SELECT id, sent_count, failed_count, unknown_count, skipped_count FROM audiences ORDER BY id`.values,
    [
      ["draft", 0, 0, 0, 0],
      ["kept", 1, 1, 1, 1],
      ["moving", 2, 2, 0, 1],
      ["removed", 3, 2, 1, 0]
    ]
  )
})
