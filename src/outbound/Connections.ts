/**
 * Connections of outbound requests, by undici. The addresses of a host are looked up and checked once for each connection, which is
 * made to one of them. `listening` has the ports of this process, which no tenant may call by a webhook.
 */
import { Cache, Cause, Clock, Data, Duration, Effect, Exit, Option, Predicate } from "effect"
import { connect as overTcp, isIP, isIPv6, type LookupFunction, type Socket } from "node:net"
import { connect as overTls } from "node:tls"
import { type buildConnector, Client } from "undici"
import { lookup as askSystem, Resolver } from "node:dns/promises"
import { monotonicClock } from "../platform/MonotonicTime.ts"

export class ConnectFailed extends Data.TaggedError("ConnectFailed")<{
  readonly code: "address_refused" | "connect_failed" | "dns_failed" | "host_exhausted" | "tls_failed"
}> {}

/** Errors of this host, which lacks file descriptors, ports or memory: they say nothing about the other side. */
const exhausted = new Set(["EMFILE", "ENFILE", "ENOBUFS", "EADDRNOTAVAIL", "ENOMEM"])

/** Whether this host is the reason why no connection was made. EADDRNOTAVAIL of an IPv6 address may also mean that there is no IPv6. */
const isExhausted = (error: NodeJS.ErrnoException): boolean =>
  error instanceof AggregateError
    ? error.errors.every(isExhausted)
    : exhausted.has(error.code ?? "") &&
      !(error.code === "EADDRNOTAVAIL" && Predicate.hasProperty(error, "address") && isIPv6(String(error.address)))

interface Target {
  /** A name, or an address without brackets. */
  readonly host: string
  readonly port: number
  readonly protocol: string
}

/** Returns the addresses of a host that may be connected to, at least one, in the order in which they are tried. */
export type FindAddresses = (target: Target) => Effect.Effect<ReadonlyArray<string>, ConnectFailed | NameUnresolved>

/** A connection to an origin, with at most one request in flight: a client of undici, which replaces a socket that has ended. */
export class Connection extends Client {
  /** Where the connection waits for its next request. Undefined: it ends with the first answer. */
  idle: IdleConnections | undefined
  origin = ""
  /** The socket. It stays here after its end, until there is another one. */
  socket: Socket | undefined
  /** The address to which the socket is connected. */
  address = ""
  /** Time at which the socket was connected. Monotonic, in milliseconds. */
  openedAt = 0
  /** Number of requests that were answered on the socket. */
  served = 0
  /** Number of bytes that may have been read from the socket at the end of the current request. */
  readUpTo = 0
  /** The current request. `overflow` is called when more bytes arrive than may be read. */
  handler: { readonly overflow: () => void } | undefined
  /** Ends the attempt to connect. */
  giveUp = () => {}

  /** Waits for the next request, or ends. */
  rest() {
    // If the answer came before the whole request was written, the rest is still in the socket.
    const isUsable = this.socket?.writableLength === 0 && performance.now() - this.openedAt < usedFor
    if (isUsable && this.idle !== undefined && this.idle.size < maxIdle) this.idle.add(this)
    else this.socket?.destroy()
  }
}

/** Waiting connections by origin. The one that served last serves next, so that surplus connections stay idle until they end. */
class IdleConnections {
  readonly byOrigin = new Map<string, Array<Connection>>()
  size = 0

  add(connection: Connection) {
    const connections = this.byOrigin.get(connection.origin)
    if (connections === undefined) this.byOrigin.set(connection.origin, [connection])
    else connections.push(connection)
    this.size++
  }

  take(origin: string) {
    const connection = this.byOrigin.get(origin)?.pop()
    if (connection !== undefined) this.size--
    return connection
  }

  /** Removes a connection that has ended, also if it does not wait. */
  remove(connection: Connection) {
    const connections = this.byOrigin.get(connection.origin) ?? []
    const others = connections.filter((one) => one !== connection)
    this.size -= connections.length - others.length
    if (others.length > 0) this.byOrigin.set(connection.origin, others)
    else this.byOrigin.delete(connection.origin)
  }
}

/** Returns the connection for a request to an origin. */
export type Connections = (origin: string) => Connection

/** Maximum size of an answer's header section, and of its trailers, in bytes. */
export const headerLimit = 16_384

/** Time in ms that an address has before the next address is tried. The last address has the time until the deadline. */
const attemptTimeout = 1_000

