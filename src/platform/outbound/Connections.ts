/** Connections of outbound requests. Each has an `undici` client of its own, and at most one request in flight. */
import { Effect } from "effect"
import { connect as overTcp, isIP, isIPv6, type LookupFunction, type Socket } from "node:net"
import { connect as overTls } from "node:tls"
import { Client } from "undici"
import { hostOf } from "./Host.ts"
import { skipInterim } from "./Interim.ts"

/** The phase of a connection, named by the error code of a failure in this phase. */
export type Phase = "connect_failed" | "dns_failed" | "tls_failed" | "connection_lost"

/** The target of requests. It is made once for many requests, because the getters of a URL make a new text at each access. */
export interface Destination {
  readonly url: URL
  /** The addresses to connect to, at least one. Undefined: the operating system resolves the host. */
  readonly addresses: ReadonlyArray<string> | undefined
  readonly origin: string
  readonly path: string
  /** Requests with the same key may share connections. */
  readonly key: string
}

/** `addresses` are ignored if the host of the URL is an address. */
export const destinationOf = (url: URL, addresses?: ReadonlyArray<string>): Destination => ({
  url,
  addresses,
  origin: url.origin,
  path: `${url.pathname}${url.search}`,
  key: `${url.origin} ${addresses?.join() ?? ""}`
})

/**
 * A client and its connection. undici opens the connection when a request is dispatched. If the connection has closed, the
 * next request opens another.
 */
export interface Connection {
  readonly client: Client
  readonly key: string
  /** Whether the connection stays open after the answer. */
  readonly isKept: boolean
  readonly state: {
    socket: Socket | undefined
    phase: Phase
    /** Number of requests that were answered on the current connection. */
    served: number
    /** Time at which the connection became idle, in milliseconds of `performance.now()`. */
    idleSince: number
    /** Makes the socket skip the interim answers of the next request. To be called before each request. */
    expectAnswer: () => void
  }
}

export interface Connections {
  /** Returns a connection without a request in flight. */
  readonly take: (to: Destination) => Connection
  /** Takes back a connection after a complete answer. */
  readonly keep: (connection: Connection) => void
}

/** Maximum size of an answer's header section, and of its trailers, in bytes. */
const headerLimit = 16_384

/** Time in ms that an address has before the next address is tried. The last address has the time until the deadline. */
const attemptTimeout = 1_000

/** Limits of idle connections: the time in ms, the number for each destination key, and the total number. */
const idleFor = 15_000
const idlePerOrigin = 8
const idleInAll = 256
/** Idle connections beyond these numbers are closed after this delay in ms. */
const trimAfter = 100

export const destroy = ({ client, state }: Connection): void => {
  // The socket is destroyed as well, because the client does not know a socket that is still connecting.
  state.socket?.destroy()
  void client.destroy()
}

export const freshConnections: Connections = { take: (to) => open(to, false), keep: destroy }

/**
 * Keeps idle connections for later requests to the same origin at the same addresses. All connections are closed with the scope.
 */
export const keptConnections = Effect.acquireRelease(
  Effect.sync(() => {
    const idle = new Map<string, Array<Connection>>()
    const all = new Set<Connection>()

    const forget = (connection: Connection) => {
      all.delete(connection)
      const list = idle.get(connection.key)
      const index = list?.indexOf(connection) ?? -1
      if (list === undefined || index < 0) return
      list.splice(index, 1)
      if (list.length === 0) idle.delete(connection.key)
    }

    const end = (connection: Connection) => {
      forget(connection)
      destroy(connection)
    }

    /** Closes idle connections beyond the limits. Of each destination, the least recently used connections are closed first. */
    const trim = () => {
      trimming = undefined
      const before = performance.now() - trimAfter
      const old = [...idle.values()].flatMap((list) => list.slice(0, -idlePerOrigin))
      for (const connection of old) if (connection.state.idleSince <= before) end(connection)
      const rest = [...idle.values()].flat()
      for (const connection of rest.slice(0, Math.max(0, rest.length - idleInAll))) end(connection)
      if (isSurplus()) trimming = setTimeout(trim, trimAfter).unref()
    }
    let trimming: NodeJS.Timeout | undefined
    const isSurplus = () => idle.values().some((list) => list.length > idlePerOrigin)

    const connections: Connections = {
      take: (to) => {
        const list = idle.get(to.key)
        const kept = list?.pop()
        if (list !== undefined && kept !== undefined) {
          if (list.length === 0) idle.delete(to.key)
          return kept
        }
        const connection = open(to, true)
        all.add(connection)
        connection.client.on("disconnect", () => forget(connection))
        return connection
      },
      keep: (connection) => {
        if (!all.has(connection)) return destroy(connection)
        const list = idle.get(connection.key) ?? []
        if (list.push(connection) === 1) idle.set(connection.key, list)
        connection.state.idleSince = performance.now()
        // Connections beyond the limits are closed later, because answers arrive in bursts and most connections are reused at
        // once.
        if (list.length > idlePerOrigin || idle.size * idlePerOrigin > idleInAll) {
          trimming ??= setTimeout(trim, trimAfter).unref()
        }
      }
    }
    return { connections, all }
  }),
  ({ all }) => Effect.sync(() => all.forEach(destroy))
).pipe(Effect.map(({ connections }) => connections))

const open = ({ addresses, key, origin, url }: Destination, isKept: boolean): Connection => {
  const state: Connection["state"] = {
    socket: undefined,
    phase: "connect_failed",
    served: 0,
    idleSince: 0,
    expectAnswer: () => {}
  }
  const client = new Client(origin, {
    pipelining: 1,
    allowH2: false,
    keepAliveTimeout: idleFor,
    headersTimeout: 0,
    bodyTimeout: 0,
    maxHeaderSize: headerLimit,
    connect: (_, callback) => {
      const socket = connect(url, addresses)
      Object.assign(state, { socket, phase: "connect_failed", served: 0, expectAnswer: skipInterim(socket) })
      let waiting = true
      socket
        .once("lookup", (error) => {
          if (error !== null) state.phase = "dns_failed"
        })
        .once("connect", () => {
          state.phase = url.protocol === "https:" ? "tls_failed" : "connection_lost"
        })
        .once(url.protocol === "https:" ? "secureConnect" : "connect", () => {
          state.phase = "connection_lost"
          waiting = false
          callback(null, socket)
        })
        // An error after the callback is handled by the client's own listeners.
        .on("error", (error) => {
          if (waiting) callback(error, null)
          waiting = false
        })
    }
  })
  return { client, key, isKept, state }
}

const connect = (url: URL, addresses: ReadonlyArray<string> | undefined): Socket => {
  const host = hostOf(url)
  const options = {
    host,
    noDelay: true,
    autoSelectFamily: true,
    autoSelectFamilyAttemptTimeout: attemptTimeout,
    ...(addresses === undefined ? {} : { lookup: pinned(addresses) })
  }
  if (url.protocol === "http:") return overTcp({ ...options, port: Number(url.port || 80) })
  // A TLS server name has no trailing dot and is not an address (RFC 6066, section 3).
  const servername = isIP(host) === 0 ? host.replace(/\.$/, "") : ""
  return overTls({ ...options, port: Number(url.port || 443), servername, ALPNProtocols: ["http/1.1"] })
}

const pinned =
  (addresses: ReadonlyArray<string>): LookupFunction =>
  (_, __, callback) =>
    callback(
      null,
      addresses.map((address) => ({ address, family: isIPv6(address) ? 6 : 4 }))
    )
