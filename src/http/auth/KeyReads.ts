/**
 * Reads API keys from the database, and remembers for less than a second what it read: the key, or that there is none. The keys
 * that are asked for in one turn of the event loop are one statement. Keys that were found before and keys that were not have
 * separate queues and separate memory, so that invented tokens delay no caller whose key is known, and refuse none.
 */
import { type Clock, Duration, Effect } from "effect"
import type { KeyId } from "../../api/schema/Ids.ts"
import type { ServiceUnavailable } from "../../api/Problems.ts"
import { coalesce } from "../../sql/Batches.ts"
import { monotonicMillis } from "../../platform/MonotonicTime.ts"
import { hashOf } from "../../platform/NameHash.ts"

/** What a read found. */
interface KeyRead<Key> {
  readonly keyId: KeyId
  /** The key; undefined if there is none with this id. */
  readonly key: Key | undefined
  /** The monotonic time in milliseconds until which the key need not be read again. */
  readonly until: number
}

/**
 * Time for which a read is remembered. A revocation, or a change of modules, members or entitlements, has to take effect within a
 * second. The time begins before the statement; the rest of the second is for the answer.
 */
const timeToLive = Duration.toMillis("850 millis")

/** Maximum number of keys of a statement, and of statements in flight. */
const [maxBatch, maxInFlight] = [500, 2]

/** Number of requests with an unknown key that wait at most. Further ones are refused. Only a flood reaches the limit. */
export const maxWaiting = 5_000

/** Number of places in a `RecentReads`. It is a power of two, because the place is found by a bit mask. */
const places = 16_384

/** The last read of each place. The hash of a key's id determines the place, and a later key with the same place replaces it. */
class RecentReads<Key> {
  private readonly reads = Array.from<KeyRead<Key> | undefined>({ length: places })

  get(keyId: KeyId): KeyRead<Key> | undefined {
    const read = this.reads[hashOf(keyId) & (places - 1)]
    return read?.keyId === keyId ? read : undefined
  }

  add(read: KeyRead<Key>): void {
    this.reads[hashOf(read.keyId) & (places - 1)] = read
  }
}

/**
 * Makes the function that looks up a key by its id. `read` returns the keys that exist, in any order. `until` is the monotonic
 * time until which they are remembered.
 */
export const makeKeyReads = <Key extends { readonly keyId: KeyId }>(
  clock: Clock.Clock,
  read: (keyIds: ReadonlyArray<KeyId>, until: number) => Effect.Effect<ReadonlyArray<Key>, ServiceUnavailable>
): ((keyId: KeyId) => Effect.Effect<KeyRead<Key>, ServiceUnavailable>) => {
  const found = new RecentReads<Key>()
  const missing = new RecentReads<Key>()

  const readAll = Effect.fnUntraced(function* (keyIds: ReadonlyArray<KeyId>) {
    const until = monotonicMillis(clock) + timeToLive
    const keys = new Map((yield* read([...new Set(keyIds)], until)).map((key) => [key.keyId, key]))
    return keyIds.map((keyId) => {
      const result = { keyId, key: keys.get(keyId), until }
      // A key that was revoked stays among the found ones, with this result.
      const isKnown = result.key !== undefined || found.get(keyId) !== undefined
      ;(isKnown ? found : missing).add(result)
      return result
    })
  })
  const readKnown = coalesce(maxBatch, readAll, { maxInFlight })
  const readUnknown = coalesce(maxBatch, readAll, { capacity: maxWaiting, maxInFlight })

  return (keyId) => {
    const known = found.get(keyId)
    const last = known ?? missing.get(keyId)
    if (last !== undefined && monotonicMillis(clock) < last.until) return Effect.succeed(last)
    return known === undefined ? readUnknown(keyId) : readKnown(keyId)
  }
}
