/**
 * Provides the URL of PostgreSQL and the clients of the pools (`platform/Pools.ts`). Their connections are counted, and are closed
 * when the server no longer answers.
 */
import { PgClient } from "@effect/sql-pg"
import { Context, Duration, Effect, Layer, Metric, Option, Redacted } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import { unescape } from "node:querystring"
import { EmbeddedPostgres } from "./embedded/EmbeddedPostgres.ts"
import * as Client from "./Client.ts"
import { requestTimeout } from "./Database.ts"
import {
  defaultConnections,
  inFlightOf,
  modeOf,
  optionsOf,
  type Pool,
  type PoolId,
  pools,
  sizesOf
} from "../platform/Pools.ts"
import { Settings } from "../platform/Settings.ts"
import { connect, type Socket } from "node:net"
import { gauge, MetricsEnabled } from "../telemetry/Telemetry.ts"

const unset = () => ({ directUrl: Option.none(), max: defaultConnections, sockets: makeSockets() })

/** Settings of the connections in addition to `DatabaseUrl`. */
const Connections = Context.Reference<{
  /** The URL of PostgreSQL itself, if `DatabaseUrl` is a pooler. */
  readonly directUrl: Option.Option<Redacted.Redacted>
  /** Maximum number of connections, over all pools. */
  readonly max: number
  readonly sockets: Sockets
}>("developer-api-service/sql/Connections", {
  defaultValue: unset
})

/** The URL of the database: `DATABASE_URL`, or the URL of the embedded PostgreSQL. The layers also provide `Connections`. */
export class DatabaseUrl extends Context.Service<DatabaseUrl, Redacted.Redacted>()(
  "developer-api-service/sql/Connections/DatabaseUrl"
) {
  /** Provides a database other than the one in the settings. */
  static readonly at = (url: Redacted.Redacted) =>
    Layer.merge(Layer.succeed(DatabaseUrl, url), Layer.sync(Connections, unset))

  /** Without `mayCreate` an embedded database has to exist. */
  static readonly layer = (usedBy: "service" | "command", mayCreate = true) =>
    Layer.unwrap(
      Effect.map(Settings, ({ dataDir, databaseDirectUrl, databaseMaxConnections, databaseUrl }) =>
        Option.match(databaseUrl, {
          onSome: (url) => Layer.succeed(DatabaseUrl, url),
          onNone: () =>
            Layer.effect(
              DatabaseUrl,
              Effect.map(EmbeddedPostgres, ({ url }) => url)
            ).pipe(Layer.provide(EmbeddedPostgres.layer({ directory: dataDir, usedBy, mayCreate })))
        }).pipe(
          Layer.merge(
            Layer.sync(Connections, () => ({
              directUrl: databaseDirectUrl,
              max: databaseMaxConnections,
              sockets: makeSockets()
            }))
          )
        )
      )
    )
}

/**
 * Time without an answer after which a connection counts as dead, for pools that set no time of their own. It is longer than the
 * `statement_timeout` of those pools.
 */
const deadAfter = Duration.seconds(5)

/**
 * Returns the driver's options for a pool: the address, and over TCP a `stream` that counts connections, ends dead ones, and can
 * end all of them.
 */
const addressOf = Effect.fnUntraced(function* (url: Redacted.Redacted, id: PoolId, limit: Duration.Duration | null) {
  const { hostname, pathname, port, searchParams } = new URL(Redacted.value(url))
  const server = { host: hostname.replace(/^\[(.*)\]$/, "$1"), port: Number(port || 5432) }
  const { max, sockets } = yield* Connections
  const counted = yield* countConnections(pools[id].name, sizesOf(max)[id])
  return {
    url,
    connectTimeout: requestTimeout,
    // The URL also contains the database, but the driver copies only separate options into the spans of statements.
    database: searchParams.get("dbname") ?? (unescape(pathname.slice(1)) || undefined),
    // A URL without a host names a Unix socket. It needs no watching, because its server is on this machine.
    ...(hostname === ""
      ? {}
      : { ...server, stream: () => sockets.add(counted(watchedSocket(server.host, server.port, limit))) })
  }
})

/**
 * Provides a client with one connection of the pool `direct`, which counts as dead after `deadAfter` without an answer (null:
 * never). The client connects to PostgreSQL itself even if there is a pooler.
 */
const direct = (deadAfter: Duration.Duration | null) =>
  Layer.unwrap(
    Effect.gen(function* () {
      const { directUrl } = yield* Connections
      const pooled = yield* DatabaseUrl
      const address = yield* addressOf(
        Option.getOrElse(directUrl, () => pooled),
        "direct",
        deadAfter
      )
      return PgClient.layer({ ...address, ...optionsOf(pools.direct, 1, "plain") })
    })
  )

/** Provides the client of a pool whose statements need no session. The client connects to the pooler if there is one. */
const client = (id: Exclude<PoolId, "direct">): Layer.Layer<SqlClient.SqlClient, SqlError.SqlError, DatabaseUrl> =>
  Layer.unwrap(
    Effect.gen(function* () {
      const { directUrl, max, sockets } = yield* Connections
      const pool: Pool = pools[id]
      const mode = modeOf(pool, Option.isSome(directUrl))
      const address = yield* addressOf(yield* DatabaseUrl, id, pool.deadAfter ?? deadAfter)
      const options = optionsOf(pool, sizesOf(max)[id], mode)
      return Client.layer(pool, { ...address, ...options, mode, onStandby: sockets.replace })
    })
  )

