/** API keys (contract §3), as operators manage them. `Credentials.ts` verifies the tokens of requests. */
import { Clock, Duration, Effect, type Redacted } from "effect"
import { SqlClient } from "effect/sql"
import type { Scope } from "../../api/Access.ts"
import type { KeyId, MemberId, ProjectId } from "../../api/schema/Ids.ts"
import { Operator, recordAction } from "../../operating/Audit.ts"
import { ProjectUnknown, Refused, requireProject, servedProject } from "../../operating/Refusals.ts"
import { Settings } from "../../platform/Settings.ts"
import { pageOf, type Range } from "../../operating/Lists.ts"
import { livesHere } from "../../platform/MoveState.ts"
import * as Token from "./Credentials.ts"
import { state } from "./EndingKeys.ts"

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
  readonly state: "active" | "ending" | "expired" | "revoked"
}

/** A new key with its token, which can't be shown later. */
export interface IssuedKey {
  readonly keyId: KeyId
  readonly token: Redacted.Redacted
  readonly scopes: ReadonlyArray<Scope>
  readonly expiresAt: Date
}

/** The message does not repeat the id, which may be a whole token by mistake. */
const keyUnknown = "There is no such key: its id is the 12 characters of the token between `dk_` and the next `_`"

const memberUnusable = (member: string, isKnown: boolean) =>
  isKnown
    ? `Member "${member}" is not active, so no key can be issued for them`
    : `The project has no member "${member}"`

export const defaultLifetime = Duration.days(90)

const maxLifetime = Duration.days(366)

/** The ids of new keys begin with the name of the cell (a database with its processes), if there is one. */
const generate = Effect.flatMap(Settings, ({ cell }) => Token.generate(cell))

/** Issues a key for a project, or for one of its active members. */
export const issueKey = Effect.fn("issueKey")(function* ({
  expiresIn,
  member,
  name,
  projectId,
  ...given
}: {
  readonly projectId: ProjectId
  readonly name: string
  readonly scopes: ReadonlyArray<Scope>
  readonly expiresIn: Duration.Duration
  readonly member: string | null
}) {
  if (Duration.isGreaterThan(expiresIn, maxLifetime)) {
    const message = `A key can live for ${Duration.toDays(maxLifetime)} days at most`
    return yield* new Refused({ message })
  }
  const sql = yield* SqlClient.SqlClient
  const { keyId, token } = yield* generate
  const now = yield* Clock.currentTimeMillis
  const expiresAt = new Date(now + Duration.toMillis(expiresIn))
  const scopes = [...new Set(given.scopes)]
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
           (SELECT active FROM member) AS "memberActive"`
  if (verdict?.issued === true) return { keyId, token, scopes, expiresAt } satisfies IssuedKey
  return yield* verdict?.project === true && member !== null
    ? new Refused({ message: memberUnusable(member, verdict.memberActive !== null) })
    : new ProjectUnknown({ projectId })
})

export const listKeys = Effect.fn("listKeys")(function* (projectId: ProjectId, { after, limit }: Range) {
  const sql = yield* SqlClient.SqlClient
  yield* requireProject(sql, projectId)
  if (after !== null) {
    const known = yield* sql`SELECT FROM api_keys WHERE project_id = ${projectId} AND key_id = ${after}`
    if (known.length === 0) return yield* new Refused({ message: keyUnknown })
  }
  const following = sql`AND (created_at, key_id) < ((
    SELECT created_at FROM api_keys WHERE project_id = ${projectId} AND key_id = ${after}), ${after})`
  const rows = yield* sql<ApiKey>`
    SELECT key_id AS "keyId", name, scopes, member_id AS "memberId", expires_at AS "expiresAt",
      revoked_at AS "revokedAt", last_used_at AS "lastUsedAt", created_at AS "createdAt", ${sql.literal(state)} AS state
    FROM api_keys WHERE project_id = ${projectId} ${after === null ? sql.literal("") : following}
    ORDER BY created_at DESC, key_id DESC LIMIT ${limit + 1}::int`
  return pageOf(rows, limit, ({ keyId }) => keyId)
})

/** Revokes a key. A key that is already revoked does not change. */
export const revokeKey = Effect.fn("revokeKey")(function* (keyId: string) {
  const sql = yield* SqlClient.SqlClient
  const { actor } = yield* Operator
  const now = new Date(yield* Clock.currentTimeMillis)
  const [row] = yield* sql<{ readonly keyId: KeyId; readonly revokedAt: Date }>`
    WITH revoked AS (
      UPDATE api_keys SET revoked_at = coalesce(revoked_at, ${now}::timestamptz) FROM projects
      WHERE key_id = ${keyId} AND projects.project_id = api_keys.project_id AND ${livesHere(sql, sql`move_state`)}
      RETURNING api_keys.project_id, key_id, revoked_at
    ),
    ${recordAction(sql, { actor, action: "key.revoke", target: keyId }, "revoked")}
    SELECT key_id AS "keyId", revoked_at AS "revokedAt" FROM revoked`
  return row ?? (yield* new Refused({ message: keyUnknown }))
})

/** Issues a key with the rights and the whole lifetime of the old key, which expires after `grace`, or earlier by itself. */
export const rotateKey = Effect.fn("rotateKey")(function* (keyId: string, grace: Duration.Duration) {
  const sql = yield* SqlClient.SqlClient
  const { actor } = yield* Operator
  const { keyId: renewed, token } = yield* generate
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
      SELECT project_id, ${renewed}::text, ${Token.hash(token)}::bytea, name, scopes, member_id, lifetime,
             ${now}::timestamptz + lifetime, ${now}::timestamptz
      FROM renewed
      RETURNING project_id, expires_at
    ),
    ${recordAction(sql, { actor, action: "key.rotate", target: keyId, detail: { renewed } }, "issued")}
    SELECT scopes, member_id AS "memberId", revoked_at IS NOT NULL AS revoked, expires_at <= ${now} AS expired,
           (SELECT expires_at FROM issued) AS "expiresAt"
    FROM old`
  if (verdict === undefined) return yield* new Refused({ message: keyUnknown })
  const { expired, expiresAt, memberId, revoked, scopes } = verdict
  if (expiresAt !== null) return { keyId: renewed, token, scopes, expiresAt } satisfies IssuedKey
  const message =
    memberId === null || revoked || expired
      ? `Key ${keyId} ${revoked ? "is revoked" : "has expired"}: issue a new one`
      : memberUnusable(memberId, true)
  return yield* new Refused({ message })
})

interface RotationVerdict {
  readonly scopes: ReadonlyArray<Scope>
  readonly memberId: MemberId | null
  readonly revoked: boolean
  readonly expired: boolean
  readonly expiresAt: Date | null
}
