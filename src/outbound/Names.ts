/** Host names of outbound calls, and their addresses; and the ports of this service on this machine, which tenants must not have called. */
import { Cache, Clock, Data, Duration, Effect, Exit, Option, Predicate, Redacted } from "effect"
import { lookup, Resolver } from "node:dns/promises"
import { isIP } from "node:net"
import { monotonicClock } from "../platform/MonotonicTime.ts"
import { networkInterfaces } from "node:os"
import type { Settings } from "../platform/Settings.ts"

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
  Effect.tryPromise({ try: () => lookup(name, { all: true }), catch: unresolved }).pipe(
    Effect.flatMap((addresses) => found(addresses.map(({ address }) => address)))
  )

const unresolved = (cause: unknown) =>
  new NameUnresolved({ code: Predicate.hasProperty(cause, "code") ? String(cause.code) : "EUNKNOWN" })

/** Puts IPv4 addresses first, because some networks have no IPv6. */
const found = (addresses: ReadonlyArray<string>, failure = new NameUnresolved({ code: "ENOTFOUND" })) =>
  addresses.length > 0 ? Effect.succeed(addresses.toSorted((a, b) => isIP(a) - isIP(b))) : Effect.fail(failure)

const listening = new Set<number>()

/** Notes that this process listens on a port, until the scope ends. */
export const listensOn = (port: number) =>
  Effect.acquireRelease(
    Effect.sync(() => listening.add(port)),
    () => Effect.sync(() => listening.delete(port))
  )

/**
 * Returns whether a port is one on which this process listens, or which the settings name: another process of this machine may be the
 * one that listens there.
 */
export const ownPorts = (settings: Settings["Service"]): ((port: number) => boolean) => {
  const urls = [settings.databaseUrl, settings.databaseDirectUrl, settings.redisUrl].flatMap(Option.toArray)
  const named = new Set([
    settings.port,
    ...[settings.adminPort, settings.metricsPort].flatMap(Option.toArray),
    ...urls.map((url) => {
      const { port, protocol } = new URL(Redacted.value(url))
      return Number(port || (protocol.startsWith("redis") ? 6379 : 5432))
    })
  ])
  return (port) => named.has(port) || listening.has(port)
}

/** Returns the networks whose addresses reach this machine: its own addresses, loopback, and what systems take for loopback. */
export const ownNetworks = (): ReadonlyArray<string> => [
  "0.0.0.0/8",
  "127.0.0.0/8",
  "::/128",
  "::1/128",
  ...Object.values(networkInterfaces()).flatMap((addresses) => (addresses ?? []).map(({ address }) => address))
]
