/** Resolves host names to addresses, and caches the addresses. */
import { Array, Context, Data, Deferred, Duration, Effect, Layer, Predicate } from "effect"
import { lookup, Resolver } from "node:dns"
import { readFile } from "node:fs/promises"
import { isIP } from "node:net"
import { cachedFor } from "../../../platform/MonotonicTime.ts"

/** The name has no address, or no resolver has answered. */
export class NameUnresolved extends Data.TaggedError("NameUnresolved")<{ readonly code: string }> {}

type Addresses = Effect.Effect<ReadonlyArray<string>, NameUnresolved>

export class Names extends Context.Service<
  Names,
  {
    /** Resolves a name to all its IPv4 and IPv6 addresses, at least one. The caller checks whether they may be called. */
    readonly resolve: (name: string) => Addresses
  }
>()("developer-api/integrations/Names") {
  /** Resolves names as the system does; `servers` (`address:port`) replace the DNS servers of the system. */
  static readonly layerFrom = (servers?: ReadonlyArray<string>) =>
    Layer.effect(
      Names,
      Effect.gen(function* () {
        return { resolve: yield* cacheAddresses(fromSystem(servers)) }
      })
    )

  static readonly layer = Names.layerFrom()
}

/**
 * Caches addresses for 5 s. Concurrent look-ups of a name share one query, which is cancelled when no caller waits for it.
 * Failures are not cached.
 */
export const cacheAddresses = (resolve: (name: string) => Addresses) =>
  cachedFor(resolve, { capacity: 10_000, timeToLive: () => Duration.seconds(5) })

/**
 * Resolves in the order of a Unix system: hosts file, then DNS. DNS queries use c-ares, because its queries have a timeout
 * and can be cancelled: a server that hangs does not delay other names. Names that DNS does not find (search domains, mDNS)
 * are looked up by getaddrinfo, which occupies at most half of libuv's threads.
 */
const fromSystem = (servers: ReadonlyArray<string> | undefined) => (name: string) =>
  fromHostsFile(name).pipe(
    Effect.catch(() => fromDns(name, servers)),
    Effect.catchIf(
      ({ code }) => notFound.has(code),
      () => fromGetaddrinfo(name)
    )
  )

/** Codes of DNS failures after which getaddrinfo is tried: no such name, no address, no DNS name, no DNS server. */
const notFound = new Set(["ENOTFOUND", "ENODATA", "EBADNAME", "ECONNREFUSED"])

const fromHostsFile = (name: string): Addresses =>
  Effect.tryPromise({ try: () => readFile("/etc/hosts", "utf8"), catch: unresolved }).pipe(
    Effect.flatMap((text) => {
      const wanted = name.toLowerCase().replace(/\.$/, "")
      return found(
        text.split("\n").flatMap((line) => {
          const [address = "", ...names] = line.replace(/#.*/, "").trim().toLowerCase().split(/\s+/)
          return names.includes(wanted) ? [address] : []
        })
      )
    })
  )

/**
 * Queries IPv4 and IPv6 addresses at once. When one query is answered, the other gets 50 ms more (RFC 8305, section 3), because
 * some servers never answer AAAA queries.
 */
const fromDns = (name: string, servers: ReadonlyArray<string> | undefined): Addresses =>
  Effect.gen(function* () {
    // One resolver for each name, because a cancellation ends all queries of a resolver.
    const resolver = new Resolver({ timeout: 2_000, tries: 2 })
    if (servers !== undefined) resolver.setServers(servers)
    const gathered: Array<string> = []
    const first = yield* Deferred.make<void>()
    const query = (family: "resolve4" | "resolve6") =>
      Effect.callback<ReadonlyArray<string>, NameUnresolved>((resume) => {
        resolver[family](name, (error, addresses) =>
          resume(error === null ? Effect.succeed(addresses) : Effect.fail(unresolved(error)))
        )
      }).pipe(
        Effect.tap((addresses) => {
          gathered.push(...addresses)
          return Deferred.succeed(first, undefined)
        }),
        Effect.flip
      )
    const failures = yield* Effect.all([query("resolve4"), query("resolve6")], { concurrency: 2, mode: "result" }).pipe(
      Effect.map(Array.getSuccesses),
      Effect.raceFirst(Deferred.await(first).pipe(Effect.andThen(Effect.sleep("50 millis")), Effect.as([]))),
      Effect.ensuring(Effect.sync(() => resolver.cancel()))
    )
    if (gathered.length > 0) return ordered(gathered)
    return yield* failures.find(({ code }) => !notFound.has(code)) ?? new NameUnresolved({ code: "ENOTFOUND" })
  })

const fromGetaddrinfo = (name: string): Addresses =>
  Effect.callback((resume) =>
    lookup(name, { all: true }, (error, addresses) =>
      resume(error === null ? found(addresses.map(({ address }) => address)) : Effect.fail(unresolved(error)))
    )
  )

const unresolved = (cause: unknown) =>
  new NameUnresolved({ code: Predicate.hasProperty(cause, "code") ? String(cause.code) : "EUNKNOWN" })

const found = (addresses: ReadonlyArray<string>): Addresses =>
  addresses.length > 0 ? Effect.succeed(ordered(addresses)) : Effect.fail(new NameUnresolved({ code: "ENOTFOUND" }))

/** Puts IPv4 addresses first, because some networks have no IPv6. */
const ordered = (addresses: ReadonlyArray<string>) => addresses.toSorted((a, b) => isIP(a) - isIP(b))
