/** API keys: issue, lifetime, revocation and rotation. */
import { assert, layer } from "../../../support/Vitest.ts"
import { DateTime, Duration, Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { scopes } from "../../../../src/api/Access.ts"
import { KeyId, MemberId, ProjectId } from "../../../../src/api/schema/Ids.ts"
import {
  ApiKeys,
  ExpiryTooLong,
  KeyUnknown,
  KeyUnusable,
  MemberUnusable
} from "../../../../src/platform/requests/auth/ApiKeys.ts"
import * as Token from "../../../../src/platform/requests/auth/Token.ts"
import { ProjectUnknown } from "../../../../src/platform/operators/ProjectUnknown.ts"
import { makeProject } from "../../../support/Projects.ts"
import { anna, days, issue, later, list, services } from "./ApiKeys.support.ts"

const unknownProject = ProjectId.make("nobody")
const unknownKey = KeyId.make("000000000000")

const storedHash = Effect.fnUntraced(function* (keyId: KeyId) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ hash: Uint8Array }>`SELECT token_hash AS hash FROM api_keys WHERE key_id = ${keyId}`
  return rows[0]?.hash ?? new Uint8Array()
})

layer(services)("the service ApiKeys", (it) => {
  it.effect("issues a key and stores only a hash of its token", function* () {
    const projectId = yield* makeProject("issues")
    const now = yield* DateTime.nowAsDate
    const key = yield* issue(projectId, { scopes: ["messaging.read", "crm.clients.read", "messaging.read"] })
    assert.deepStrictEqual(key.scopes, ["messaging.read", "crm.clients.read"])
    assert.deepStrictEqual(key.expiresAt, later(now, days(90)))
    assert.strictEqual(Token.present(Redacted.value(key.token))?.keyId, key.keyId)
    assert.isTrue(Token.sameHash(yield* storedHash(key.keyId), Token.hash(key.token)))
    assert.deepStrictEqual(yield* list(projectId), [
      {
        keyId: key.keyId,
        name: "ci",
        scopes: ["messaging.read", "crm.clients.read"],
        memberId: null,
        expiresAt: key.expiresAt,
        revokedAt: null,
        lastUsedAt: null,
        createdAt: now
      }
    ])
  })

  it.effect("issues keys for active members of the project only", function* () {
    const projectId = yield* makeProject("members")
    yield* makeProject("members of another")
    const sql = yield* SqlClient.SqlClient
    yield* sql`
      INSERT INTO members (project_id, id, name, active) VALUES ('members of another', 'theirs', 'Theirs', true)`
    yield* issue(projectId, { member: anna })
    const refused = (member: string) => Effect.flip(issue(projectId, { member: MemberId.make(member) }))
    assert.deepStrictEqual(yield* refused("left"), new MemberUnusable({ memberId: "left", reason: "inactive" }))
    assert.deepStrictEqual(yield* refused("theirs"), new MemberUnusable({ memberId: "theirs", reason: "unknown" }))
    assert.deepStrictEqual(
      (yield* list(projectId)).map(({ memberId }) => memberId),
      [anna]
    )
  })

  it.effect("finds no keys in an unknown project", function* () {
    const unknown = new ProjectUnknown({ projectId: unknownProject })
    assert.deepStrictEqual(yield* Effect.flip(issue(unknownProject)), unknown)
    assert.deepStrictEqual(yield* Effect.flip(issue(unknownProject, { member: anna })), unknown)
    assert.deepStrictEqual(yield* Effect.flip(list(unknownProject)), unknown)
  })

  it.effect("limits the life of a key to 366 days", function* () {
    const projectId = yield* makeProject("lifetimes")
    yield* issue(projectId, { expiresIn: days(366) })
    for (const expiresIn of [Duration.sum(days(366), Duration.millis(1)), days(999_999_999)]) {
      assert.instanceOf(yield* Effect.flip(issue(projectId, { expiresIn })), ExpiryTooLong)
    }
    assert.lengthOf(yield* list(projectId), 1)
  })

  it.effect("lists the keys of one project, newest first", function* () {
    const projectId = yield* makeProject("lists")
    assert.deepStrictEqual(yield* list(projectId), [])
    yield* Effect.forEach(["first", "second", "third"], (name) =>
      Effect.andThen(issue(projectId, { name }), TestClock.adjust("1 second"))
    )
    yield* issue(yield* makeProject("lists another"))
    assert.deepStrictEqual(
      (yield* list(projectId)).map(({ name }) => name),
      ["third", "second", "first"]
    )
  })

  it.effect("revokes a key once, and changes nothing the second time", function* () {
    const { revoke } = yield* ApiKeys
    const projectId = yield* makeProject("revokes")
    const { keyId } = yield* issue(projectId)
    const other = yield* issue(projectId)
    const revokedAt = yield* DateTime.nowAsDate
    assert.deepStrictEqual(yield* revoke(keyId), { keyId, revokedAt })
    yield* TestClock.adjust("1 hour")
    assert.deepStrictEqual(yield* revoke(keyId), { keyId, revokedAt })
    assert.instanceOf(yield* Effect.flip(revoke(unknownKey)), KeyUnknown)
    const states = (yield* list(projectId)).map(({ keyId, revokedAt }) => ({ keyId, revokedAt }))
    assert.sameDeepMembers(states, [
      { keyId, revokedAt },
      { keyId: other.keyId, revokedAt: null }
    ])
  })

  it.effect("rotates to a key with the same rights and life, and ends the old one after the grace", function* () {
    const { rotate } = yield* ApiKeys
    const projectId = yield* makeProject("rotates")
    const old = yield* issue(projectId, { name: "bot", scopes, expiresIn: days(30), member: anna })
    const before = yield* list(projectId)
    yield* TestClock.adjust("10 days")
    const now = yield* DateTime.nowAsDate
    const key = yield* rotate(old.keyId, days(1))
    assert.notStrictEqual(Redacted.value(key.token), Redacted.value(old.token))
    assert.isTrue(Token.sameHash(yield* storedHash(key.keyId), Token.hash(key.token)))
    assert.deepStrictEqual(key.scopes, scopes)
    assert.deepStrictEqual(key.expiresAt, later(now, days(30)))
    assert.deepStrictEqual(yield* list(projectId), [
      {
        keyId: key.keyId,
        name: "bot",
        scopes,
        memberId: anna,
        expiresAt: key.expiresAt,
        revokedAt: null,
        lastUsedAt: null,
        createdAt: now
      },
      ...before.map((key) => ({ ...key, expiresAt: later(now, days(1)) }))
    ])
  })

  it.effect("does not extend the old key by a rotation", function* () {
    const { rotate } = yield* ApiKeys
    const projectId = yield* makeProject("prolongs")
    const old = yield* issue(projectId, { expiresIn: days(2) })
    for (const grace of [days(3), days(999_999_999)]) {
      yield* rotate(old.keyId, grace)
      const listed = (yield* list(projectId)).find(({ keyId }) => keyId === old.keyId)
      assert.deepStrictEqual(listed?.expiresAt, old.expiresAt)
    }
  })

  it.effect("refuses to rotate a key that is unknown, revoked, expired or of an inactive member", function* () {
    const { revoke, rotate } = yield* ApiKeys
    const sql = yield* SqlClient.SqlClient
    const projectId = yield* makeProject("refuses")
    const refusal = (keyId: KeyId) => Effect.flip(rotate(keyId, days(1)))
    const revoked = yield* issue(projectId)
    yield* revoke(revoked.keyId)
    const expired = yield* issue(projectId, { expiresIn: days(1) })
    const memberKey = yield* issue(projectId, { member: anna })
    yield* TestClock.adjust(days(1))
    yield* sql`UPDATE members SET active = false WHERE project_id = ${projectId}`
    const before = yield* list(projectId)

    assert.instanceOf(yield* refusal(unknownKey), KeyUnknown)
    assert.deepStrictEqual(yield* refusal(revoked.keyId), new KeyUnusable({ keyId: revoked.keyId, reason: "revoked" }))
    assert.deepStrictEqual(yield* refusal(expired.keyId), new KeyUnusable({ keyId: expired.keyId, reason: "expired" }))
    assert.deepStrictEqual(yield* refusal(memberKey.keyId), new MemberUnusable({ memberId: anna, reason: "inactive" }))
    assert.deepStrictEqual(yield* list(projectId), before)
  })
})
