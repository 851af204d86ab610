/** Migrations run while the version before serves. */
import { PgClient } from "@effect/sql-pg"
import { assert, type Body, describe, effectOf, it } from "../../support/Vitest.ts"
import { Effect, Fiber, Layer, Record, type Scope } from "effect"
import type { SqlClient } from "effect/sql"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import * as Path from "node:path"
import { assertMigrated, migrate, migrateFrom } from "../../../src/sql/migrations/Migrations.ts"
import { faultLines } from "../../../src/cli/Run.ts"
import { isBaseline } from "../../../src/sql/migrations/Ledger.ts"
import { makeProject } from "../../support/Projects.ts"
import { checkout } from "../../support/Process.ts"
import { requires } from "../../support/Programs.ts"
import { put } from "../../support/Rows.ts"
import { makeDatabase } from "../../support/TestDatabase.ts"
import { contradictions, faultsOf, migrationsIn, releasedIn } from "./Migrations.support.ts"

const directory = Path.join(checkout, "migrations")
const texts = await migrationsIn(directory)

describe("a migration after the baseline", () => {
  it("locks no table for long", () => {
    for (const [name, text] of texts) if (!isBaseline({ name })) assert.deepStrictEqual(faultsOf(text), [], name)
  })
})

describe("released migrations", () => {
  requires("git")

  it("are in this version as the last tag has them, and all others come after them", async () => {
    assert.deepStrictEqual(contradictions((await releasedIn(checkout)) ?? new Map<string, string>(), texts), [])
  })
})

/** Creates a directory of files, from their texts by name. */
const filesOf = (files: Readonly<Record<string, string>>) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      // Below the checkout, so that imports find their packages.
      const made = await mkdtemp(Path.join(import.meta.dirname, ".migrations-"))
      for (const [name, text] of Object.entries(files)) await writeFile(Path.join(made, name), text)
      return made
    }),
    (made) => Effect.promise(() => rm(made, { recursive: true }))
  )

/** Creates a directory of this version's migrations, and of others from their bodies by file name. */
const migrations = (bodies: Readonly<Record<string, string>>) =>
  filesOf({
    ...Object.fromEntries(texts),
    ...Record.map(bodies, (body) => `import { Effect } from "effect"\nimport { SqlClient } from "effect/sql"\n${body}`)
  })

const nothing = "export default []"

