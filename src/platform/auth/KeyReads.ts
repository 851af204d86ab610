/**
 * Reads of API keys from the database, at a bounded rate for keys that this process has not found before. Invented tokens
 * would cost a statement each: beyond a burst, unknown keys wait for the next read, which is one statement for all of them.
 * Keys that were found recently are read at once. The rate is limited per process, not per address, as all callers behind a
 * load balancer share one address, and an attacker may have many.
 */
import { Clock, Deferred, Duration, Effect, Exit, Option, type Scope } from "effect"
import type { KeyId } from "../../api/Ids.ts"
import type { ServiceUnavailable } from "../../api/Problems.ts"
import { RecentSet } from "../RecentSet.ts"
import { TokenBuckets } from "../rateLimit/TokenBuckets.ts"

/** The result of a read, and its duration. */
interface Found<Row> {
  readonly row: Option.Option<Row>
  readonly took: Duration.Duration
}

type Read<Row> = (keyIds: ReadonlyArray<KeyId>) => Effect.Effect<ReadonlyArray<Row>, ServiceUnavailable>

/** Unknown keys that are read at once: 20 in a row, then 10 a second. */
const atOnce = { limit: 20, windowSeconds: 2 }

/** Time from the first waiting key to the read of all waiting keys. */
const pause = Duration.millis(50)

/** Maximum number of waiting keys, more than a process gets in `pause`. Further keys count as unknown without a read. */
const maxWaiting = 5_000

/** The duration reported for a key that was not read: it exceeds the lifetime of the cache, so the result is not cached. */
const notCached = Duration.minutes(1)

/** Makes a function that reads one key. */
export const pacedReads = <Row extends { readonly keyId: KeyId }>(
  read: Read<Row>
): Effect.Effect<(keyId: KeyId) => Effect.Effect<Found<Row>, ServiceUnavailable>, never, Scope.Scope> =>
  Effect.gen(function* () {
    const scope = yield* Effect.scope
    const found = new RecentSet()
    const buckets = new TokenBuckets()
    const waiting = new Map<KeyId, Deferred.Deferred<Found<Row>, ServiceUnavailable>>()

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
      const result = yield* Effect.exit(readAll(batch.map(([keyId]) => keyId)))
      for (const [keyId, deferred] of batch) {
        yield* Deferred.done(
          deferred,
          Exit.map(result, (foundOf) => foundOf(keyId))
        )
      }
    })

    const wait = (keyId: KeyId): Effect.Effect<Found<Row>, ServiceUnavailable> => {
      const other = waiting.get(keyId)
      if (other !== undefined) return Deferred.await(other)
      if (waiting.size >= maxWaiting) return Effect.succeed({ row: Option.none(), took: notCached })
      const deferred = Deferred.makeUnsafe<Found<Row>, ServiceUnavailable>()
      waiting.set(keyId, deferred)
      const begun = waiting.size === 1 ? Effect.forkIn(readWaiting, scope) : Effect.void
      return Effect.andThen(begun, Deferred.await(deferred))
    }

    return (keyId) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) =>
        found.has(keyId) || buckets.take("unknown", atOnce, now).allowed
          ? Effect.map(readAll([keyId]), (foundOf) => foundOf(keyId))
          : wait(keyId)
      )
  })
