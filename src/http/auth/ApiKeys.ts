/** API keys (contract §3), as operators manage them. `Credentials.ts` verifies the tokens of requests. */
import { Clock, Context, Data, Duration, Effect, Layer, Option, type Redacted } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { Scope } from "../../api/Access.ts"
import type { KeyId, MemberId, ProjectId } from "../../api/schema/Ids.ts"
import { ProjectUnknown, requireProject, servedProject } from "../../operators/Refusals.ts"
import { Settings } from "../../platform/Settings.ts"
import { type Found, pageOf, type Range } from "../../operators/Search.ts"
import { livesHere } from "../../platform/Moves.ts"
import * as Token from "./Credentials.ts"

/** A key as operators see it. Its token is not stored, so it is not shown. */
export interface ApiKey {
  readonly keyId: KeyId
  readonly name: string
  readonly scopes: ReadonlyArray<Scope>
  readonly memberId: MemberId | null
  readonly expiresAt: Date
  readonly revokedAt: Date | null
  readonly lastUsedAt: Date | null
  readonly createdAt: Date
}

/** A new key with its token, which can't be shown later. */
export interface IssuedKey {
  readonly keyId: KeyId
  readonly token: Redacted.Redacted
  readonly scopes: ReadonlyArray<Scope>
  readonly expiresAt: Date
}

export class MemberUnusable extends Data.TaggedError("MemberUnusable")<{
  readonly memberId: string
  readonly reason: "unknown" | "inactive"
}> {
  override get message() {
    return this.reason === "unknown"
      ? `The project has no member "${this.memberId}"`
      : `Member "${this.memberId}" is not active, so no key can be issued for them`
  }
}

class ExpiryTooLong extends Data.TaggedError("ExpiryTooLong") {
  override readonly message = `A key can live for ${Duration.toDays(maxLifetime)} days at most`
}

/** No key has this id. The message does not repeat the id, which may be a whole token by mistake. */
export class KeyUnknown extends Data.TaggedError("KeyUnknown") {
  override readonly message =
    "There is no such key: its id is the 12 characters of the token between `dk_` and the next `_`"
}

export class KeyUnusable extends Data.TaggedError("KeyUnusable")<{
  readonly keyId: KeyId
  readonly reason: "revoked" | "expired"
}> {
  override get message() {
    return `Key ${this.keyId} ${this.reason === "revoked" ? "is revoked" : "has expired"}: issue a new one`
  }
}

export const defaultLifetime = Duration.days(90)

const maxLifetime = Duration.days(366)

export class ApiKeys extends Context.Service<
  ApiKeys,
  {
    /** Issues a key for a project, or for one of its active members. */
    readonly issue: (options: {
      readonly projectId: ProjectId
      readonly name: string
      readonly scopes: ReadonlyArray<Scope>
      readonly expiresIn: Duration.Duration
      readonly memberId: Option.Option<MemberId>
    }) => Effect.Effect<IssuedKey, ProjectUnknown | MemberUnusable | ExpiryTooLong>

    readonly list: (
      projectId: ProjectId,
      range: Range
    ) => Effect.Effect<Found<ApiKey>, ProjectUnknown | KeyUnknown | SqlError.SqlError>

    /** Revokes a key. A key that is already revoked does not change. */
    readonly revoke: (keyId: KeyId) => Effect.Effect<{ readonly keyId: KeyId; readonly revokedAt: Date }, KeyUnknown>

    /** Issues a key with the rights and the whole lifetime of the old key, which expires after `grace`, or earlier by itself. */
    readonly rotate: (
      keyId: KeyId,
      grace: Duration.Duration
    ) => Effect.Effect<IssuedKey, KeyUnknown | KeyUnusable | MemberUnusable>
  }