const inTransaction = (...statements: ReadonlyArray<string>) => `
  export default Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    ${statements.map((sql) => `yield* sql.unsafe(\`${sql}\`)`).join("\n")}
  })`

const alone = (...statements: ReadonlyArray<string>) => `
  const run = (text) => Effect.flatMap(SqlClient.SqlClient, (sql) => sql.unsafe(text))
  export default [${statements.map((sql) => `run(\`${sql}\`)`).join(", ")}]`

const index = "CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS members_by_name ON members (project_id, name)"

/** Declares a test on a database of its own, with this version's migrations or with the baseline alone. */
const onDatabase = (
  title: string,
  body: () => Body<PgClient.PgClient | SqlClient.SqlClient | Scope.Scope>,
  migrations: "all" | "baseline" = "all"
) =>
  it.live(title, () =>
    Effect.gen(function* () {
      const kept = [...texts].filter(([name]) => migrations === "all" || isBaseline({ name }))
      yield* migrateFrom(yield* filesOf(Object.fromEntries(kept)))
      yield* effectOf(body())
    }).pipe(
      Effect.scoped,
      Effect.provide(
        Layer.unwrap(
          Effect.map(makeDatabase({ empty: migrations === "baseline" }), (url) =>
            PgClient.layer({ url, maxConnections: 3 })
          )
        )
      )
    )
  )

describe("migrations", () => {
  onDatabase(
    "that fail halfway change nothing, leave those before them, and are applied by the next run",
    function* () {
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
      assert.deepStrictEqual(yield* migrateFrom(mended), ["0902_second"])
      assert.deepStrictEqual(yield* tables, [{ name: "halfway_first" }, { name: "halfway_second" }])
    }
  )

  onDatabase("analyze the tables that they have filled", function* () {
    const sql = yield* PgClient.PgClient
    const directory = yield* migrations({
      "0905_filled.ts": inTransaction(
        "CREATE TABLE filled (id int)",
        "INSERT INTO filled SELECT generate_series(1, 500)"
      )
    })
    assert.deepStrictEqual(yield* migrateFrom(directory), ["0905_filled"])
    const [filled] = yield* sql`SELECT reltuples::int AS rows FROM pg_class WHERE relname = 'filled'`
    assert.deepStrictEqual(filled, { rows: 500 })
  })

  onDatabase("that build an index concurrently and fail are run again, and replace what was left of it", function* () {
    const sql = yield* PgClient.PgClient
    yield* makeProject("acme")
    // Another Anna than the one of the project.
    yield* put(sql, "members", { project_id: "acme", id: "b" })
    const directory = yield* migrations({ "0911_index.ts": alone(index) })
    assert.strictEqual((yield* Effect.flip(migrateFrom(directory)))._tag, "MigrationFailed")
    yield* sql`DELETE FROM members WHERE id = 'b'`
    assert.deepStrictEqual(yield* migrateFrom(directory), ["0911_index"])
    const [built] = yield* sql`SELECT indisvalid AS valid FROM pg_index WHERE indexrelid = 'members_by_name'::regclass`
    assert.deepStrictEqual(built, { valid: true })
  })

  onDatabase("wait for a lock for two seconds at a time, so that statements behind them go on", function* () {
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
    assert.deepStrictEqual(yield* Fiber.join(fiber), ["0921_held_up"])
  })

  onDatabase("of two processes at once are applied once", function* () {
    const directory = yield* migrations({
      "0931_once.ts": alone("CREATE INDEX CONCURRENTLY IF NOT EXISTS members_once ON members (project_id, active)"),
      "0932_twice.ts": inTransaction("CREATE TABLE applied_once (id text)", "SELECT pg_sleep(0.3)")
    })
    const runs = yield* Effect.all([migrateFrom(directory), migrateFrom(directory)], { concurrency: 2 })
    assert.deepStrictEqual(runs.map(({ length }) => length).sort(), [0, 2])
  })
})

describe("the migration to unique external ids", () => {
  onDatabase(
    "changes nothing if clients share one, and names three of these ids and the remedy",
    function* () {
      const sql = yield* PgClient.PgClient
      const before = yield* filesOf(Object.fromEntries([...texts].filter(([name]) => name < "0016")))
      yield* migrateFrom(before)
      yield* makeProject("acme")
      const client = (id: string, external_id: string | null) => ({ project_id: "acme", id, external_id })
      const repeated = ["1", "2", "3", "4"].flatMap((externalId) =>
        ["a", "b"].map((name) => client(`${name}${externalId}`, `shop-${externalId}`))
      )
      yield* put(sql, "clients", client("alone", "shop-0"), client("none", null), client("nothing", null), ...repeated)
      const indexes = sql<object>`SELECT indexname, indexdef FROM pg_indexes WHERE tablename IN ('clients', 'deals') ORDER BY 1`
      const former = yield* indexes
      const failure = yield* Effect.flip(migrate)
      assert.strictEqual(failure._tag, "MigrationFailed")
      const [line = ""] = faultLines(failure)
      assert.match(
        line,
        /^Migration 0016_unique_external_ids failed: Clients of a project must have different external ids/
      )
      for (const id of ["shop-1", "shop-2", "shop-3"])
        assert.include(line, `"${id}" of the clients a${id.slice(-1)} and b${id.slice(-1)}`)
      assert.notInclude(line, "shop-4")
      assert.match(line, /give all but one .* another one, or null/)
      assert.deepStrictEqual(yield* indexes, former)
      yield* sql`UPDATE clients SET external_id = NULL WHERE id LIKE 'b_'`
      assert.include(yield* migrate, "0016_unique_external_ids")
      assert.strictEqual(
        (yield* Effect.flip(sql`UPDATE clients SET external_id = 'same'`)).reason._tag,
        "UniqueViolation"
      )
    },
    "baseline"
  )
})

const differenceOf = (error: { readonly _tag: string; readonly message: string }) => {
  assert.strictEqual(error._tag, "MigrationsDiffer")
  return error.message
}

describe("a database whose migrations are not the ones of this version", () => {
  onDatabase("is refused if an applied migration was changed, and nothing is applied", function* () {
    const changed = yield* migrations({ "0003_outbox.ts": nothing, "0901_new.ts": nothing })
    assert.match(differenceOf(yield* Effect.flip(migrateFrom(changed))), /^Migration 0003_outbox was changed after/)
    const sql = yield* PgClient.PgClient
    assert.deepStrictEqual(yield* sql`SELECT FROM applied_migrations WHERE name = '0901_new'`, [])
    yield* sql`UPDATE applied_migrations SET checksum = '' WHERE name = '0002_crm'`
    assert.match(differenceOf(yield* Effect.flip(assertMigrated)), /^Migration 0002_crm was changed after/)
  })

  onDatabase("is refused if one was removed, though another has its number", function* () {
    yield* migrateFrom(yield* migrations({ "0901_first.ts": nothing }))
    const reused = yield* migrations({ "0901_other.ts": nothing, "0902_second.ts": nothing })
    assert.match(differenceOf(yield* Effect.flip(migrateFrom(reused))), /^The database has migration 0901_first, which/)
  })

  onDatabase("is accepted if a newer version has applied more", function* () {
    yield* migrateFrom(yield* migrations({ "9001_later.ts": nothing }))
    assert.deepStrictEqual(yield* migrate, [])
    yield* assertMigrated
  })
})

/** Replaces the ledger by that of the versions before the baseline. */
const becomeFormer = Effect.gen(function* () {
  const sql = yield* PgClient.PgClient
  yield* sql`DROP TABLE applied_migrations`
  yield* sql`
    CREATE TABLE effect_sql_migrations (
      migration_id integer PRIMARY KEY, created_at timestamptz NOT NULL DEFAULT now(), name text NOT NULL
    )`
  yield* sql`
    INSERT INTO effect_sql_migrations (migration_id, name)
    SELECT number, name FROM unnest(ARRAY[
      'projects', 'crm', 'outbox', 'webhooks', 'messaging', 'imports', 'campaigns', 'operators', 'preview_indexes',
      'retention', 'ended_campaigns', 'keys_by_age', 'ended_sessions', 'replay_ends', 'replayed_deliveries', 'reads',
      'pages', 'failing_periods', 'due_by_project', 'failing_endpoints', 'attempt_minutes', 'campaign_messages',
      'recipient_counts', 'moves', 'moving_projects', 'settled_messages', 'earlier_versions'
    ]) WITH ORDINALITY AS each (name, number)`
})

describe("a database from before the baseline", () => {
  onDatabase(
    "is adopted, and gets the later migrations only",
    function* () {
      yield* becomeFormer
      assert.strictEqual((yield* Effect.flip(assertMigrated))._tag, "MigrationsPending")
      assert.deepStrictEqual(
        (yield* migrate).filter((name) => isBaseline({ name })),
        []
      )
      yield* assertMigrated
      assert.deepStrictEqual(yield* migrate, [])
    },
    "baseline"
  )

  onDatabase(
    "is refused if it has another migration under one of its numbers, or lacks one",
    function* () {
      const sql = yield* PgClient.PgClient
      yield* becomeFormer
      yield* sql`UPDATE effect_sql_migrations SET name = 'other' WHERE migration_id = 9`
      assert.match(
        differenceOf(yield* Effect.flip(migrate)),
        /^The database has migration 0009_other, .* new database$/
      )
      yield* sql`DELETE FROM effect_sql_migrations WHERE migration_id = 9`
      const lacking = differenceOf(yield* Effect.flip(migrate))
      assert.match(lacking, /^The database lacks migration 0009_preview_indexes .* of commit \w+ first$/)
    },
    "baseline"
  )
})
