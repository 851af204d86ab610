/** API keys under concurrent actions of operators. `cli/token` tests the rest. */
import * as fc from "fast-check"
import { assert, describe, it, layer } from "../../support/Vitest.ts"
import { DateTime, Duration, Effect, Fiber, Layer, Option, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import type { ProjectId } from "../../../src/api/schema/Ids.ts"
import { issueKey, listKeys, revokeKey, rotateKey } from "../../../src/http/auth/ApiKeys.ts"
import { holding } from "../../support/Locks.ts"
import { Operator } from "../../../src/operating/Audit.ts"
import { Refused } from "../../../src/operating/Refusals.ts"
import { makeProject, usualSettings } from "../../support/Projects.ts"
import { TestDatabase } from "../../support/TestDatabase.ts"
import { crc32 } from "node:zlib"
import { checksum, generate, hash, present } from "../../../src/http/auth/Credentials.ts"

const services = Layer.mergeAll(TestDatabase.layer, usualSettings, Layer.succeed(Operator, { actor: "test" }))

const anna = "anna"
const days = Duration.days

const issue = (projectId: ProjectId, options: { expiresIn?: Duration.Duration; member?: string } = {}) =>
  issueKey({
    projectId,
    name: "ci",
    scopes: ["crm.clients.read"],
    expiresIn: options.expiresIn ?? days(90),
    member: options.member ?? null
  })

const list = (projectId: ProjectId) =>
  Effect.map(listKeys(projectId, { after: null, limit: 1_000 }), ({ items }) => items)

/** Waits in real time until this many statements wait for a lock; the test clock does not advance. */
const untilWaiting = (count: number) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    // A transaction has a separate connection, so this query is not queued behind a waiting statement.
    const rows = yield* sql.withTransaction(sql`
      SELECT FROM pg_stat_activity, pg_sleep(0.02) WHERE wait_event_type = 'Lock' AND datname = current_database()`)
    return rows.length
  }).pipe(Effect.repeat({ until: (waiting) => waiting >= count }))

/** Runs `first` in a transaction that commits once the others, begun after it, all wait for it. */
const ahead = Effect.fnUntraced(function* <A, E, R, R2>(
  first: Effect.Effect<A, E, R>,
  others: ReadonlyArray<Effect.Effect<unknown, unknown, R2>>
) {
  const sql = yield* SqlClient.SqlClient
  const { release } = yield* holding(sql, first)
  const waiting = yield* Effect.forEach(others, (other) => Effect.forkChild(sql.withTransaction(other)))
  yield* untilWaiting(others.length)
  yield* release
  return yield* Effect.forEach(waiting, Fiber.join)
})

layer(services)("API keys", (it) => {
  it.effect("does not extend the old key by a rotation", function* () {
    const projectId = yield* makeProject("prolongs")
    const old = yield* issue(projectId, { expiresIn: days(2) })
    for (const grace of [days(3), days(999_999_999)]) {
      yield* rotateKey(old.keyId, grace)
      const listed = (yield* list(projectId)).find(({ keyId }) => keyId === old.keyId)
      assert.deepStrictEqual(listed?.expiresAt, old.expiresAt)
    }
  })

  it.effect("makes a key for each of many concurrent rotations, and the shortest grace ends the old one", function* () {
    const projectId = yield* makeProject("many")
    const old = yield* issue(projectId)
    const now = yield* DateTime.now
    const graces = Array.from({ length: 40 }, (_, i) => days(1 + ((i * 7) % 40)))
    const issued = yield* Effect.forEach(graces, (grace) => rotateKey(old.keyId, grace), { concurrency: "unbounded" })
    const stored = yield* list(projectId)
    assert.strictEqual(new Set(issued.map(({ keyId }) => keyId)).size, 40)
    assert.sameMembers(
      stored.map(({ keyId }) => keyId),
      [old.keyId, ...issued.map(({ keyId }) => keyId)]
    )
    assert.deepStrictEqual(
      stored.find(({ keyId }) => keyId === old.keyId)?.expiresAt,
      DateTime.toDateUtc(DateTime.addDuration(now, days(1)))
    )
  })

  it.effect("makes no key for a rotation that follows a revocation", function* () {
    const projectId = yield* makeProject("overtaken")
    const { expiresAt, keyId } = yield* issue(projectId)
    const [refusal] = yield* ahead(revokeKey(keyId), [Effect.flip(rotateKey(keyId, days(1)))])
    assert.deepStrictEqual(refusal, new Refused({ message: `Key ${keyId} is revoked: issue a new one` }))
    const stored = yield* list(projectId)
    assert.lengthOf(stored, 1)
    assert.deepStrictEqual(stored[0]?.expiresAt, expiresAt)
  })

  it.effect("issues and renews no key for a member who is being deactivated", function* () {
    const sql = yield* SqlClient.SqlClient
    const projectId = yield* makeProject("leaving")
    const { keyId } = yield* issue(projectId, { member: anna })
    const deactivation = sql`UPDATE members SET active = false WHERE project_id = ${projectId} AND id = ${anna}`
    const refusals = yield* ahead(deactivation, [
      Effect.flip(issue(projectId, { member: anna })),
      Effect.flip(rotateKey(keyId, days(1)))
    ])
    const inactive = new Refused({ message: 'Member "anna" is not active, so no key can be issued for them' })
    assert.deepStrictEqual(refusals, [inactive, inactive])
    assert.lengthOf(yield* list(projectId), 1)
  })
})

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
const base62 = (length: number) =>
  fc.string({ unit: fc.constantFrom(...alphabet), minLength: length, maxLength: length })

