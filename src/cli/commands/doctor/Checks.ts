/** Findings of `doctor`, and the checks of what the service depends on. They change nothing. */
import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import { Cause, Context, Duration, Effect, Layer, Option, Redacted, Schedule } from "effect"
import { HttpClient } from "effect/http"
import { SqlClient } from "effect/sql"
import { sqlClients } from "../../../sql/Connections.ts"
import { databaseIdentity, isDiskFull } from "../../../sql/Database.ts"
import { clockDifference } from "../../../sql/Times.ts"
import { migrationStatus } from "../../../sql/migrations/Migrations.ts"
import { cli, plural } from "../../../platform/Text.ts"
import { RateLimits } from "../../../http/limits/RateLimits.ts"
import { survey } from "../../../secrets/SealedValues.ts"
import { Settings } from "../../../platform/Settings.ts"
import { sealedTables } from "../../../service/StoredData.ts"
import { faultLines } from "../../Run.ts"

export interface Finding {
  readonly check: string
  /** `warning`: works, but needs attention. `skipped`: a check on which this one depends is not in order. */
  readonly status: "ok" | "warning" | "failed" | "skipped"
  readonly detail: string
  readonly advice: string | null
}

export type Judgement = Omit<Finding, "check">

export const ok = (detail: string): Judgement => ({ status: "ok", detail, advice: null })
export const warning = (detail: string, advice: string): Judgement => ({ status: "warning", detail, advice })
export const failed = (detail: string, advice: string): Judgement => ({ status: "failed", detail, advice })
export const skipped: Judgement = { status: "skipped", detail: "what it rests on is not in order", advice: null }

export const failure =
  (advice: string) =>
  (cause: Cause.Cause<unknown>): Effect.Effect<Judgement> => {
    const found = faultLines(Cause.squash(cause)).join("; ")
    return Effect.succeed(failed(found, /lock timeout|statement timeout/.test(found) ? endBlocker : advice))
  }

const endBlocker = "Find what holds it up (pg_stat_activity, pg_blocking_pids), and end that session."

export const unreachable = (cause: Cause.Cause<unknown>) =>
  Effect.flatMap(Settings, ({ databaseUrl }) =>
    failure(
      Option.isNone(databaseUrl)
        ? "Check DATA_DIR. If the embedded PostgreSQL is there, its postgres.log says why it can't be used."
        : "Check DATABASE_URL, and that PostgreSQL runs and takes connections from here."
    )(cause)
  )

interface Server {
  readonly version: string
  readonly number: number
  readonly connections: number
  readonly role: boolean
  /** Whether the library that defines the collation of the database has changed since. */
  readonly isSortedAnew: boolean
}

/** Returns PostgreSQL's reason if its disk is full: 14 MB, more than `work_mem`, are written there and removed. */
const refusalOf = (sql: SqlClient.SqlClient) =>
  sql`SELECT count(*) FROM generate_series(1, 1000000)`.pipe(
    Effect.as([]),
    Effect.catchTag("SqlError", (error) => Effect.succeed(isDiskFull(error) ? faultLines(error) : []))
  )

/** Checks that PostgreSQL answers, has room on its disk, is new enough, is a primary, and has enough connections for one process. */
export const database = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { databaseDirectUrl, databaseMaxConnections, databaseUrl } = yield* Settings
  // Limits of all statements of `doctor`, so that it answers while another session holds a lock.
  yield* sql`
    SELECT set_config('lock_timeout', '3s', false), set_config('statement_timeout', '10s', false),
      set_config('work_mem', '64kB', false)`
  const [server] = yield* sql<Server>`
    SELECT current_setting('server_version') AS version, current_setting('server_version_num')::int AS number,
      current_setting('max_connections')::int AS connections, pg_is_in_recovery() AS role,
      datcollversion IS NOT NULL AND datcollversion IS DISTINCT FROM pg_database_collation_actual_version(oid) AS "isSortedAnew"
    FROM pg_database WHERE datname = current_database()`
  if (server === undefined) return failed("PostgreSQL does not report its version", "Read its log.")
  const url = Option.orElse(databaseDirectUrl, () => databaseUrl)
  const where = Option.match(url, { onNone: () => "embedded", onSome: (url) => new URL(Redacted.value(url)).host })
  const name = `PostgreSQL ${server.version} (${where})`
  if (server.number < 150_000) return failed(`${name} is too old`, "Use PostgreSQL 15 or later.")
  if (server.role) return failed(`${name} is a standby`, "Point DATABASE_URL at the primary.")
  if (server.isSortedAnew) {
    return warning(
      `${name} sorts text by another version of its collation than when the database was made`,
      "The service orders text by byte; for indexes of your own: REINDEX DATABASE, then ALTER DATABASE … REFRESH COLLATION VERSION."
    )
  }
  const [refusal] = yield* refusalOf(sql)
  if (refusal !== undefined) return failed(refusal, "Free space on its disk, or enlarge it.")
  const processes = Math.floor(server.connections / databaseMaxConnections)
  return processes === 0
    ? warning(
        `${name} allows ${server.connections} connections, and one process opens up to ${databaseMaxConnections}`,
        "Lower DATABASE_MAX_CONNECTIONS, or raise max_connections."
      )
    : ok(
        `${name}, ${server.connections} connections: room for ${plural(processes, "process", "processes")} of up to ${databaseMaxConnections}`
      )
}).pipe(Effect.catchCause(unreachable))

