/** Sessions of the processes that share the embedded PostgreSQL. They show that the server is in use. */
import { PgConnection } from "@effect/sql-pg"
import { Effect, Redacted, Schedule, type Scope } from "effect"
import type { SqlError } from "effect/sql"
import type { Cluster } from "./Cluster.ts"
import { EmbeddedPostgresError } from "./Processes.ts"

/** A server that accepts connections on 127.0.0.1. */
export interface Server {
  readonly pid: number
  readonly port: number
}

const database = "developer_api"
const present = "developer-api: present"
const leaving = "developer-api: leaving"

/** Returns the URL of the database for clients. */
export const url = ({ password }: Cluster, { port }: Server): Redacted.Redacted =>
  Redacted.make(`postgres://postgres:${Redacted.value(password)}@127.0.0.1:${port}/${database}`)

/**
 * Opens a session for the lifetime of the scope. It shows other processes that the server is in use. Before it closes it is
 * renamed, as the server takes a moment to notice that a session has ended.
 */
export const join = Effect.fnUntraced(function* (
  cluster: Cluster,
  server: Server
): Effect.fn.Return<PgConnection.PgConnection, EmbeddedPostgresError, Scope.Scope> {
  const session = yield* open(cluster, server, present)
  const leave = session.query("select set_config('application_name', $1, false)", [leaving])
  yield* Effect.addFinalizer(() => leave.pipe(Effect.timeoutOption("1 second"), Effect.ignore))
  return session
})

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

/**
 * Whether another process is connected. Two processes that leave at the same moment do not count each other, as each has
 * renamed its session before it asks.
 */
export const isUsedByOthers = Effect.fnUntraced(
  function* (cluster: Cluster, server: Server) {
    const session = yield* open(cluster, server, leaving)
    const others = `select from pg_stat_activity
      where backend_type = 'client backend' and pid <> pg_backend_pid() and application_name <> $1`
    const count = (condition: string, names: ReadonlyArray<string>) =>
      Effect.map(session.query(`${others}${condition} limit 1`, names), ({ rowCount }) => rowCount)
    if ((yield* count(" and application_name = $2", [leaving, present])) > 0) return true
    // Sessions of other programs count, but the server takes a moment to notice that sessions of this process have ended.
    const isConnected = Effect.map(count("", [leaving]), (found) => found > 0)
    return yield* Effect.repeat(isConnected, {
      while: (connected) => connected,
      schedule: Schedule.spaced("50 millis"),
      times: 10
    })
  },
  Effect.mapError((error) =>
    error instanceof EmbeddedPostgresError ? error : refused("PostgreSQL did not list its sessions", error)
  ),
  Effect.scoped
)

/** Whether PostgreSQL answers on the port, even if it refuses the password. */
export const answers = (cluster: Cluster, server: Server): Effect.Effect<boolean> =>
  open(cluster, server, leaving).pipe(
    Effect.scoped,
    Effect.match({ onSuccess: () => true, onFailure: ({ reason }) => reason === "Failed" })
  )

const open = ({ password }: Cluster, { port }: Server, applicationName: string) =>
  PgConnection.make({
    host: "127.0.0.1",
    port,
    ssl: false,
    username: "postgres",
    password,
    database: "postgres",
    applicationName
  }).pipe(Effect.mapError((error) => refused(`Cannot connect to PostgreSQL on port ${port}`, error)))

const refused = (what: string, error: SqlError.SqlError) =>
  new EmbeddedPostgresError({
    reason: error.reason._tag === "AuthenticationError" ? "Failed" : "Busy",
    message: `${what}: ${error.message}`,
    cause: error
  })
