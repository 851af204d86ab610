/**
 * The ledger of applied migrations, in the database. A migration is known by its name and by the checksum of its file. The ledger
 * agrees with the files of this version if each applied migration has a file with the same content. It may also name migrations
 * that come after all files: a newer version has applied them, and this version still runs beside it.
 *
 * Also adopts databases from before the baseline. The 27 migrations that made them are one baseline today. It makes the same catalog,
 * except that all indexes order text by byte. The ledger of those migrations is another table, which stays as it is: processes of the
 * earlier version read it.
 */
import { Data, Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { createHash } from "node:crypto"
import { readdir, readFile } from "node:fs/promises"
import * as Path from "node:path"

export interface Migration {
  /** Name of the file without its extension, such as `0001_projects`. The number at its beginning gives the order. */
  readonly name: string
  readonly checksum: string
  readonly path: string
}

/** The ledger and the files of this version contradict each other. */
class MigrationsDiffer extends Data.TaggedError("MigrationsDiffer")<{
  readonly difference: string
  readonly remedy: string
}> {
  override get message() {
    return `${this.difference}. ${this.remedy}`
  }
}

/** Reads the migrations of a directory, in order. */
export const readMigrations = (directory: string): Effect.Effect<ReadonlyArray<Migration>> =>
  Effect.promise(async () => {
    const files = (await readdir(directory)).filter((file) => /^\d{4}_\w+\.ts$/.test(file)).toSorted()
    return Promise.all(
      files.map(async (file) => {
        const path = Path.join(directory, file)
        const checksum = createHash("sha256")
          .update(await readFile(path))
          .digest("hex")
        return { name: Path.basename(file, ".ts"), checksum, path }
      })
    )
  })

export const createLedger = (sql: SqlClient.SqlClient) => sql`
  CREATE TABLE IF NOT EXISTS applied_migrations (
    name text COLLATE "C" PRIMARY KEY, checksum text NOT NULL, applied_at timestamptz(3) NOT NULL DEFAULT now()
  )`

export const record = (sql: SqlClient.SqlClient, { checksum, name }: Migration) => sql`
  INSERT INTO applied_migrations (name, checksum) VALUES (${name}, ${checksum})`

/**
 * Compares the ledger with the migrations of this version. Returns those that are not applied yet (`pending`; all, without a ledger), and
 * the number of applied ones of a newer version.
 */
export const statusOf = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, known: ReadonlyArray<Migration>) {
  const [table] = yield* sql<{ exists: boolean }>`SELECT to_regclass('applied_migrations') IS NOT NULL AS exists`
  const applied =
    table?.exists === true
      ? yield* sql<{ name: string; checksum: string }>`SELECT name, checksum FROM applied_migrations ORDER BY name`
      : []
  const last = known.at(-1)?.name ?? ""
  for (const { checksum, name } of applied) {
    const same = known.find((migration) => migration.name === name)
    if (same === undefined && name < last) {
      return yield* new MigrationsDiffer({
        difference: `The database has migration ${name}, which this version does not have`,
        remedy: "Run the version that has applied it, or a later one"
      })
    }
    if (same !== undefined && same.checksum !== checksum) {
      return yield* new MigrationsDiffer({
        difference: `Migration ${name} was changed after it was applied to the database`,
        remedy: `Run the version that has applied it, or restore its text in migrations/${name}.ts`
      })
    }
  }
  const names = new Set(applied.map(({ name }) => name))
  const pending = known.filter(({ name }) => !names.has(name))
  return { pending, newer: applied.length - (known.length - pending.length) }
})

/** Number of the last migration of the baseline, which creates all tables. */
const baseline = 9

export const isBaseline = ({ name }: Pick<Migration, "name">) => Number.parseInt(name, 10) <= baseline

/** The last commit whose migrations are not the baseline. */
const lastBefore = "5fba9982"

