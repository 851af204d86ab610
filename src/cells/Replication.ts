/**
 * Replicates a project's rows from the source to the target, by a publication with row filters, a subscription and a slot. All
 * three have the same name. After a crash, a later run can repeat each statement.
 *
 * Every table with a column `project_id` is copied, except `projects`. The project's row is inserted at the target before the
 * copy, in the state `arriving`. Its values are updated when the target takes the project over. Replication fires no triggers
 * and checks no foreign keys at the target, because the source has done both. Tables without `project_id`, sequences and rate
 * limits are not copied.
 */
import { Duration, Effect, Layer, Metric, Predicate, Redacted, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { tablesOf } from "../project/Deletion.ts"
import { Lost, nameOf, refused, type Sides } from "./Sides.ts"
import { reasonOf } from "../sql/Database.ts"
import { forkMeasurement } from "../work/Supervisor.ts"
import { gauge } from "../telemetry/Telemetry.ts"

type Sql = SqlClient.SqlClient

const quoted = (text: string) => `'${text.replaceAll("\\", "\\\\").replaceAll("'", "''")}'`
/** A string literal with escaped backslashes. It does not depend on `standard_conforming_strings`. */
const literal = (sql: Sql, text: string) => sql.literal(`E${quoted(text)}`)

/** Creates the project's row and the subscription at the target, and the publication at the source, unless they exist. */
export const make = Effect.fnUntraced(function* (sides: Sides) {
  const { name, projectId, source, sourceId, sourceUrl, target } = sides
  const row = yield* rowOf(sides)
  yield* target`
    INSERT INTO projects SELECT next.* FROM jsonb_populate_record(NULL::projects, ${JSON.stringify({
      ...row,
      default_pipeline_id: null,
      move_state: "arriving",
      move_peer: sourceId
    })}::jsonb) AS next ON CONFLICT DO NOTHING`

  const published = yield* source`SELECT FROM pg_publication WHERE pubname = ${name}`
  if (published.length === 0) {
    const tables = (yield* tablesOf(source)).map((table) => `${table.name} WHERE (project_id = E${quoted(projectId)})`)
    yield* source`
      CREATE PUBLICATION ${source(name)} FOR TABLE ${source.literal(tables.join(", "))}
      WITH (publish = 'insert, update, delete')`
  }
  if (yield* resume(sides)) return
  // An earlier run may have created the slot without its subscription.
  yield* dropSlots(source, name)
  // The next statement contains the source's password. Without this setting, the target would log the statement if it failed.
  yield* Effect.ignore(target`SELECT set_config('log_min_error_statement', 'panic', false)`)
  yield* target`
    CREATE SUBSCRIPTION ${target(name)} CONNECTION ${literal(target, Redacted.value(sourceUrl))}
    PUBLICATION ${target(name)} WITH (slot_name = ${literal(target, name)}, disable_on_error = true)`.pipe(
    Effect.catchIf(
      ({ reason }) => reason._tag === "ConnectionError" && Predicate.hasProperty(reason.cause, "severity"),
      (error) => refused(`The target can't reach the source: ${reasonOf(error)}`)
    )
  )
})

export const rowOf = ({ projectId, source }: Sides) =>
  Effect.flatMap(
    source<{ readonly row: Readonly<Record<string, unknown>> }>`
      SELECT to_jsonb(projects) AS row FROM projects WHERE project_id = ${projectId}`,
    ([found]) => (found === undefined ? refused(`There is no project ${projectId}`) : Effect.succeed(found.row))
  )

const subscriptionOf = ({ name, target }: Sides) =>
  Effect.map(
    target<{ readonly id: string }>`
      SELECT oid::text AS id FROM pg_subscription
      WHERE subname = ${name} AND subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())`,
    ([subscription]) => subscription
  )

/** Enables a subscription that an error, such as the loss of the source, has disabled. Returns whether the subscription exists. */
export const resume = Effect.fnUntraced(function* (sides: Sides) {
  const isThere = (yield* subscriptionOf(sides)) !== undefined
  if (isThere) yield* sides.target`ALTER SUBSCRIPTION ${sides.target(sides.name)} ENABLE`
  return isThere
})

interface Progress {
  readonly tables: number
  readonly copied: number
  /** Bytes of the source's log that the target has not confirmed yet. */
  readonly behind: number
}

/**
 * Reads how far the copy is. Fails with `Lost` if an error has disabled the subscription. The cause may have been the loss of
 * the source, so the next attempt enables the subscription again.
 */
export const progress = Effect.fnUntraced(function* ({ name, source, target }: Sides) {
  const [there] = yield* target<Omit<Progress, "behind"> & { readonly enabled: boolean }>`
    SELECT subenabled AS enabled, count(*)::int AS tables, count(*) FILTER (WHERE srsubstate = 'r')::int AS copied
    FROM pg_subscription JOIN pg_subscription_rel ON srsubid = oid WHERE subname = ${name} GROUP BY oid, subenabled`
  if (there?.enabled !== true) {
    return yield* new Lost({
      message: "The subscription at the target has stopped: the log of PostgreSQL there has the reason"
    })
  }
  const [here] = yield* source<{ readonly behind: number | null }>`
    SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), confirmed_flush_lsn)::float8 AS behind
    FROM pg_replication_slots WHERE slot_name = ${name}`
  if (here === undefined)
    return yield* refused(
      `The slot ${name} is gone from the source, as after a failover. Before the switch run with --abort, then begin again`
    )
  return { ...there, behind: here.behind ?? 0 } satisfies Progress
})

const pollEvery = Duration.millis(50)

/** Waits until the target has everything that was committed at the source before this call. */
export const drained = Effect.fnUntraced(function* (sides: Sides) {
  const { name, source } = sides
  // The commit of this message flushes the log of the source. So the target gets all that precedes the message, and confirms a
  // position at or after it.
  const mark = source<{ readonly at: string }>`SELECT pg_logical_emit_message(true, 'move', '')::text AS at`
  const [marked] = yield* mark
  const at = marked?.at ?? ""
  for (let polls = 1; ; polls++) {
    const reached = yield* source`
      SELECT FROM pg_replication_slots WHERE slot_name = ${name} AND confirmed_flush_lsn >= ${at}::text::pg_lsn`
    if (reached.length > 0) return
    if (polls % 20 === 0) yield* Effect.andThen(progress(sides), mark)
    yield* Effect.sleep(pollEvery)
  }
})

/** Drops the subscription, the slots and the publication, as far as they exist. */
export const drop = Effect.fnUntraced(function* (sides: Sides) {
  const { name, source, target } = sides
  const subscription = yield* subscriptionOf(sides)
  if (subscription !== undefined) {
    yield* target`DROP SUBSCRIPTION ${target(name)}`.pipe(
      // A target that can't reach the source can't drop the slots. It drops the subscription alone, and the slots are dropped at
      // the source.
      Effect.catchTag("SqlError", () =>
        Effect.gen(function* () {
          yield* target`ALTER SUBSCRIPTION ${target(name)} DISABLE`
          yield* target`ALTER SUBSCRIPTION ${target(name)} SET (slot_name = NONE)`
          yield* target`DROP SUBSCRIPTION ${target(name)}`
          yield* dropSlots(source, `pg_${subscription.id}_sync_%`)
        })
      )
    )
  }
  yield* dropSlots(source, name)
  yield* source`DROP PUBLICATION IF EXISTS ${source(name)}`
})

/** Drops the slots whose names match the pattern. Tries again for 10 seconds while a sender uses one of them. */
const dropSlots = (source: Sql, pattern: string) =>
  source`SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name LIKE ${pattern}`.pipe(
    Effect.retry({ schedule: Schedule.spaced(Duration.millis(200)), times: 50 })
  )

const idle = gauge(
  "move_slots_idle",
  "Replication slots of moves that no target reads: they keep the log of the database"
)

interface Slot {
  /** The project that is being moved; null for a slot that belongs to no move. */
  readonly projectId: string | null
  readonly slot: string
  readonly active: boolean
  /** Bytes of the log that PostgreSQL keeps for the slot. */
  readonly keeps: number
}

/** Lists the replication slots of moves. */
export const slots = (sql: Sql) => sql<Slot>`
  SELECT slot_name AS slot, active, pg_wal_lsn_diff(pg_current_wal_insert_lsn(), restart_lsn)::float8 AS keeps,
    (SELECT project_id FROM projects WHERE move_state IS NOT NULL AND slot_name = ${nameOf(sql, sql`project_id`)}) AS "projectId"
  FROM pg_replication_slots
  WHERE slot_name LIKE 'move\\_%' AND database = current_database() ORDER BY slot_name`

/** Measures the slots that no target reads: PostgreSQL keeps its log for such a slot until the disk is full. */
export const slotMetrics = Layer.effectDiscard(
  Effect.gen(function* () {
    const found = slots(yield* SqlClient.SqlClient)
    const measure = Effect.flatMap(found, (all) => Metric.update(idle, all.filter(({ active }) => !active).length))
    yield* forkMeasurement("move slots", measure)
  })
)
