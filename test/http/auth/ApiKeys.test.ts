/** API keys under concurrent actions of operators. `cli/token` tests the rest. */
import { assert, layer } from "../../support/Vitest.ts"
import { DateTime, Duration, Effect, Fiber, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import { MemberId, type ProjectId } from "../../../src/api/schema/Ids.ts"
import { ApiKeys, KeyUnusable, MemberUnusable } from "../../../src/http/auth/ApiKeys.ts"
import { holding } from "../../support/Locks.ts"
import { makeProject } from "../../support/Projects.ts"
import { TestDatabase } from "../../support/TestDatabase.ts"

const services = ApiKeys.layerOf(Option.none()).pipe(Layer.provideMerge(TestDatabase.layer))

const anna = MemberId.make("anna")
const days = Duration.days

const issue = Effect.fnUntraced(function* (
  projectId: ProjectId,
  options: { expiresIn?: Duration.Duration; member?: MemberId } = {}
) {
  const keys = yield* ApiKeys
  return yield* keys.issue({
    projectId,
    name: "ci",
    scopes: ["crm.clients.read"],
    expiresIn: options.expiresIn ?? days(90),
    memberId: Option.fromUndefinedOr(options.member)
  })
})

const list = (projectId: ProjectId) =>
  Effect.flatMap(ApiKeys, (keys) =>
    Effect.map(keys.list(projectId, { after: null, limit: 1_000 }), ({ items }) => items)
  )

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

layer(services)("the service ApiKeys", (it) => {
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

  it.effect("makes a key for each of many concurrent rotations, and the shortest grace ends the old one", function* () {
    const { rotate } = yield* ApiKeys
    const projectId = yield* makeProject("many")
    const old = yield* issue(projectId)
    const now = yield* DateTime.now
    const graces = Array.from({ length: 40 }, (_, i) => days(1 + ((i * 7) % 40)))
    const issued = yield* Effect.forEach(graces, (grace) => rotate(old.keyId, grace), { concurrency: "unbounded" })
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
    const { revoke, rotate } = yield* ApiKeys
    const projectId = yield* makeProject("overtaken")
    const { expiresAt, keyId } = yield* issue(projectId)
    const [refusal] = yield* ahead(revoke(keyId), [Effect.flip(rotate(keyId, days(1)))])
    assert.deepStrictEqual(refusal, new KeyUnusable({ keyId, reason: "revoked" }))
    const stored = yield* list(projectId)
    assert.lengthOf(stored, 1)
    assert.deepStrictEqual(stored[0]?.expiresAt, expiresAt)
  })

  it.effect("issues and renews no key for a member who is being deactivated", function* () {
    const { rotate } = yield* ApiKeys
    const sql = yield* SqlClient.SqlClient
    const projectId = yield* makeProject("leaving")
    const { keyId } = yield* issue(projectId, { member: anna })
    const deactivation = sql`UPDATE members SET active = false WHERE project_id = ${projectId} AND id = ${anna}`
    const refusals = yield* ahead(deactivation, [
      Effect.flip(issue(projectId, { member: anna })),
      Effect.flip(rotate(keyId, days(1)))
    ])
    const inactive = new MemberUnusable({ memberId: anna, reason: "inactive" })
    assert.deepStrictEqual(refusals, [inactive, inactive])
    assert.lengthOf(yield* list(projectId), 1)
  })
})