/** Checks that the pooler of DATABASE_URL leads to the same database and tables as DATABASE_DIRECT_URL. */
export const pooler = Effect.gen(function* () {
  const { databaseDirectUrl, databaseUrl } = yield* Settings
  if (Option.isNone(databaseUrl)) return ok("none: the embedded database needs no pooler")
  if (Option.isNone(databaseDirectUrl)) return ok("none: DATABASE_URL leads to PostgreSQL itself")
  const direct = yield* SqlClient.SqlClient
  const pooled = Context.get(yield* Layer.build(sqlClients.reads), SqlClient.SqlClient)
  const read = (sql: SqlClient.SqlClient) => sql<{ id: string; found: boolean }>`
    SELECT ${databaseIdentity(sql)} AS id, to_regclass('applied_migrations') IS NOT NULL AS found`
  const [[fromServer], [fromPooler]] = yield* Effect.all([read(direct), read(pooled)])
  if (fromServer?.id !== fromPooler?.id)
    return failed("DATABASE_URL and DATABASE_DIRECT_URL lead to different databases", "Correct one of them.")
  return fromServer?.found === true && fromPooler?.found !== true
    ? failed(
        "The tables are not found through the pooler",
        "Let the roles of both URLs have the same search_path (ALTER ROLE … SET search_path), and the right to use its schema."
      )
    : ok("DATABASE_URL and DATABASE_DIRECT_URL lead to the same database and its tables")
}).pipe(
  Effect.scoped,
  Effect.catchCause(failure("Check DATABASE_URL, and that the pooler runs and takes connections from here."))
)

/** Checks that exactly the migrations of this version are applied, each as this version has it. */
export const migrations = Effect.gen(function* () {
  const { migrateOnStart } = yield* Settings
  const { newer, pending } = yield* migrationStatus
  if (newer > 0) return failed(`${newer} applied by a newer version`, "Run the version that the database is of.")
  if (pending.length === 0) return ok("all applied")
  return migrateOnStart
    ? warning(`${pending.length} pending`, "The next start applies them.")
    : failed(`${pending.length} pending`, `Run \`${cli} migrate\`.`)
}).pipe(
  Effect.catchTag("MigrationsDiffer", ({ difference, remedy }) => Effect.succeed(failed(difference, `${remedy}.`))),
  Effect.catchCause(failure("Read the database's log: the table applied_migrations can't be read."))
)

/**
 * Maximum differences between the clocks of this host and the database, in milliseconds. A wrong clock gives records wrong
 * times. Above five minutes, receivers refuse webhooks.
 */
const tolerance = { warning: 1_000, failed: 60_000 }

export const clock = Effect.gen(function* () {
  const apart = yield* clockDifference(yield* SqlClient.SqlClient)
  const difference = `${Math.round(apart)} ms from the database's`
  const advice = "Synchronize both clocks (NTP)."
  return apart > tolerance.failed
    ? failed(difference, advice)
    : apart > tolerance.warning
      ? warning(difference, advice)
      : ok(difference)
}).pipe(Effect.catchCause(failure("Read the database's log: its clock can't be read.")))

/** Checks that every stored secret can be opened, and that none still needs a key of `SECRET_KEY_PREVIOUS`. */
export const keys = Effect.gen(function* () {
  const { count, previous, unreadable } = yield* survey(sealedTables)
  if (unreadable.length > 0) {
    return failed(
      `No key that is set opens ${plural(unreadable.length, "stored secret", "stored secrets")}: ${unreadable.slice(0, 3).join(", ")}`,
      "Add the key that sealed them to SECRET_KEY_PREVIOUS; else rotate these webhooks, configure their headers again, and apply these channels' configs again."
    )
  }
  return previous > 0
    ? warning(
        `${previous} of ${plural(count, "secret", "secrets")} are sealed by SECRET_KEY_PREVIOUS`,
        `Run \`${cli} secrets reseal\`: SECRET_KEY_PREVIOUS is needed until it has sealed them anew.`
      )
    : ok(`SECRET_KEY opens what is stored (${plural(count, "secret", "secrets")})`)
}).pipe(Effect.catchCause(failure("Check SECRET_KEY, or the file secret-key under DATA_DIR.")))

/** Checks that Redis answers. Without `REDIS_URL` each process counts rate limits for itself. */
export const limiter = Effect.gen(function* () {
  const { redisUrl } = yield* Settings
  if (Option.isNone(redisUrl)) return ok("each process counts for itself; REDIS_URL shares limits among replicas")
  const { host } = new URL(Redacted.value(redisUrl.value))
  return yield* Effect.flatMap(RateLimits, ({ ping }) => ping).pipe(
    // The store connects in the background, so the first pings may fail.
    Effect.retry({ schedule: Schedule.spaced(Duration.millis(100)), times: 20 }),
    Effect.as(ok(`Redis answers (${host})`)),
    Effect.orElseSucceed(() =>
      failed(`Redis does not answer (${host})`, "Check REDIS_URL, and that Redis runs and takes connections from here.")
    ),
    Effect.provide(RateLimits.layer)
  )
})

export const telemetry = Effect.gen(function* () {
  const { adminPort, databaseUrl, metricsPort, telemetry } = yield* Settings
  if (Option.isNone(telemetry)) {
    if (Option.isSome(metricsPort)) return ok(`metrics on port ${metricsPort.value}`)
    return ok(
      Option.isSome(adminPort) || Option.isNone(databaseUrl) ? "metrics on the admin port" : "nothing is exported"
    )
  }
  const { endpoint } = telemetry.value
  return yield* HttpClient.get(`${endpoint}/v1/traces`).pipe(
    // Any answer to a GET shows that the collector is reachable.
    Effect.as(ok(`${endpoint} answers`)),
    Effect.timeout(Duration.seconds(3)),
    Effect.orElseSucceed(() =>
      warning(`${endpoint} does not answer`, "Check OTEL_EXPORTER_OTLP_ENDPOINT: what is recorded now is lost.")
    ),
    Effect.provide(NodeHttpClient.layerNodeHttp)
  )
})