/** The names that the former ledger has to have, by their numbers from 1. */
const former: ReadonlyArray<string> = `
  projects crm outbox webhooks messaging imports campaigns operators preview_indexes retention ended_campaigns
  keys_by_age ended_sessions replay_ends replayed_deliveries reads pages failing_periods due_by_project
  failing_endpoints attempt_minutes campaign_messages recipient_counts moves moving_projects settled_messages
  earlier_versions
`
  .trim()
  .split(/\s+/)

const nameOf = (id: number, name: string) => `${String(id).padStart(4, "0")}_${name}`

/** Columns of indexes that had the collation of the database. The change builds their indexes again. */
const orderedByByte = {
  clients: ["external_id", "phone", "status"],
  deals: ["lifecycle", "status"],
  deliveries: ["event_type"],
  campaigns: ["status"],
  campaign_recipients: ["status"]
}

/** Triggers that name such a column, so that its type changes only without them. */
const triggers = [
  {
    name: "campaigns_record_their_course",
    when: "BEFORE UPDATE",
    table: "campaigns",
    does: "WHEN (NEW.status <> OLD.status) EXECUTE FUNCTION record_course()"
  },
  {
    name: "deliveries_have_a_type",
    when: "BEFORE INSERT",
    table: "deliveries",
    does: "WHEN (NEW.event_type IS NULL) EXECUTE FUNCTION set_event_type()"
  }
]

const orderByByte = Effect.fnUntraced(function* (sql: SqlClient.SqlClient) {
  for (const { name, table } of triggers) yield* sql`DROP TRIGGER ${sql(name)} ON ${sql(table)}`
  for (const [table, columns] of Object.entries(orderedByByte)) {
    const changes = columns.map((column) => `ALTER COLUMN ${column} TYPE text COLLATE "C"`)
    yield* sql`ALTER TABLE ${sql(table)} ${sql.literal(changes.join(", "))}`
  }
  for (const { does, name, table, when } of triggers) {
    yield* sql`CREATE TRIGGER ${sql(name)} ${sql.literal(when)} ON ${sql(table)} FOR EACH ROW ${sql.literal(does)}`
  }
  yield* sql`DROP INDEX deliveries_by_state`
  yield* sql`
    CREATE INDEX deliveries_by_state ON deliveries (project_id, installation_id, (
      CASE
        WHEN finished_at IS NULL THEN 'pending' COLLATE "C"
        WHEN coalesce(attempt_log -> -1 ->> 'statusCode', '') LIKE '2__' THEN 'delivered'
        ELSE 'dead'
      END
    ), event_type, id)`
})

/** Records the baseline as applied if a database has exactly the former migrations. Does nothing without a former ledger. */
export const adopt = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, known: ReadonlyArray<Migration>) {
  const [table] = yield* sql<{ isFormer: boolean }>`
    SELECT to_regclass('effect_sql_migrations') IS NOT NULL AND NOT EXISTS (SELECT FROM applied_migrations) AS "isFormer"`
  if (table?.isFormer !== true) return
  const rows = yield* sql<{ id: number; name: string }>`
    SELECT migration_id AS id, name FROM effect_sql_migrations ORDER BY migration_id`
  const names = rows.map(({ id, name }) => nameOf(id, name))
  const wanted = former.map((name, i) => nameOf(i + 1, name))
  const unknown = names.find((name) => !wanted.includes(name))
  if (unknown !== undefined) {
    return yield* new MigrationsDiffer({
      difference: `The database has migration ${unknown}, which commit ${lastBefore} does not have`,
      remedy: `Export its projects with the version that made it, and import them into a new database`
    })
  }
  const missing = wanted.find((name) => !names.includes(name))
  if (missing !== undefined) {
    return yield* new MigrationsDiffer({
      difference: `The database lacks migration ${missing} of the versions before the baseline`,
      remedy: `Run \`npm run --silent cli -- migrate\` of commit ${lastBefore} first`
    })
  }
  const recordAll = Effect.forEach(known.filter(isBaseline), (migration) => record(sql, migration))
  yield* sql.withTransaction(Effect.andThen(orderByByte(sql), recordAll))
})
