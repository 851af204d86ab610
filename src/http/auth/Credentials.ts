/**
 * Verifies bearer tokens (contract §3). A token is `dk_`, the key id (12 characters), `_`, the secret (32 characters), and the CRC-32
 * of everything before it (6 characters). Because of the checksum, a mistyped token is refused without a look-up in the database.
 *
 * Keys are remembered for less than a second, so that a revocation takes effect within a second. The keys that are asked for in one
 * turn of the event loop are one statement. Keys that were found before and keys that were not have separate queues and separate
 * memory, so that a caller whose key is known neither waits nor is refused because of invented tokens.
 */
import { Clock, Context, Duration, Effect, Layer, Option, Redacted } from "effect"
import { hash as oneShotHash, randomInt, timingSafeEqual } from "node:crypto"
import { crc32 } from "node:zlib"
import { KeyId, type MemberId, type ProjectId } from "../../api/schema/Ids.ts"
import { SqlClient } from "effect/sql"
import {
  type Bucket,
  defaultRateLimits,
  type Module,
  type Policy,
  type RateLimit,
  type Scope
} from "../../api/Access.ts"
import { ServiceUnavailable } from "../../api/Problems.ts"
import { retryContended } from "../../sql/Database.ts"
import { monotonicMillis } from "../../platform/MonotonicTime.ts"
import { isClosed, type MoveState } from "../../platform/MoveState.ts"
import { bucketsOf } from "../limits/RateLimits.ts"
import { coalesce } from "../../sql/Batches.ts"
import { hashOf } from "../../platform/Ids.ts"

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

/** The form of a token. The groups are the key id and the checksum. */
const pattern = /^dk_([0-9A-Za-z]{12})_[0-9A-Za-z]{32}([0-9A-Za-z]{6})$/

const randomText = (length: number) => {
  let text = ""
  for (let i = 0; i < length; i++) text += alphabet.charAt(randomInt(alphabet.length))
  return text
}

/** CRC-32 (ISO-HDLC, as in zlib) in base62, left-padded with `0` to 6 characters. */
export const checksum = (text: string): string => {
  let rest = crc32(text)
  let digits = ""
  for (let i = 0; i < 6; i++) {
    digits = alphabet.charAt(rest % 62) + digits
    rest = Math.floor(rest / 62)
  }
  return digits
}

export const generate = (
  cell: Option.Option<string>
): Effect.Effect<{ readonly keyId: KeyId; readonly token: Redacted.Redacted }> =>
  Effect.sync(() => {
    const start = Option.getOrElse(cell, () => "")
    const keyId = KeyId.make(start + randomText(12 - start.length))
    const body = `dk_${keyId}_${randomText(32)}`
    return { keyId, token: Redacted.make(body + checksum(body)) }
  })

/** What is kept of a presented token: the id of its key, and the hash of the token. */
export interface Presented {
  readonly keyId: KeyId
  readonly hash: Uint8Array
}

export const present = (text: string): Presented | undefined => {
  const match = pattern.exec(text)
  return match?.[1] !== undefined && match[2] === checksum(text.slice(0, -6))
    ? { keyId: KeyId.make(match[1]), hash: digestOf(text) }
    : undefined
}

/** Returns the SHA-256 of the whole token. The database stores this hash instead of the token. */
export const hash = (token: Redacted.Redacted): Uint8Array => digestOf(Redacted.value(token))

const digestOf = (text: string): Uint8Array => oneShotHash("sha256", text, "buffer")

export const sameHash = (left: Uint8Array, right: Uint8Array): boolean =>
  left.length === right.length && timingSafeEqual(left, right)

/** A valid API key, with the settings of its project. */
export interface Credential {
  readonly projectId: ProjectId
  readonly keyId: KeyId
  readonly scopes: ReadonlyArray<Scope>
  readonly memberId: MemberId | null
  /** False if the key is bound to a member who is not active. */
  readonly membership: boolean
  readonly modules: ReadonlyArray<Module>
  readonly entitlements: ReadonlyArray<string>
  readonly buckets: Readonly<Record<Policy, Bucket>>
  readonly timeZone: string
  /** The types of events that webhooks of the project subscribe to. They may have changed in the last second. */
  readonly eventTypes: ReadonlyArray<string>
}

/** A credential, and the monotonic time in milliseconds until which its key need not be read again. */
export interface Verified {
  readonly credential: Credential
  readonly until: number
}

