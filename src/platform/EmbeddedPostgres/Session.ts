import { PgConnection } from "@effect/sql-pg"
import { Effect, Redacted, Schedule, type Scope } from "effect"
import type { SqlError } from "effect/sql"
import type { Cluster } from "./Cluster.ts"
import { EmbeddedPostgresError } from "./EmbeddedPostgresError.ts"
import type { Server } from "./Postmaster.ts"

const database = "developer_api"

/** Where clients find the database. */
export const url = (cluster: Cluster, server: Server): Redacted.Redacted =>
  Redacted.make(`postgres://postgres:${Redacted.value(cluster.password)}@127.0.0.1:${server.port}/${database}`)

/** A session that stays open until the scope closes: it tells other processes that somebody is here. */
export const join = (
  cluster: Cluster,
  server: Server
): Effect.Effect<PgConnection.PgConnection, EmbeddedPostgresError, Scope.Scope> =>
  open(cluster, server, "developer-api: present")

/** Creates the application's database if it is missing. */
export const createDatabase = Effect.fnUntraced(
  function* (session: PgConnection.PgConnection) {
    const exists = session
      .query("select from pg_database where datname = $1", [database])
      .pipe(Effect.map(({ rowCount }) => rowCount > 0))
    if (yield* exists) return
    yield* session.query(`create database ${database}`, [], false).pipe(
      // Another process may have been faster.
      Effect.catch((error) => Effect.flatMap(exists, (created) => (created ? Effect.void : Effect.fail(error))))
    )
  },
  Effect.mapError((error) => refused("PostgreSQL could not create the database", error))
)

const leaving = "developer-api: leaving"

/** Whether anybody else is connected. Two that leave at the same moment do not take each other for somebody. */
export const othersPresent = Effect.fnUntraced(
  function* (cluster: Cluster, server: Server) {
    const session = yield* open(cluster, server, leaving)
    const { rowCount } = yield* session
      .query(
        `select from pg_stat_activity
         where backend_type = 'client backend' and pid <> pg_backend_pid() and application_name <> $1 limit 1`,
        [leaving]
      )
      .pipe(Effect.mapError((error) => refused("PostgreSQL did not tell who is connected", error)))
    return rowCount > 0
  },
  Effect.scoped,
  // The server takes a moment to notice that sessions of ours, closed just before, have ended.
  Effect.repeat({ while: (present) => present, schedule: Schedule.spaced("50 millis"), times: 10 })
)

const open = (cluster: Cluster, server: Server, applicationName: string) =>
  PgConnection.make({
    host: "127.0.0.1",
    port: server.port,
    ssl: false,
    username: "postgres",
    password: cluster.password,
    database: "postgres",
    applicationName
  }).pipe(Effect.mapError((error) => refused(`Cannot connect to PostgreSQL on port ${server.port}`, error)))

const refused = (what: string, error: SqlError.SqlError) =>
  error.reason._tag === "AuthenticationError"
    ? new EmbeddedPostgresError({ reason: "Failed", message: `${what}: ${error.message}`, cause: error })
    : new EmbeddedPostgresError({ reason: "Busy", message: `${what}: ${error.message}`, cause: error })