/** Returns the maximum number of statements that a pool has in flight. */
export const capacityOf = (id: PoolId): Effect.Effect<number> =>
  Effect.map(Connections, ({ directUrl, max }) => {
    const pool: Pool = pools[id]
    return sizesOf(max)[id] * inFlightOf(pool, modeOf(pool, Option.isSome(directUrl)))
  })

export const sqlClients = {
  reads: client("reads"),
  mutations: client("mutations"),
  workers: client("workers"),
  reports: client("reports"),
  // PostgreSQL answers the statements of the listener at once. While a connection only listens, no answer is due.
  listener: direct(Duration.seconds(2)),
  worker: direct(deadAfter),
  operator: direct(null)
}

const tick = Duration.seconds(1)

/**
 * Time without traffic after which TCP sends keepalive probes, one per second. The connection ends after ten probes without an
 * answer. So a connection that only listens (LISTEN) ends, too, after a network has dropped it.
 */
const keepAliveAfter = Duration.seconds(10)

/** Time in which the server has to close a connection that the client has ended. */
const closeTimeout = Duration.millis(250)

/** The open connections of a process to one database. */
interface Sockets {
  readonly add: (socket: Socket) => Socket
  /**
   * Destroys the connections that were opened more than a second ago. Newer ones stay: while an address leads to a standby only,
   * they serve reads until another second has passed.
   */
  readonly replace: () => void
}

const makeSockets = (): Sockets => {
  const open = new Map<Socket, number>()
  return {
    add: (socket) => {
      open.set(socket, performance.now())
      return socket.once("close", () => void open.delete(socket))
    },
    replace: () => {
      const before = performance.now() - Duration.toMillis(tick)
      for (const [socket, openedAt] of open) {
        if (openedAt < before) socket.destroy(new Error("The server of this connection is a standby"))
      }
    }
  }
}

/**
 * Connects, and destroys the connection when a write has had no answer for `deadAfter` (null: no limit). After a failover
 * without a TCP reset, TCP alone would retransmit for a quarter of an hour. If the server does not close a connection that the
 * client has ended, the connection is destroyed after `closeTimeout`. Otherwise a server that hangs would keep this process from
 * exiting.
 */
export const watchedSocket = (host: string, port: number, deadAfter: Duration.Duration | null): Socket => {
  const keepAliveInitialDelay = Duration.toMillis(keepAliveAfter)
  const socket = connect({ host, port, noDelay: true, keepAlive: true, keepAliveInitialDelay })
  socket.once("finish", () => {
    setTimeout(() => socket.destroy(), Duration.toMillis(closeTimeout)).unref()
  })
  if (deadAfter !== null) watch(socket, deadAfter)
  return socket
}

/**
 * Destroys the connection if no bytes are read for `deadAfter` after bytes were written. The bytes are those of TCP, with or
 * without TLS.
 */
const watch = (socket: Socket, deadAfter: Duration.Duration) => {
  const ticks = Duration.toMillis(deadAfter) / Duration.toMillis(tick)
  let answered = { read: 0, written: 0 }
  let unanswered = 0
  const watching = setInterval(() => {
    if (socket.bytesRead !== answered.read || socket.bytesWritten === answered.written) {
      answered = { read: socket.bytesRead, written: socket.bytesWritten }
      unanswered = 0
    } else if (++unanswered > ticks) {
      socket.destroy(new Error("The database does not answer"))
    }
  }, Duration.toMillis(tick)).unref()
  socket.once("close", () => clearInterval(watching))
}

const connections = gauge("db_client_connection_count", "Open connections, by pool")
const maxConnections = gauge("db_client_connection_max", "Maximum number of connections of a pool")

/** The answer of a server without TLS to a request for it, which comes before the session. */
const refusesTls = (chunk: Buffer) => chunk.length === 1 && chunk[0] === 0x4e

/**
 * A connection counts once the server has answered. A request to cancel a statement has a connection of its own, which is no session
 * and, without TLS, gets no answer.
 */
const countConnections = Effect.fnUntraced(function* (pool: string, max: number) {
  if (!(yield* MetricsEnabled)) return (connection: Socket) => connection
  const context = yield* Effect.context<never>()
  const attributes = { "db.client.connection.pool.name": pool }
  const open = Metric.withAttributes(connections, attributes)
  yield* Metric.update(Metric.withAttributes(maxConnections, attributes), max)
  return (connection: Socket) => {
    const count = (chunk: Buffer) => {
      if (refusesTls(chunk)) return
      connection.off("data", count)
      open.modifyUnsafe(1, context)
      let isOpen = true
      const end = () => {
        if (isOpen) open.modifyUnsafe(-1, context)
        isOpen = false
      }
      connection.once("finish", end).once("close", end)
    }
    return connection.on("data", count)
  }
})
