/** The addresses of host names. */
import { Array, Cache, Context, Data, Deferred, Duration, Effect, Exit, Layer, Predicate } from "effect"
import { lookup, Resolver } from "node:dns"
import { readFile } from "node:fs/promises"
import { isIP } from "node:net"

/** A name without an address, or nobody who could tell. */
export class NameUnresolved extends Data.TaggedError("NameUnresolved")<{ readonly code: string }> {}

type Addresses = Effect.Effect<ReadonlyArray<string>, NameUnresolved>

export class Names extends Context.Service<
  Names,
  {
    /** Every IPv4 and IPv6 address of a name: one at least, unjudged. */
    readonly resolve: (name: string) => Addresses
  }
>()("developer-api/integrations/Names") {
  /** The system's names; `servers` (`address:port`) stand in for the DNS servers of the system. */
  static readonly layerFrom = (servers?: ReadonlyArray<string>) =>
    Layer.effect(
      Names,
      Effect.gen(function* () {
        return { resolve: yield* cached(fromSystem(servers)) }
      })
    )

  static readonly layer = Names.layerFrom()
}

/**
 * Keeps addresses for a moment, so that a burst of deliveries asks once, and asks once for all who wait at the same
 * time; when none waits any more, the question is dropped. Failures are not kept.
 */
export const cached = (resolve: (name: string) => Addresses) =>
  Effect.map(
    Cache.makeWith(resolve, {
      capacity: 10_000,
      timeToLive: (exit) => (Exit.isSuccess(exit) ? Duration.seconds(5) : Duration.zero)
    }),
    (cache) => (name: string) => Cache.get(cache, name)
  )

/**
 * Asks in the order of a Unix system: hosts file, then DNS. DNS is asked by c-ares, as its questions end by themselves
 * and can be dropped, so that a server that hangs holds up no other name. What it does not know, getaddrinfo may know
 * (search domains, mDNS); libuv lets that have half of its threads at most.
 */
const fromSystem = (servers: ReadonlyArray<string> | undefined) => (name: string) =>
  fromHostsFile(name).pipe(
    Effect.catch(() => fromDns(name, servers)),
    Effect.catchIf(
      ({ code }) => notFound.has(code),
      () => fromGetaddrinfo(name)
    )
  )

/** No such name, no address of it, not a name for DNS, no DNS server. */
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
 * Both families at once. With addresses of one, the other is waited for no longer than RFC 8305, section 3, says: some
 * servers never answer AAAA.
 */
const fromDns = (name: string, servers: ReadonlyArray<string> | undefined): Addresses =>
  Effect.gen(function* () {
    // One for each name, as cancelling drops every question of a resolver.
    const resolver = new Resolver({ timeout: 2_000, tries: 2 })
    if (servers !== undefined) resolver.setServers(servers)
    const gathered: Array<string> = []
    const first = yield* Deferred.make<void>()
    const ask = (family: "resolve4" | "resolve6") =>
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
    const failures = yield* Effect.all([ask("resolve4"), ask("resolve6")], { concurrency: 2, mode: "result" }).pipe(
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

/** IPv4 first: it is there everywhere. */
const ordered = (addresses: ReadonlyArray<string>) => addresses.toSorted((a, b) => isIP(a) - isIP(b))