/** Any token that could be issued. */
const token = fc.tuple(base62(12), base62(32)).map(([keyId, secret]) => {
  const body = `dk_${keyId}_${secret}`
  return { keyId, text: body + checksum(body) }
})

const read = (text: string) => present(text)?.keyId

describe("a generated token", () => {
  it.effect("is well-formed, unique and contains its key id", function* () {
    const issued = yield* Effect.replicateEffect(generate(Option.none()), 1000)
    for (const { keyId, token } of issued) {
      assert.match(Redacted.value(token), /^dk_[0-9A-Za-z]{12}_[0-9A-Za-z]{38}$/)
      assert.strictEqual(read(Redacted.value(token)), keyId)
    }
    assert.strictEqual(new Set(issued.map(({ keyId }) => keyId)).size, 1000)
    // One of the 62 characters is missing among 44,000 random ones with a probability of e^-700.
    const characters = new Set(issued.map(({ token }) => Redacted.value(token).slice(3)).join(""))
    assert.strictEqual(characters.size, alphabet.length + "_".length)
  })
})

describe("a presented token", () => {
  it("is refused with one character changed, left out, added or moved", () => {
    const place = fc.nat(54)
    const character = fc.oneof(fc.constantFrom(...alphabet), fc.string({ unit: "binary", minLength: 1, maxLength: 1 }))
    fc.assert(
      fc.property(token, place, character, ({ text }, at, other) => {
        const before = text.slice(0, at)
        const after = text.slice(at + 1)
        const moved = before + (text[at + 1] ?? "") + (text[at] ?? "") + text.slice(at + 2)
        return [before + other + after, before + after, before + other + text.slice(at), moved].every(
          (changed) => changed === text || read(changed) === undefined
        )
      }),
      { numRuns: 500 }
    )
  })

  it("is refused when it is other text or has whitespace around it", () => {
    fc.assert(fc.property(fc.string({ unit: "binary" }), (text) => read(text) === undefined))
    fc.assert(
      fc.property(token, ({ text }) => [`${text}\n`, ` ${text}`, `${text} `].every((t) => read(t) === undefined))
    )
  })
})

describe("the checksum of a token", () => {
  it("is the CRC-32 in base62, in six digits", () => {
    const number = (text: string) => [...text].reduce((sum, digit) => sum * 62n + BigInt(alphabet.indexOf(digit)), 0n)
    fc.assert(
      fc.property(fc.string({ unit: "binary-ascii" }), (text) => {
        assert.match(checksum(text), /^[0-9A-Za-z]{6}$/)
        assert.strictEqual(number(checksum(text)), BigInt(crc32(text)))
      })
    )
  })
})

describe("the hash of a token", () => {
  it("is the SHA-256 of the whole token", () => {
    const hex = (text: string) => Buffer.from(hash(Redacted.make(text))).toString("hex")
    // FIPS 180-2, appendix B.1
    assert.strictEqual(hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
  })
})
