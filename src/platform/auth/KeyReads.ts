/**
 * Reads of API keys from the database, at a bounded rate for keys that this process has not met. Invented tokens would
 * cost a read each: beyond a burst, an unknown key waits for the next read, which is one statement for all that wait.
 * Keys that were found lately are read at once. The rate is that of the process and not of an
 * address, as all callers behind a load balancer share one address, and an attacker may have many.
 */
import { Clock, Deferred, Duration, Effect, Exit, Option, type Scope } from "effect"
import type { KeyId } from "../../api/Ids.ts"
import type { ServiceUnavailable } from "../../api/Problems.ts"
import { RecentSet } from "../RecentSet.ts"
import { TokenBuckets } from "../rateLimit/TokenBuckets.ts"

/** What a read has found, and how long it took. */
interface Found<Row> {
  readonly row: Option.Option<Row>
  readonly took: Duration.Duration
}

type Read<Row> = (keyIds: ReadonlyArray<KeyId>) => Effect.Effect<ReadonlyArray<Row>, ServiceUnavailable>

/** Unknown keys that are read at once: 20 in a row, then 10 a second. */
const atOnce = { limit: 20, windowSeconds: 2 }

/** Time from the first key that waits to the read of all that wait by then. */
const pause = Duration.millis(50)

/** Keys that wait: more than a process is asked for in that time. Those beyond are taken for unknown without a read. */
const maxWaiting = 5_000

/** What was not read must not be remembered: the answer of a read that took this long is not. */
const tooLong = Duration.minutes(1)

/** Makes a function that reads one key. */
export const pacedReads = <Row extends { readonly keyId: KeyId }>(
  read: Read<Row>
): Effect.Effect<(keyId: KeyId) => Effect.Effect<Found<Row>, ServiceUnavailable>, never, Scope.Scope> =>
  Effect.gen(function* () {
    const scope = yield* Effect.scope
    const met = new RecentSet()
    const buckets = new TokenBuckets()
    const waiting = new Map<KeyId, Deferred.Deferred<Found<Row>, ServiceUnavailable>>()

    const readAll = Effect.fnUntraced(function* (keyIds: ReadonlyArray<KeyId>) {
      const [took, rows] = yield* Effect.timed(read(keyIds))
      const byId = new Map(rows.map((row) => [row.keyId, row]))
      for (const { keyId } of rows) met.add(keyId)
      return (keyId: KeyId): Found<Row> => ({ row: Option.fromUndefinedOr(byId.get(keyId)), took })
    })

    const readWaiting = Effect.gen(function* () {
      yield* Effect.sleep(pause)
      const batch = [...waiting]
      waiting.clear()
      const found = yield* Effect.exit(readAll(batch.map(([keyId]) => keyId)))
      for (const [keyId, deferred] of batch) {
        yield* Deferred.done(
          deferred,
          Exit.map(found, (foundOf) => foundOf(keyId))
        )
      }
    })

    const wait = (keyId: KeyId): Effect.Effect<Found<Row>, ServiceUnavailable> => {
      const other = waiting.get(keyId)
      if (other !== undefined) return Deferred.await(other)
      if (waiting.size >= maxWaiting) return Effect.succeed({ row: Option.none(), took: tooLong })
      const deferred = Deferred.makeUnsafe<Found<Row>, ServiceUnavailable>()
      waiting.set(keyId, deferred)
      const begun = waiting.size === 1 ? Effect.forkIn(readWaiting, scope) : Effect.void
      return Effect.andThen(begun, Deferred.await(deferred))
    }

    return (keyId) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) =>
        met.has(keyId) || buckets.take("unknown", atOnce, now).allowed
          ? Effect.map(readAll([keyId]), (foundOf) => foundOf(keyId))
          : wait(keyId)
      )
  })