/** Time in ms after which an idle connection ends, also if its server offers to keep it longer. */
const idleFor = 15_000

/**
 * Time in ms after which a connection ends with its next answer, so that it does not outlive a change of its host's addresses for long:
 * a request is sent on a connection that is at most 45 s old.
 */
const usedFor = 30_000

/** Maximum number of idle connections. */
const maxIdle = 512

/** Makes connections that each take one request. With `idle`, they wait there for later requests to the same origin. */
export const makeConnections =
  (find: FindAddresses, idle?: IdleConnections): Connections =>
  (origin) =>
    idle?.take(origin) ?? connectionTo(origin, find, idle)

/** Makes a place for connections that wait. It closes them with the scope. */
export const makeIdleConnections = Effect.acquireRelease(
  Effect.sync(() => new IdleConnections()),
  ({ byOrigin }) => Effect.promise(() => Promise.all([...byOrigin.values()].flat().map((one) => one.destroy())))
)

const connectionTo = (origin: string, find: FindAddresses, idle?: IdleConnections): Connection => {
  const connection: Connection = new Connection(origin, {
    pipelining: 1,
    allowH2: false,
    keepAliveTimeout: idleFor,
    keepAliveMaxTimeout: idleFor,
    headersTimeout: 0,
    bodyTimeout: 0,
    maxHeaderSize: headerLimit,
    connect: (to, callback) => open(connection, find, to, callback)
  })
  connection.origin = origin
  connection.idle = idle
  if (idle !== undefined) connection.on("disconnect", () => idle.remove(connection))
  return connection
}

const open = (
  connection: Connection,
  find: FindAddresses,
  to: buildConnector.Options,
  callback: buildConnector.Callback
) => {
  const port = Number(to.port || (to.protocol === "https:" ? 443 : 80))
  const target = { host: to.hostname, port, protocol: to.protocol }
  connection.giveUp = Effect.runCallback(
    find(target).pipe(
      Effect.catchTag("NameUnresolved", ({ code }) =>
        Effect.fail(new ConnectFailed({ code: exhausted.has(code) ? "host_exhausted" : "dns_failed" }))
      ),
      Effect.flatMap((addresses) => established(target, addresses))
    ),
    {
      onExit: Exit.match({
        onFailure: (cause) => callback(Option.getOrElse(Cause.findErrorOption(cause), abandoned), null),
        onSuccess: (socket) => {
          Object.assign(connection, { socket, address: socket.remoteAddress ?? "", served: 0, readUpTo: headerLimit })
          connection.openedAt = performance.now()
          // This listener precedes undici's own.
          socket.on("readable", () => {
            if (socket.bytesRead <= connection.readUpTo) return
            if (connection.handler === undefined) socket.destroy()
            else connection.handler.overflow()
          })
          callback(null, socket)
        }
      })
    }
  )
}

const abandoned = () => new ConnectFailed({ code: "connect_failed" })

/** Connects, including TLS. */
const established = (target: Target, addresses: ReadonlyArray<string>) =>
  Effect.callback<Socket, ConnectFailed>((resume) => {
    const isSecure = target.protocol === "https:"
    const socket = connect(target, addresses, isSecure)
    let code: ConnectFailed["code"] = "connect_failed"
    const fail = (error: Error) =>
      resume(Effect.fail(new ConnectFailed({ code: isExhausted(error) ? "host_exhausted" : code })))
    socket
      .on("error", fail)
      .once("connect", () => {
        if (isSecure) code = "tls_failed"
      })
      .once(isSecure ? "secureConnect" : "connect", () => {
        socket.off("error", fail)
        resume(Effect.succeed(socket))
      })
    return Effect.sync(() => socket.destroy())
  })

const connect = ({ host, port }: Target, addresses: ReadonlyArray<string>, isSecure: boolean): Socket => {
  const pinned = addresses.map((address) => ({ address, family: isIPv6(address) ? 6 : 4 }))
  const lookup: LookupFunction = (_, __, callback) => callback(null, pinned)
  const options = {
    host,
    port,
    noDelay: true,
    lookup,
    autoSelectFamily: true,
    autoSelectFamilyAttemptTimeout: attemptTimeout
  }
  if (!isSecure) return overTcp(options)
  // A TLS server name has no trailing dot and is not an address (RFC 6066, section 3).
  const servername = isIP(host) === 0 ? host.replace(/\.$/, "") : ""
  return overTls({ ...options, servername, ALPNProtocols: ["http/1.1"] })
}

