/** The checks of `doctor`. They change nothing. */
import { type Cause, Context, Duration, Effect, Layer, Option, Redacted, Schedule } from "effect"
import { FetchHttpClient, HttpClient } from "effect/http"
import { SqlClient } from "effect/sql"
import { slots } from "../../../cells/MoveSlots.ts"
import { listDue, listFailing, failingMax } from "../../../integrations/endpoints/WebhookList.ts"
import { listWorkers } from "../../../work/Worker.ts"
import { clients } from "../../../sql/Connections.ts"
import { clockDifference } from "../../../sql/DatabaseClock.ts"
import { migrationStatus } from "../../../sql/migrations/Migrations.ts"
import { progressOf, type State } from "../../../platform/Moves.ts"
import { plural } from "../../../platform/Text.ts"
import { countStuck, maxCount } from "../../../project/Waiting.ts"
import { listRefused } from "../../../http/auth/RefusedRequests.ts"
import { listEnding, maxCount as maxEnding } from "../../../http/auth/EndingKeys.ts"
import { RateLimits } from "../../../http/limits/RateLimits.ts"
import { survey } from "../../../secrets/SealedValues.ts"
import { Settings } from "../../../platform/Settings.ts"
import { sealedTables } from "../../../service/StoredSecrets.ts"
import { cli } from "../../Output.ts"
import { failed, failure, ok, warning } from "./Finding.ts"

export const unreachable = (cause: Cause.Cause<unknown>) =>
  Effect.flatMap(Settings, ({ databaseUrl }) =>
    failure(
      Option.isNone(databaseUrl)
        ? "Read postgres.log under DATA_DIR: the embedded PostgreSQL can't be used."
        : "Check DATABASE_URL, and that PostgreSQL runs and takes connections from here."
    )(cause)
  )

const oldestServer = 150_000

interface Server {
  readonly version: string
  readonly number: number
  readonly connections: number
  readonly role: boolean
  /** Whether the library that defines the collation of the database has changed since. */
  readonly isSortedAnew: boolean
}

/** Maximum number of moved projects that are named. */
const maxMoves = 10

/** Checks that PostgreSQL answers, is new enough, is a primary, and has enough connections for one process. */
export const database = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const { databaseDirectUrl, databaseMaxConnections, databaseUrl } = yield* Settings
  const [server] = yield* sql<Server>`
    SELECT current_setting('server_version') AS version, current_setting('server_version_num')::int AS number,
      current_setting('max_connections')::int AS connections, pg_is_in_recovery() AS role,
      datcollversion IS NOT NULL AND datcollversion IS DISTINCT FROM pg_database_collation_actual_version(oid) AS "isSortedAnew"
    FROM pg_database WHERE datname = current_database()`
  if (server === undefined) return failed("PostgreSQL does not report its version", "Read its log.")
  const where = Option.match(
    Option.orElse(databaseDirectUrl, () => databaseUrl),
    {
      onNone: () => "embedded",
      onSome: (url) => new URL(Redacted.value(url)).host
    }
  )
  const name = `PostgreSQL ${server.version} (${where})`
  if (server.number < oldestServer) return failed(`${name} is too old`, "Use PostgreSQL 15 or later.")
  if (server.role) return failed(`${name} is a standby`, "Point DATABASE_URL at the primary.")
  if (server.isSortedAnew) {
    return warning(
      `${name} sorts text by another version of its collation than when the database was made`,
      "The service orders text by byte; for indexes of your own: REINDEX DATABASE, then ALTER DATABASE … REFRESH COLLATION VERSION."
    )
  }
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
  const pooled = Context.get(yield* Layer.build(clients.reads), SqlClient.SqlClient)
  const identity = (sql: SqlClient.SqlClient) => sql<{ id: string }>`
    SELECT concat_ws('/', (SELECT system_identifier FROM pg_control_system()), current_database()) AS id`
  const [[there], [here]] = yield* Effect.all([identity(direct), identity(pooled)])
  if (there?.id !== here?.id) {
    return failed("DATABASE_URL and DATABASE_DIRECT_URL lead to different databases", "Correct one of them.")
  }
  const tables = (sql: SqlClient.SqlClient) => sql<{ found: boolean }>`
    SELECT to_regclass('applied_migrations') IS NOT NULL AS found`
  const [[fromServer], [fromPooler]] = yield* Effect.all([tables(direct), tables(pooled)])
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
    Effect.catchTag("LimiterUnavailable", () =>
      Effect.succeed(
        failed(
          `Redis does not answer (${host})`,
          "Check REDIS_URL, and that Redis runs and takes connections from here."
        )
      )
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
    Effect.provide(FetchHttpClient.layer)
  )
})

/** What may wait for an operator, in words, and the command that lists it. */
const kinds = {
  failing: ["endpoint that fails", "endpoints that fail", (id: string) => `\`${cli} webhooks list --project ${id}\``],
  dead: [
    "dead delivery",
    "dead deliveries",
    (id: string) => `\`${cli} deliveries list --project ${id} --status dead\``
  ],
  unsettled: [
    "message of unknown outcome",
    "messages of unknown outcome",
    (id: string) => `\`${cli} messages list --project ${id} --status unknown\``
  ]
} as const

