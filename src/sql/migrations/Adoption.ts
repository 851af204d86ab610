/**
 * Adopts databases from before the baseline. The 27 migrations that made them are one baseline today. It makes the same catalog,
 * except that all indexes order text by byte. Their ledger is another table, which stays as it is: processes of the earlier version
 * read it.
 */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { type Migration, MigrationsDiffer, record } from "./Ledger.ts"

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
