import { assert, describe, it, layer } from "../../support/Vitest.ts"
import { Clock, Duration, Effect, Fiber, Latch, Layer, Option, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { KeyId, ProjectId } from "../../../src/api/schema/Ids.ts"
import { issueKey } from "../../../src/http/auth/ApiKeys.ts"
import { Credentials, makeKeyReads, maxWaiting, present } from "../../../src/http/auth/Credentials.ts"
import { monotonicMillis } from "../../../src/platform/MonotonicTime.ts"
import { subscribe } from "../../support/Events.ts"
import { eventTypes } from "../../../src/api/integrations/Events.ts"
import { usualSettings } from "../../support/Projects.ts"
import { TestDatabase } from "../../support/TestDatabase.ts"
import { ServiceUnavailable } from "../../../src/api/Problems.ts"

const projectId = ProjectId.make("p")

const issue = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    INSERT INTO projects (project_id, name, time_zone, modules, entitlements, rate_limits, created_at)
    VALUES (${projectId}, 'P', 'UTC', '{crm}', '{developer_api}', '{"read":{"limit":5,"windowSeconds":1}}', now())
    ON CONFLICT DO NOTHING`
  return yield* issueKey({
    projectId,
    name: "n",
    scopes: ["crm.clients.read"],
    expiresIn: Duration.days(1),
    member: null
  })
})

const verify = (token: Redacted.Redacted) =>
  Effect.flatMap(Credentials, (credentials) => {
    const presented = present(Redacted.value(token))
    return presented === undefined ? Effect.succeedNone : credentials.verify(presented)
  })

const isValid = (token: Redacted.Redacted) => Effect.map(verify(token), Option.isSome)

const lastUsedAt = (keyId: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const [row] = yield* sql<{ at: Date | null }>`SELECT last_used_at AS at FROM api_keys WHERE key_id = ${keyId}`
    return row?.at?.getTime()
  })

/** Repeats the read until the background write is done. */
const used = (keyId: string, at: number) => lastUsedAt(keyId).pipe(Effect.repeat({ until: (seen) => seen === at }))

layer(Layer.mergeAll(Credentials.layer, usualSettings).pipe(Layer.provideMerge(TestDatabase.layer)))(
  "credentials",
  (it) => {
    it.effect("carry the rights of the key and the settings of its project", function* () {
      const { keyId, token } = yield* issue
      const { credential } = Option.getOrThrow(yield* verify(token))
      assert.strictEqual(credential.keyId, keyId)
      assert.deepStrictEqual(credential.scopes, ["crm.clients.read"])
      assert.isTrue(credential.membership)
      assert.strictEqual(credential.buckets.read.description, '"read";q=5;w=1')
      assert.strictEqual(credential.buckets.write.description, '"write";q=300;w=60')
    })

    it.effect("carry each type of event that a webhook of the project wants once", function* () {
      const sql = yield* SqlClient.SqlClient
      const { token } = yield* issue
      for (const id of ["one", "two"]) yield* subscribe(sql, projectId, id)
      const { credential } = Option.getOrThrow(yield* verify(token))
      assert.sameMembers([...credential.eventTypes], [...eventTypes])
    })

    it.effect("end within a second of a revocation, also though the clock is set back", function* () {
      const sql = yield* SqlClient.SqlClient
      for (const back of [0, 3_600_000]) {
        yield* TestClock.setTime(7_200_000)
        const { keyId, token } = yield* issue
        assert.isTrue(yield* isValid(token))
        yield* sql`UPDATE api_keys SET revoked_at = now() WHERE key_id = ${keyId}`
        yield* TestClock.setTime(7_200_000 - back)
        yield* TestClock.adjust(Duration.millis(999))
        assert.isFalse(yield* isValid(token))
      }
    })

    it.effect("are found within a second of their issue", function* () {
      const { keyId, token } = yield* issue
      const sql = yield* SqlClient.SqlClient
      yield* sql`UPDATE api_keys SET revoked_at = now() WHERE key_id = ${keyId}`
      assert.isFalse(yield* isValid(token))
      yield* sql`UPDATE api_keys SET revoked_at = NULL WHERE key_id = ${keyId}`
      yield* TestClock.adjust(Duration.millis(999))
      assert.isTrue(yield* isValid(token))
    })

    it.effect("expire with their key to the millisecond", function* () {
      const { expiresAt, token } = yield* issue
      yield* TestClock.setTime(expiresAt.getTime() - 1)
      const { until } = Option.getOrThrow(yield* verify(token))
      assert.approximately(until - monotonicMillis(yield* Clock.Clock), 1, 0.001)
      yield* TestClock.adjust(Duration.millis(1))
      assert.isFalse(yield* isValid(token))
    })

    it.effect("record their use at most once a minute", function* () {
      yield* TestClock.setTime(3_600_000)
      const { keyId, token } = yield* issue
      yield* isValid(token)
      assert.strictEqual(yield* used(keyId, 3_600_000), 3_600_000)
      yield* TestClock.adjust(Duration.seconds(59))
      yield* isValid(token)
      yield* TestClock.adjust(Duration.seconds(1))
      yield* isValid(token)
      assert.strictEqual(yield* used(keyId, 3_660_000), 3_660_000)
    })
  }
)

const idOf = (n: number) => KeyId.make(`key${String(n).padStart(9, "0")}`)
const valid = KeyId.make("validvalid01")

/** A table with one key, and the reads of it. */
const open = Effect.gen(function* () {
  const reads: Array<ReadonlyArray<KeyId>> = []
  const table = { available: true, keys: new Set([valid]), answers: yield* Latch.make(true) }
  const read = makeKeyReads(yield* Clock.Clock, (keyIds) => {
    reads.push(keyIds)
    return Effect.andThen(
      table.answers.await,
      Effect.suspend(() =>
        table.available
          ? Effect.succeed(keyIds.filter((keyId) => table.keys.has(keyId)).map((keyId) => ({ keyId })))
          : Effect.fail(new ServiceUnavailable({ detail: "" }))
      )
    )
  })
  const isFound = (keyId: KeyId) => Effect.map(read(keyId), ({ key }) => key !== undefined)
  const invent = (count: number) =>
    Effect.forEach(
      Array.from({ length: count }, (_, n) => idOf(n)),
      (keyId): Effect.Effect<boolean | string> => Effect.catch(isFound(keyId), () => Effect.succeed("refused")),
      { concurrency: "unbounded" }
    )
  return { reads, table, isFound, invent }
})

describe("reads of API keys", () => {
  it.effect("are few for the invented tokens of one turn, and none for an id that was just missing", function* () {
    const { invent, isFound, reads } = yield* open
    assert.deepStrictEqual(new Set(yield* invent(2_000)), new Set<boolean | string>([false]))
    assert.isAtMost(reads.length, 6)
    const before = reads.length
    assert.isFalse(yield* isFound(idOf(1_999)))
    assert.strictEqual(reads.length, before)
  })

  it.effect("of unknown keys wait in bounded number, and never before those of known ones", function* () {
    const { invent, isFound, reads, table } = yield* open
    assert.isTrue(yield* isFound(valid))
    yield* TestClock.adjust(Duration.seconds(1))
    table.answers.closeUnsafe()
    const answers = yield* Effect.forkChild(invent(maxWaiting + 1_000))
    while (reads.length < 3) yield* Effect.yieldNow
    const known = yield* Effect.forkChild(isFound(valid))
    while (!reads.some((keyIds) => keyIds.includes(valid)) || reads.length < 4) yield* Effect.yieldNow
    assert.deepStrictEqual(reads.at(-1), [valid])
    table.answers.openUnsafe()
    assert.isTrue(yield* Fiber.join(known))
    const refused = (yield* Fiber.join(answers)).filter((answer) => answer === "refused")
    // Those of the statements in flight do not wait.
    assert.isTrue(refused.length > 0 && refused.length <= 1_000)
    assert.deepStrictEqual(new Set(yield* invent(1_000)), new Set<boolean | string>([false]))
  })

  it.effect("fail for all that wait when the database does not answer, and succeed again afterwards", function* () {
    const { invent, isFound, table } = yield* open
    table.available = false
    assert.deepStrictEqual(new Set(yield* invent(20)), new Set<boolean | string>(["refused"]))
    table.available = true
    assert.isTrue(yield* isFound(valid))
  })
})
