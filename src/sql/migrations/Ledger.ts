/**
 * The ledger of applied migrations, in the database. A migration is known by its name and by the checksum of its file. The ledger
 * agrees with the files of this version if each applied migration has a file with the same content. It may also name migrations
 * that come after all files: a newer version has applied them, and this version still runs beside it.
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
export class MigrationsDiffer extends Data.TaggedError("MigrationsDiffer")<{
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

/** Migrations that are not applied yet, and the number of applied ones of a newer version. */
interface Status {
  readonly pending: ReadonlyArray<Migration>
  readonly newer: number
}

/** Compares the ledger with the migrations of this version. Without a ledger, all migrations are pending. */
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
  return { pending, newer: applied.length - (known.length - pending.length) } satisfies Status
})