/** Checks that no endpoint fails, and that no delivery or message waits for an operator or for a worker. */
export const work = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const stuck = yield* countStuck(sql)
  const failing = yield* listFailing(sql, 1)
  const abandoned = stuck.reduce((sum, { count, kind }) => sum + (kind === "abandoned" ? count : 0), 0)
  if (abandoned > 0) {
    return failed(
      `${plural(abandoned, "attempt was", "attempts were")} left by a process that died`,
      "Start a process with --role worker."
    )
  }
  const found = [
    ...failing.map(({ projectId, total }) => ({ kind: "failing", count: total, project: projectId }) as const),
    ...stuck
  ].flatMap(({ count, kind, project }) => {
    if (kind === "abandoned" || project === null) return []
    const [one, many, listIn] = kinds[kind]
    const least = count === (kind === "failing" ? failingMax : maxCount) ? "at least " : ""
    return [{ what: `${least}${plural(count, one, many)}`, command: listIn(project) }]
  })
  const commands = found.map(({ command }) => command).join(" and ")
  return found.length === 0
    ? ok("nothing waits for an operator")
    : warning(found.map(({ what }) => what).join(", "), `Run ${commands}; other projects may have some, too.`)
}).pipe(Effect.catchCause(failure("Read the database's log: deliveries and messages can't be counted.")))

/** A delivery that is due for longer is overdue, in seconds. */
const overdueAfter = 5

/** Checks that a worker runs, that none hangs, and that the deliveries that may be sent are sent. */
export const workers = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const live = yield* listWorkers(sql)
  const [first] = yield* listDue(sql, 1)
  const { behind = 0, oldestSeconds = 0 } = first ?? {}
  const isOverdue = oldestSeconds >= overdueAfter
  const queue = isOverdue ? `the oldest due delivery has waited ${Math.floor(oldestSeconds)} s` : "nothing is overdue"
  const start = "Start a process with --role worker or --role all."
  if (live.length === 0) {
    return isOverdue ? failed(`no worker runs; ${queue}`, start) : ok(`no worker runs now; ${queue}`)
  }
  const named = live.map(
    ({ host, id, role, silentSeconds, version }) =>
      `${id} (${role}, ${version}, on ${host}; last sign ${silentSeconds.toFixed(1)} s ago)`
  )
  const found = `${plural(live.length, "worker", "workers")}: ${named.join(", ")}; ${queue}`
  const hung = live.filter(({ isHung }) => isHung)
  if (hung.length > 0) {
    return failed(found, `Restart ${hung.map(({ host, id }) => `${id} on ${host}`).join(", ")}: it gives no sign.`)
  }
  return behind === 0 || first === undefined
    ? ok(found)
    : warning(
        `${found}; ${plural(behind, "endpoint is", "endpoints are")} behind, though no answer asks for a pause`,
        `Run \`${cli} webhooks list --project ${first.projectId}\`: an endpoint may be slow. Else start more workers.`
      )
}).pipe(Effect.catchCause(failure("Read the database's log: workers and deliveries can't be read.")))

/** Names the keys with the most refused requests. That is a matter of their callers, so it is no failure. */
export const requests = Effect.gen(function* () {
  const refused = yield* listRefused(yield* SqlClient.SqlClient)
  const named = refused.map(
    ({ count, keyId, keyName, projectId, status }) =>
      `${count} × ${status} of ${keyName} (${keyId}, project ${projectId})`
  )
  return ok(named.length === 0 ? "none was refused in the last day" : `refused in the last day: ${named.join(", ")}`)
}).pipe(Effect.catchCause(failure("Read the database's log: refused requests can't be read.")))

/** Checks that no key in use ends soon. */
export const tokens = Effect.gen(function* () {
  const ending = yield* listEnding(yield* SqlClient.SqlClient)
  const [first] = ending
  if (first === undefined) return ok("no key in use ends within 14 days")
  const { days, keyId, name, projectId } = first
  const least = ending.length === maxEnding ? "at least " : ""
  return warning(
    `${least}${plural(ending.length, "key", "keys")} in use end within 14 days: the first within ${plural(days, "day", "days")}, ${name} of project ${projectId}`,
    `Run \`${cli} token rotate --key ${keyId}\` and give the new token to its caller; \`${cli} token list --project ${projectId}\` shows others.`
  )
}).pipe(Effect.catchCause(failure("Read the database's log: keys can't be read.")))

/**
 * Checks that no project is being moved, and that no move has left a replication slot. PostgreSQL keeps its log for each slot until the
 * disk is full.
 */
export const moves = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const found = yield* slots(sql)
  const marked = yield* sql<{ projectId: string; state: State }>`
    SELECT project_id AS "projectId", move_state AS state FROM projects WHERE move_state IS NOT NULL
    ORDER BY project_id LIMIT ${maxMoves}::int`
  const named = found.map(
    ({ active, keeps, projectId, slot }) =>
      `${projectId === null ? `slot ${slot}` : `project ${projectId}`} (${active ? "copied now" : "not read"}, keeps ${Math.ceil(keeps / 1_000_000)} MB of the log)`
  )
  if (found.length === 0 && marked.length > 0) {
    const states = marked.map(({ projectId, state }) => `project ${projectId}: ${progressOf[state]}`)
    return warning(states.join(" "), "Run `project move` of each again, once the router leads to the other cell.")
  }
  if (found.length === 0) return ok("no project is being moved")
  if (found.every(({ active }) => active))
    return warning(`moving: ${named.join(", ")}`, "Nothing, while the moves run.")
  return failed(
    `left by a move: ${named.join(", ")}`,
    `Run the move again, or \`project move --abort\`; drop a slot without a project by pg_drop_replication_slot.`
  )
}).pipe(Effect.catchCause(failure("Read the database's log: the replication slots can't be read.")))
