/** The migrations of the database, in `migrations/`. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { PgMigrator } from "@effect/sql-pg"
import { Data, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { fromFileSystem } from "effect/sql/MigratorFileSystem"
import { fileURLToPath } from "node:url"

const loader = fromFileSystem(fileURLToPath(new URL("../../migrations", import.meta.url)))

/** "dev-api!" in ASCII: the advisory lock that lets one process migrate at a time. */
const lock = 7_234_304_496_243_601_697n

/** Applies what is pending, in one transaction, and tells what that was. */
export const migrate = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* sql.withTransaction(
    Effect.gen(function* () {
      yield* sql`SELECT pg_advisory_xact_lock(${lock})`
      return yield* PgMigrator.run({ loader })
    })
  )
}).pipe(Effect.provide(NodeServices.layer))

/** The database lacks migrations; the message says what to do. */
export class MigrationsPending extends Data.TaggedError("MigrationsPending")<{ readonly count: number }> {
  override get message() {
    return `${this.count} migrations are pending: run \`npm run --silent cli -- migrate\``
  }
}

/** How many migrations the database lacks, and how many it has that this version does not know. */
export const standing = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const known = (yield* loader).map(([id]) => id)
  const [table] = yield* sql<{ exists: boolean }>`
    SELECT to_regclass('effect_sql_migrations') IS NOT NULL AS exists`
  const rows =
    table?.exists === true ? yield* sql<{ id: number }>`SELECT migration_id AS id FROM effect_sql_migrations` : []
  const applied = rows.map(({ id }) => id)
  return {
    pending: known.filter((id) => !applied.includes(id)).length,
    unknown: applied.filter((id) => !known.includes(id)).length
  }
}).pipe(Effect.provide(NodeServices.layer))

/** Fails unless every migration has been applied. */
export const assertMigrated = Effect.gen(function* () {
  const { pending } = yield* standing
  if (pending > 0) return yield* new MigrationsPending({ count: pending })
})