>()("developer-api-service/http/auth/ApiKeys") {
  static readonly layer = Layer.unwrap(Effect.map(Settings, ({ cell }) => ApiKeys.layerOf(cell)))

  /** The ids of new keys begin with the name of the cell (a database with its processes), if there is one. */
  static readonly layerOf = (cell: Option.Option<string>) =>
    Layer.effect(
      ApiKeys,
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient

        return {
          issue: Effect.fn("ApiKeys.issue")(function* ({ expiresIn, memberId, name, projectId, ...given }) {
            if (Duration.isGreaterThan(expiresIn, maxLifetime)) return yield* new ExpiryTooLong()
            const { keyId, token } = yield* Token.generate(cell)
            const now = yield* Clock.currentTimeMillis
            const expiresAt = new Date(now + Duration.toMillis(expiresIn))
            const scopes = [...new Set(given.scopes)]
            const member = Option.getOrNull(memberId)
            const [verdict] = yield* sql<{ project: boolean; issued: boolean; memberActive: boolean | null }>`
            WITH ${servedProject(sql, projectId)},
            member AS MATERIALIZED (
              -- The member is locked until the key exists, so that nobody deactivates the member in between.
              SELECT locked.active FROM project, LATERAL (
                SELECT active FROM members WHERE project_id = project.project_id AND id = ${member}::text FOR SHARE
              ) locked
            ),
            issued AS (
              INSERT INTO api_keys
                (project_id, key_id, token_hash, name, scopes, member_id, lifetime, expires_at, created_at)
              SELECT project_id, ${keyId}::text, ${Token.hash(token)}::bytea, ${name}::text, ${scopes}::text[],
                     ${member}::text, ${expiresAt}::timestamptz - ${new Date(now)}::timestamptz,
                     ${expiresAt}::timestamptz, ${new Date(now)}::timestamptz
              FROM project
              WHERE ${member}::text IS NULL OR (SELECT active FROM member)
              RETURNING key_id
            )
            SELECT EXISTS (SELECT FROM project) AS project,
                   EXISTS (SELECT FROM issued) AS issued,
                   (SELECT active FROM member) AS "memberActive"`.pipe(Effect.orDie)
            if (verdict?.issued === true) return { keyId, token, scopes, expiresAt }
            return yield* verdict?.project === true && member !== null
              ? new MemberUnusable({ memberId: member, reason: verdict.memberActive === null ? "unknown" : "inactive" })
              : new ProjectUnknown({ projectId })
          }),

          list: Effect.fn("ApiKeys.list")(function* (projectId, { after, limit }) {
            yield* requireProject(sql, projectId)
            if (after !== null) {
              const known = yield* sql`SELECT FROM api_keys WHERE project_id = ${projectId} AND key_id = ${after}`
              if (known.length === 0) return yield* new KeyUnknown()
            }
            const following = sql`AND (created_at, key_id) < ((
            SELECT created_at FROM api_keys WHERE project_id = ${projectId} AND key_id = ${after}), ${after})`
            const rows = yield* sql<ApiKey>`
            SELECT key_id AS "keyId", name, scopes, member_id AS "memberId", expires_at AS "expiresAt",
              revoked_at AS "revokedAt", last_used_at AS "lastUsedAt", created_at AS "createdAt"
            FROM api_keys WHERE project_id = ${projectId} ${after === null ? sql.literal("") : following}
            ORDER BY created_at DESC, key_id DESC LIMIT ${limit + 1}::int`
            return pageOf(rows, limit, ({ keyId }) => keyId)
          }),

          revoke: Effect.fn("ApiKeys.revoke")(function* (keyId) {
            const now = new Date(yield* Clock.currentTimeMillis)
            const [row] = yield* sql<{ readonly keyId: KeyId; readonly revokedAt: Date }>`
            UPDATE api_keys SET revoked_at = coalesce(revoked_at, ${now}::timestamptz) FROM projects
            WHERE key_id = ${keyId} AND projects.project_id = api_keys.project_id
              AND ${livesHere(sql, sql`move_state`)}
            RETURNING key_id AS "keyId", revoked_at AS "revokedAt"`.pipe(Effect.orDie)
            return row ?? (yield* new KeyUnknown())
          }),

          rotate: Effect.fn("ApiKeys.rotate")(function* (keyId, grace) {
            const { keyId: newKeyId, token } = yield* Token.generate(cell)
            const millis = yield* Clock.currentTimeMillis
            const now = new Date(millis)
            // The grace is cut to the maximum lifetime, within which the key expires anyway. The end of a longer grace might not
            // be a valid date.
            const graceEnd = new Date(millis + Duration.toMillis(Duration.min(grace, maxLifetime)))
            const [verdict] = yield* sql<RotationVerdict>`
            WITH project AS MATERIALIZED (
              SELECT project_id FROM projects
              WHERE project_id = (SELECT project_id FROM api_keys WHERE key_id = ${keyId})
                AND ${livesHere(sql, sql`move_state`)}
              FOR KEY SHARE
            ),
            old AS MATERIALIZED (
              -- The key is locked, so that its rotations and revocations run one after the other.
              SELECT locked.* FROM project, LATERAL (
                SELECT * FROM api_keys WHERE project_id = project.project_id AND key_id = ${keyId} FOR UPDATE
              ) locked
            ),
            member AS (
              SELECT active FROM members
              WHERE (project_id, id) = (SELECT project_id, member_id FROM old) FOR SHARE
            ),
            renewed AS (
              SELECT * FROM old
              WHERE revoked_at IS NULL AND expires_at > ${now} AND (member_id IS NULL OR (SELECT active FROM member))
            ),
            ending AS (
              UPDATE api_keys SET expires_at = least(renewed.expires_at, ${graceEnd}::timestamptz)
              FROM renewed WHERE api_keys.key_id = renewed.key_id
            ),
            issued AS (
              INSERT INTO api_keys
                (project_id, key_id, token_hash, name, scopes, member_id, lifetime, expires_at, created_at)
              SELECT project_id, ${newKeyId}::text, ${Token.hash(token)}::bytea, name, scopes, member_id, lifetime,
                     ${now}::timestamptz + lifetime, ${now}::timestamptz
              FROM renewed
              RETURNING expires_at
            )
            SELECT scopes, member_id AS "memberId", revoked_at IS NOT NULL AS revoked, expires_at <= ${now} AS expired,
                   (SELECT expires_at FROM issued) AS "expiresAt"
            FROM old`.pipe(Effect.orDie)
            if (verdict === undefined) return yield* new KeyUnknown()
            const { expired, expiresAt, memberId, revoked, scopes } = verdict
            if (expiresAt !== null) return { keyId: newKeyId, token, scopes, expiresAt }
            return yield* memberId === null || revoked || expired
              ? new KeyUnusable({ keyId, reason: revoked ? "revoked" : "expired" })
              : new MemberUnusable({ memberId, reason: "inactive" })
          })
        }
      })
    )
}

interface RotationVerdict {
  readonly scopes: ReadonlyArray<Scope>
  readonly memberId: MemberId | null
  readonly revoked: boolean
  readonly expired: boolean
  readonly expiresAt: Date | null
}
