/**
 * Reads API keys from the database. A key that this process has found recently is read immediately. All other keys count as
 * unknown, also the keys of invented tokens. Only a burst of unknown keys is read immediately. Beyond the burst, unknown keys
 * wait for the next read, which is one statement for all waiting keys. So invented tokens do not cost a statement each.
 *
 * Each network that callers connect from has its own burst and an equal share of the waiting keys. So invented tokens of one
 * network do not delay or refuse new tokens of other networks. Behind a load balancer, all callers share one address and so one
 * burst, because no header with another address is trusted.
 */
import { Clock, Deferred, Duration, Effect, Exit, Option, Result, type Scope } from "effect"
import * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as NetAddress from "effect/net/NetAddress"
import type { KeyId } from "../../../api/schema/Ids.ts"
import { ServiceUnavailable } from "../../../api/Problems.ts"
import { monotonicMillis } from "../../MonotonicTime.ts"
import { RecentSet } from "./RecentSet.ts"
import { TokenBuckets } from "../rateLimit/TokenBuckets.ts"

interface Found<Row> {
  readonly row: Option.Option<Row>
  readonly took: Duration.Duration
}

type Read<Row> = (keyIds: ReadonlyArray<KeyId>) => Effect.Effect<ReadonlyArray<Row>, ServiceUnavailable>

/** The burst of one network: 20 unknown keys are read immediately, then 10 a second. */
const atOnce = { limit: 20, windowSeconds: 2 }

const atOnceInAll = { limit: 200, windowSeconds: 2 }

/** Time between the first waiting key and the read of all waiting keys. */
const pause = Duration.millis(50)

/**
 * While this many keys wait, a network that already has its equal share of the waiting keys is refused. Ordinary load brings
 * fewer requests in `pause`, so only a flood reaches the limit.
 */
const maxWaiting = 5_000

const tooMany = () =>
  new ServiceUnavailable({ detail: "Too many unknown tokens are sent from this address. Send the request again." })

/**
 * Returns the network of an address: an IPv4 address itself, or the /64 of an IPv6 address, because a single caller may have a
 * whole /64.
 */
export const networkOf = (address: string): string => {
  const [host = ""] = address.split("%")
  const parsed = NetAddress.ipv6FromString(host)
  return Result.isFailure(parsed) || NetAddress.isIpv4Mapped(parsed.success)
    ? host
    : NetAddress.ipv6ToSegments(parsed.success).slice(0, 4).join(":")
}

const currentNetwork = Effect.map(Effect.serviceOption(HttpServerRequest.HttpServerRequest), (request) =>
  Option.match(
    Option.flatMap(request, ({ remoteAddress }) => remoteAddress),
    { onNone: () => "", onSome: networkOf }
  )
)

export const pacedReads = <Row extends { readonly keyId: KeyId }>(
  read: Read<Row>
): Effect.Effect<(keyId: KeyId) => Effect.Effect<Found<Row>, ServiceUnavailable>, never, Scope.Scope> =>
  Effect.gen(function* () {
    const scope = yield* Effect.scope
    const found = new RecentSet()
    const buckets = new TokenBuckets()
    const waiting = new Map<KeyId, Deferred.Deferred<Found<Row>, ServiceUnavailable>>()
    /** The number of waiting keys of each network. */
    const shares = new Map<string, number>()

    const readAll = Effect.fnUntraced(function* (keyIds: ReadonlyArray<KeyId>) {
      const [took, rows] = yield* Effect.timed(read(keyIds))
      const byId = new Map(rows.map((row) => [row.keyId, row]))
      for (const { keyId } of rows) found.add(keyId)
      return (keyId: KeyId): Found<Row> => ({ row: Option.fromUndefinedOr(byId.get(keyId)), took })
    })

    const readWaiting = Effect.gen(function* () {
      yield* Effect.sleep(pause)
      const batch = [...waiting]
      waiting.clear()
      shares.clear()
      const result = yield* Effect.exit(readAll(batch.map(([keyId]) => keyId)))
      for (const [keyId, deferred] of batch) {
        yield* Deferred.done(
          deferred,
          Exit.map(result, (foundOf) => foundOf(keyId))
        )
      }
    })

    const wait = (keyId: KeyId, network: string): Effect.Effect<Found<Row>, ServiceUnavailable> => {
      const other = waiting.get(keyId)
      if (other !== undefined) return Deferred.await(other)
      const share = shares.get(network) ?? 0
      if (waiting.size >= maxWaiting && share >= maxWaiting / shares.size) return Effect.fail(tooMany())
      shares.set(network, share + 1)
      const deferred = Deferred.makeUnsafe<Found<Row>, ServiceUnavailable>()
      waiting.set(keyId, deferred)
      const begun = waiting.size === 1 ? Effect.forkIn(readWaiting, scope) : Effect.void
      return Effect.andThen(begun, Deferred.await(deferred))
    }

    const isWithinBurst = (network: string, now: number) =>
      buckets.take(`network ${network}`, atOnce, now).allowed && buckets.take("all", atOnceInAll, now).allowed

    return Effect.fnUntraced(function* (keyId) {
      const network = yield* currentNetwork
      return found.has(keyId) || isWithinBurst(network, monotonicMillis(yield* Clock.Clock))
        ? (yield* readAll([keyId]))(keyId)
        : yield* wait(keyId, network)
    })
  })