interface Row extends Omit<Credential, "buckets"> {
  readonly moveState: MoveState | null
  readonly tokenHash: Uint8Array
  readonly expiresAt: Date
  readonly lastUsedAt: Date | null
  readonly rateLimits: Partial<Record<Policy, RateLimit>>
}

interface Entry extends Verified {
  readonly keyId: KeyId
  /** Whether another database serves the project, or is to serve it. */
  readonly isClosed: boolean
  readonly tokenHash: Uint8Array
  readonly expiresAt: number
  lastUsedAt: number
}

/** Minimum time between two writes of `lastUsedAt`, in milliseconds. */
const usageResolution = 60_000

export class Credentials extends Context.Service<
  Credentials,
  {
    /** Returns the credential of a token; none if the token is unknown, expired or revoked. */
    readonly verify: (token: Presented) => Effect.Effect<Option.Option<Verified>, ServiceUnavailable>
  }
>()("developer-api-service/http/auth/Credentials") {
  static readonly layer = Layer.effect(
    Credentials,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const scope = yield* Effect.scope
      const clock = yield* Clock.Clock

      const read = (keyIds: ReadonlyArray<KeyId>) => sql<Row>`
        SELECT k.project_id AS "projectId", k.key_id AS "keyId", k.token_hash AS "tokenHash", k.scopes,
               k.member_id AS "memberId", coalesce(m.active, true) AS membership, p.modules, p.entitlements,
               p.rate_limits AS "rateLimits", p.time_zone AS "timeZone", k.expires_at AS "expiresAt",
               k.last_used_at AS "lastUsedAt", p.move_state AS "moveState", "eventTypes"
        FROM api_keys k
          JOIN projects p ON p.project_id = k.project_id
          LEFT JOIN members m ON m.project_id = k.project_id AND m.id = k.member_id,
          LATERAL (
            SELECT ARRAY(SELECT DISTINCT unnest(event_types) FROM webhooks WHERE webhooks.project_id = k.project_id) AS "eventTypes"
          ) subscribed
        WHERE k.key_id = ANY(${keyIds}::text[]) AND k.revoked_at IS NULL`
      const find = makeKeyReads(clock, (keyIds, until) =>
        Effect.map(retryContended(read(keyIds)), (rows) => rows.map((row) => toEntry(row, until, clock)))
      )

      const touch = (entry: Entry, now: number) => {
        entry.lastUsedAt = now
        const { keyId, projectId } = entry.credential
        return sql`
          UPDATE api_keys SET last_used_at = ${new Date(now)}
          WHERE project_id = ${projectId} AND key_id = ${keyId}
            AND (last_used_at IS NULL OR last_used_at <= ${new Date(now - usageResolution)})`.pipe(
          Effect.ignore({ log: "Debug" }),
          Effect.forkIn(scope)
        )
      }

      const accept = (entry: Entry, now: number): Effect.Effect<Option.Option<Verified>> => {
        if (entry.expiresAt <= now) return Effect.succeedNone
        const accepted = Effect.succeedSome(entry)
        return now - entry.lastUsedAt < usageResolution ? accepted : Effect.andThen(touch(entry, now), accepted)
      }

      return {
        verify: ({ hash, keyId }) =>
          Effect.flatMap(find(keyId), ({ key }) => {
            if (key === undefined || !sameHash(key.tokenHash, hash)) return Effect.succeedNone
            return key.isClosed ? Effect.fail(moving()) : accept(key, clock.currentTimeMillisUnsafe())
          })
      }
    })
  )
}

const moving = () =>
  new ServiceUnavailable({ detail: "The project is being moved to another database. Send the request again." })

/** `until` is the monotonic time until which the key is remembered. The credential ends earlier if the key expires earlier. */
const toEntry = (
  { expiresAt, lastUsedAt, moveState, rateLimits, tokenHash, ...credential }: Row,
  until: number,
  clock: Clock.Clock
): Entry => ({
  keyId: credential.keyId,
  credential: { ...credential, buckets: bucketsOf(credential.projectId, { ...defaultRateLimits, ...rateLimits }) },
  tokenHash,
  isClosed: isClosed(moveState),
  until: Math.min(until, monotonicMillis(clock) + expiresAt.getTime() - clock.currentTimeMillisUnsafe()),
  expiresAt: expiresAt.getTime(),
  lastUsedAt: lastUsedAt?.getTime() ?? 0
})

interface KeyRead<Key> {
  readonly keyId: KeyId
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

/** Makes the function that looks up a key by its id. `read` returns the keys that exist, in any order. */
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
