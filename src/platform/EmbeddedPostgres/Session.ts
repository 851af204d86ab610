import { PgConnection } from "@effect/sql-pg"
import { Effect, Redacted, Schedule, type Scope } from "effect"
import type { SqlError } from "effect/sql"
import type { Cluster } from "./Cluster.ts"
import { EmbeddedPostgresError } from "./EmbeddedPostgresError.ts"
import type { Server } from "./Postmaster.ts"

const database = "developer_api"

/** Returns the URL of the database for clients. */
export const url = (cluster: Cluster, server: Server): Redacted.Redacted =>
  Redacted.make(`postgres://postgres:${Redacted.value(cluster.password)}@127.0.0.1:${server.port}/${database}`)

/** Opens a session for the lifetime of the scope. It shows other processes that the server is in use. */
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
      // Another process may have created it first.
      Effect.catch((error) => Effect.flatMap(exists, (created) => (created ? Effect.void : Effect.fail(error))))
    )
  },
  Effect.mapError((error) => refused("PostgreSQL could not create the database", error))
)

const leaving = "developer-api: leaving"

/** Whether another process is connected. Two processes that leave at the same moment do not count each other. */
export const isUsedByOthers = Effect.fnUntraced(
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
  // The server takes a moment to notice that sessions of this process have ended.
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
