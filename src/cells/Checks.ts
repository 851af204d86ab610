/**
 * What a move checks and waits for. Checks that both sides have what it needs, before it changes anything; stops the background work
 * of the project, then its mutations, which start again if the database session of the move at the source ends; and compares both sides
 * before the switch: for each table, the number of the project's rows and the sum of their hashes.
 */
import { Duration, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { type SealedTable, unreadableAll } from "../secrets/SealedValues.ts"
import { isArriving, type Mark, markOf, refused, seeds, type Sides, step } from "./Sides.ts"
import { tablesOf } from "../project/Deletion.ts"
import { drained } from "./Replication.ts"

type Sql = SqlClient.SqlClient

const pollEvery = Duration.millis(50)

/**
 * `olderEnded` does not wait for a transaction that is older than this and has written nothing. Of such transactions, only
 * mutations can still write, and `fence` waits for mutations by the lock that they share.
 */
const oldest = "5 seconds"

/**
 * Waits until the transactions that began before this call have ended, except those that are older than `oldest` and have
 * written nothing, such as a dump. Later transactions see the state of the move.
 */
export const olderEnded = Effect.fnUntraced(function* (sql: Sql) {
  const older = yield* sql<{ readonly pid: number; readonly began: string }>`
    SELECT pid, xact_start::text AS began FROM pg_stat_activity
    WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
      AND xact_start IS NOT NULL`
  const left = sql`
    SELECT FROM pg_stat_activity JOIN unnest(
      ${older.map(({ pid }) => pid)}::int[], ${older.map(({ began }) => began)}::timestamptz[]
    ) AS older (pid, began) ON pg_stat_activity.pid = older.pid AND xact_start = began
    WHERE backend_xid IS NOT NULL OR xact_start > clock_timestamp() - ${oldest}::interval`
  yield* Effect.repeat(Effect.delay(left, pollEvery), { until: (rows) => rows.length === 0 })
})

/** `claimed`: only the calls of workers to webhooks and providers. `all`: also the calls that requests make themselves. */
type Calls = "claimed" | "all"

/**
 * Waits for the attempts of deliveries and messages whose lease has not ended. The lease of a dead process ends, and the target
 * then takes its attempts over. `claimed` leaves out messages without a worker id. Such a message is sent by a request, or by a
 * worker without its liveness lock (`work/Worker.ts`).
 */
const nothingInFlight = ({ projectId, source }: Sides, calls: Calls) => {
  const inFlight = source<{ readonly count: number }>`
    SELECT count(*)::int AS count FROM (
      SELECT FROM endpoint_health JOIN deliveries USING (project_id, installation_id)
      WHERE project_id = ${projectId} AND in_flight > 0 AND finished_at IS NULL AND status = 'delivering'
        AND leased_until > now()
      UNION ALL
      SELECT FROM messages
      WHERE project_id = ${projectId} AND attempting AND available_at > now() AND available_at IS NOT NULL
        AND (worker_id IS NOT NULL OR ${calls === "all"})
    ) calls`
  return Effect.repeat(Effect.delay(inFlight, pollEvery), { until: ([row]) => row?.count === 0 })
}

/** Ends a wait after `duration`. What was waited for is in `deliveries`, `messages` and `pg_stat_activity` of the source. */
export const limited =
  (duration: Duration.Duration, ended: string) =>
  <A, E, R>(wait: Effect.Effect<A, E, R>) =>
    Effect.timeoutOrElse(wait, {
      duration,
      orElse: () =>
        refused(
          `${ended} after ${Duration.format(duration)}: calls are in flight, transactions are open, or the target is not level`,
          "The project works on as before: run again"
        )
    })

/**
 * Maximum duration of `rest`. Meanwhile the project's webhooks, retries and campaigns pause. Leases of the usual length end
 * within this time.
 */
const longestRest = Duration.minutes(2)

/**
 * Stops workers from claiming work of the project, and waits for the calls of workers in flight. Mutations go on. The second
 * `olderEnded` shortens the fence, which then waits only for transactions that began later.
 */
export const rest = (sides: Sides) =>
  Effect.gen(function* () {
    yield* step(sides, "caught_up")
    yield* olderEnded(sides.source)
    yield* nothingInFlight(sides, "claimed")
    yield* olderEnded(sides.source)
  }).pipe(limited(longestRest, "The rest was ended"))

/**
 * Waits for the mutations in flight and refuses later ones. Then waits for the calls of workers and requests, and for earlier
 * transactions (`olderEnded`). After that only two things still change the project at the source: `last_used_at` of API keys,
 * and short statements of operators' commands.
 */
export const fence = Effect.fnUntraced(function* (sides: Sides) {
  const { projectId, source } = sides
  yield* source`SELECT pg_advisory_lock(hashtextextended(${projectId}, ${seeds.project}))`
  yield* step(sides, "rested")
  yield* nothingInFlight(sides, "all")
  yield* olderEnded(source)
})

/** Releases the lock that mutations share. The state of the project then decides whether its mutations are refused. */
export const lift = ({ projectId, source }: Sides) =>
  source`SELECT pg_advisory_unlock(hashtextextended(${projectId}, ${seeds.project}))`

interface Server {
  readonly version: number
  readonly standby: boolean
  readonly walLevel: string
  readonly freeSlots: number
  readonly freeSenders: number
  readonly workers: number
  readonly mayReplicate: boolean
  readonly maySubscribe: boolean
  /** Whether the role may create a publication or a subscription in the database. */
  readonly mayCreate: boolean
  readonly ownsTables: boolean
}

const serverOf = (sql: Sql) => sql<Server>`
  SELECT current_setting('server_version_num')::int AS version, pg_is_in_recovery() AS standby,
    current_setting('wal_level') AS "walLevel",
    current_setting('max_replication_slots')::int - (SELECT count(*)::int FROM pg_replication_slots) AS "freeSlots",
    current_setting('max_wal_senders')::int - (SELECT count(*)::int FROM pg_stat_replication) AS "freeSenders",
    current_setting('max_logical_replication_workers')::int AS workers,
    rolsuper OR rolreplication AS "mayReplicate",
    rolsuper OR coalesce((
      SELECT pg_has_role(current_user, oid, 'member') FROM pg_roles WHERE rolname = 'pg_create_subscription'
    ), false) AS "maySubscribe",
    has_database_privilege(current_database(), 'CREATE') AS "mayCreate",
    coalesce((
      SELECT bool_and(pg_has_role(relowner, 'USAGE')) FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
      WHERE attname = 'project_id' AND relkind IN ('r', 'p') AND relnamespace = current_schema()::regnamespace
    ), false) AS "ownsTables"
  FROM pg_roles WHERE rolname = current_user`

const migrationsOf = (sql: Sql) => sql<{ readonly name: string | null }>`
  SELECT string_agg(name || checksum, ',' ORDER BY name) AS name FROM applied_migrations`

/**
 * Free replication slots and senders for a move: one for the changes, and one for each table that is copied at the same time
 * (two by default).
 */
const slots = 3

/** Fails with the faults of both sides. A move that continues needs no free slots, because it has its slots already. */
export const check = Effect.fnUntraced(function* (
  { projectId, source, sourceId, target, targetId }: Sides,
  sealed: ReadonlyArray<SealedTable>,
  mark: Mark
) {
  const [[here], [there]] = yield* Effect.all([serverOf(source), serverOf(target)])
  const exists = yield* target<{ readonly yes: boolean }>`
    SELECT to_regclass('applied_migrations') IS NOT NULL AS yes`
  if (here === undefined || there === undefined) return yield* refused("A role of the URLs does not exist")
  const isNew = mark.state === null
  const needs: ReadonlyArray<readonly [isMet: boolean, fault: string]> = [
    [
      here.walLevel === "logical",
      `The source has wal_level = ${here.walLevel}: set wal_level = logical there, and restart PostgreSQL`
    ],
    [here.mayReplicate, "The role at the source needs REPLICATION: ALTER ROLE … REPLICATION"],
    [here.mayCreate, "The role at the source needs CREATE on the database: GRANT CREATE ON DATABASE …"],
    [here.ownsTables, "The role at the source has to own the tables: ALTER TABLE … OWNER TO …"],
    [!isNew || here.freeSlots >= slots, `The source has no ${slots} free slots: raise max_replication_slots`],
    [!isNew || here.freeSenders >= slots, `The source has no ${slots} free senders: raise max_wal_senders`],
    [there.version >= 150_000, "The target is older than PostgreSQL 15"],
    [!there.standby, "The target is a standby: --to has to be the primary"],
    [there.workers > 0, "The target has max_logical_replication_workers = 0"],
    [
      there.maySubscribe,
      "The role at the target needs pg_create_subscription (PostgreSQL 16), or has to be a superuser (15)"
    ],
    [there.mayCreate, "The role at the target needs CREATE on the database: GRANT CREATE ON DATABASE …"]
  ]
  const faults = needs.flatMap(([isMet, fault]) => (isMet ? [] : [fault]))
  if (exists[0]?.yes !== true) return yield* refused(...faults, "The target has no tables: run `migrate` there")
  const [[ours], [theirs]] = yield* Effect.all([migrationsOf(source), migrationsOf(target)])
  if (ours?.name !== theirs?.name) {
    return yield* refused(...faults, "The migrations of source and target differ: run the same version on both")
  }
  const other = yield* markOf(target, projectId)
  if (other !== undefined && !isArriving(other, { sourceId }) && !isHandedOver(mark)) {
    faults.push(`The target has a project ${projectId} of its own`)
  }
  if (mark.peer !== null && mark.peer !== targetId) {
    faults.push("The project is being moved to another database: name that one by --to, or run there with --abort")
  }
  for (const [side, sql] of [
    ["source", source],
    ["target", target]
  ] as const) {
    const unreadable = yield* Effect.provideService(unreadableAll(sealed), SqlClient.SqlClient, sql)
    if (unreadable > 0) {
      faults.push(`SECRET_KEY opens none of the ${unreadable} secrets at the ${side}: cells share SECRET_KEY`)
    }
  }
  if (faults.length > 0) return yield* refused(...faults)
})

const isHandedOver = ({ state }: Mark) => state === "switching" || state === "switched"

interface Sum {
  readonly name: string
  readonly rows: number
  readonly sum: string
}

/**
 * A table, and its columns in the order of their names. The physical order can differ between databases, for example after a
 * restore.
 */
interface Columns {
  readonly name: string
  readonly columns: string
}

const columnsOf = (sql: Sql, names: ReadonlyArray<string>) => sql<Columns>`
  SELECT quote_ident(relname) AS name, string_agg(quote_ident(attname), ', ' ORDER BY attname) AS columns
  FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
  WHERE relnamespace = current_schema()::regnamespace AND quote_ident(relname) = ANY(${names}::text[])
    AND attnum > 0 AND NOT attisdropped
  GROUP BY relname ORDER BY relname`

/** Sets the formats of values as text, so that equal values have equal hashes on both sides. */
const formats = (sql: Sql) => sql`
  SELECT set_config('timezone', 'UTC', false), set_config('datestyle', 'ISO, MDY', false),
    set_config('intervalstyle', 'postgres', false), set_config('bytea_output', 'hex', false),
    set_config('extra_float_digits', '1', false)`

const sumsOf = (sql: Sql, projectId: string, tables: ReadonlyArray<Columns>) =>
  sql.unsafe<Sum>(
    tables
      .map(
        ({ columns, name }) => `
          SELECT '${name}' AS name, count(*)::int AS rows, coalesce(sum(hashtextextended(ROW(${columns})::text, 0)), 0)::text AS sum
          FROM ${name} WHERE project_id = $1`
      )
      .join(" UNION ALL "),
    [projectId]
  )

/** Maximum number of comparisons. The sides may differ for a moment when the use of an API key is recorded. */
const attempts = 5

/** Waits until the target has all changes, and fails unless both sides are equal. Returns the number of rows. */
export const verify = Effect.fnUntraced(function* (sides: Sides) {
  const { projectId, source, target } = sides
  const all = (yield* tablesOf(source)).map(({ name }) => name)
  let tables: ReadonlyArray<Columns> = yield* columnsOf(source, all)
  let rows: number | undefined
  for (let attempt = 1; attempt <= attempts; attempt++) {
    yield* drained(sides)
    yield* Effect.all([formats(source), formats(target)])
    const [here, there] = yield* Effect.all(
      [sumsOf(source, projectId, tables), sumsOf(target, projectId, tables)] as const,
      { concurrency: 2 }
    )
    rows ??= here.reduce((all, { rows }) => all + rows, 0)
    const other = new Map(there.map((sum) => [sum.name, sum]))
    const differ = here.filter(({ name, rows, sum }) => other.get(name)?.rows !== rows || other.get(name)?.sum !== sum)
    tables = tables.filter(({ name }) => differ.some((sum) => sum.name === name))
    if (tables.length === 0) return rows
    yield* Effect.sleep(Duration.millis(100))
  }
  const names = tables.map(({ name }) => name)
  return yield* refused(`The target differs from the source in ${names.join(", ")}: run with --abort, then begin again`)
})
