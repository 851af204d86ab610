/** Verifies bearer tokens. Keys are remembered for less than a second, so that a revocation takes effect within a second. */
import { Clock, Context, Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import type { Module, Policy, Scope } from "../../api/Access.ts"
import { type Bucket, defaultRateLimits, type RateLimit } from "../../api/Authentication.ts"
import type { KeyId, MemberId, ProjectId } from "../../api/schema/Ids.ts"
import { ServiceUnavailable } from "../../api/Problems.ts"
import { retryContended } from "../../sql/Database.ts"
import { monotonicMillis } from "../../platform/MonotonicTime.ts"
import { isClosed, type State } from "../../platform/Moves.ts"
import { bucketsOf } from "../limits/RateLimits.ts"
import { makeKeyReads } from "./KeyReads.ts"
import { type Presented, sameHash } from "./Token.ts"

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
}

/** A credential, and the monotonic time in milliseconds until which its key need not be read again. */
export interface Verified {
  readonly credential: Credential
  readonly until: number
}

interface Row extends Omit<Credential, "buckets"> {
  readonly moveState: State | null
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
>()("developer-api/http/auth/Credentials") {
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
               k.last_used_at AS "lastUsedAt", p.move_state AS "moveState"
        FROM api_keys k
          JOIN projects p ON p.project_id = k.project_id
          LEFT JOIN members m ON m.project_id = k.project_id AND m.id = k.member_id
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