/** Returns the host of a URL: a name, or an address in canonical form without brackets. */
export const hostOf = ({ hostname }: URL): string => hostname.replace(/^\[|\]$/g, "")

/** Whether a name is this machine's by RFC 6761: `localhost`, or below it. */
export const isLocalhost = (name: string): boolean => /^(?:.*\.)?localhost\.?$/i.test(name)

/** The name has no address, or no resolver has answered. */
export class NameUnresolved extends Data.TaggedError("NameUnresolved")<{ readonly code: string }> {}

/** Resolves a host to all its IPv4 and IPv6 addresses, at least one, IPv4 first. An address resolves to itself. */
export type Resolve = (name: string) => Effect.Effect<ReadonlyArray<string>, NameUnresolved>

/**
 * Asks DNS. What DNS does not find (names of the hosts file, search domains, mDNS), and localhost, is asked of the system. DNS is
 * asked by c-ares, because its queries have a timeout and can be cancelled, whereas getaddrinfo occupies one of few threads: a server
 * that hangs must not delay the names of others. `servers` (`address:port`) replace the DNS servers of the system.
 */
export const resolveName =
  (servers?: ReadonlyArray<string>): Resolve =>
  (name) => {
    if (isIP(name) !== 0) return Effect.succeed([name])
    return isLocalhost(name)
      ? fromSystem("localhost")
      : Effect.catchIf(
          fromDns(name, servers),
          ({ code }) => notFound.has(code),
          () => fromSystem(name)
        )
  }

/**
 * Caches addresses for 5 s. Concurrent look-ups of a name share one query, which is cancelled when no caller waits for it.
 * Failures are not cached.
 */
export const cacheAddresses = Effect.fnUntraced(function* (resolve: Resolve): Effect.fn.Return<Resolve> {
  const clock = monotonicClock(yield* Clock.Clock)
  const cache = yield* Cache.makeWith(resolve, {
    capacity: 10_000,
    timeToLive: (found) => (Exit.isSuccess(found) ? Duration.seconds(5) : Duration.zero)
  })
  return (name) => Effect.provideService(Cache.get(cache, name), Clock.Clock, clock)
})

/** Codes of DNS failures: no such name, no address, no DNS name, no DNS server. */
const notFound = new Set(["ENOTFOUND", "ENODATA", "EBADNAME", "ECONNREFUSED"])

const fromDns = (name: string, servers: ReadonlyArray<string> | undefined) =>
  Effect.callback<ReadonlyArray<string>, NameUnresolved>((resume) => {
    // One resolver for each name, because a cancellation ends all queries of a resolver.
    const resolver = new Resolver({ timeout: 1_000, tries: 2 })
    if (servers !== undefined) resolver.setServers(servers)
    void Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)]).then((answers) => {
      const failures = answers.flatMap((answer) => (answer.status === "rejected" ? [unresolved(answer.reason)] : []))
      const failure = failures.find(({ code }) => !notFound.has(code))
      resume(
        found(
          answers.flatMap((answer) => (answer.status === "fulfilled" ? answer.value : [])),
          failure
        )
      )
    })
    return Effect.sync(() => resolver.cancel())
  })

const fromSystem = (name: string) =>
  Effect.tryPromise({ try: () => askSystem(name, { all: true }), catch: unresolved }).pipe(
    Effect.flatMap((addresses) => found(addresses.map(({ address }) => address)))
  )

const unresolved = (cause: unknown) =>
  new NameUnresolved({ code: Predicate.hasProperty(cause, "code") ? String(cause.code) : "EUNKNOWN" })

/** Puts IPv4 addresses first, because some networks have no IPv6. */
const found = (addresses: ReadonlyArray<string>, failure = new NameUnresolved({ code: "ENOTFOUND" })) =>
  addresses.length > 0 ? Effect.succeed(addresses.toSorted((a, b) => isIP(a) - isIP(b))) : Effect.fail(failure)

/** The ports on which this process listens. */
export const listening = new Set<number>()

/** Notes that this process listens on a port, until the scope ends. */
export const listensOn = (port: number) =>
  Effect.acquireRelease(
    Effect.sync(() => listening.add(port)),
    () => Effect.sync(() => listening.delete(port))
  )
