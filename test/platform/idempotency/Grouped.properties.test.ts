/** A group of commands against the same commands one by one. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import fc from "fast-check"
import { activeOf, clientNames, clientsOf, open, run, services, steps } from "./Grouped.support.ts"

let projects = 0

layer(services, { excludeTestServices: true })("commands of a group", (it) => {
  it.effect("have the same outcomes as one by one in every project", () =>
    Effect.gen(function* () {
      for (const some of fc.sample(steps, 20)) {
        const ids = [`group-${projects++}`, `group-${projects++}`]
        const together = yield* Effect.forEach(ids, (id) => open(id, null))
        const single = yield* open(`single-${projects++}`, null)
        const grouped = yield* Effect.forEach(
          together,
          (id) => Effect.forEach(some, (step) => run(id, step), { concurrency: "unbounded" }),
          { concurrency: "unbounded" }
        )
        const alone = yield* Effect.forEach(some, (step) => run(single, step))
        for (const [index, id] of together.entries()) {
          assert.deepStrictEqual(grouped[index], alone, JSON.stringify(some))
          assert.deepStrictEqual(yield* clientsOf(id), yield* clientsOf(single))
        }
      }
    })
  )

  it.effect("are one transaction in which a refused command has no effect on others", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const id = yield* open(`one-${projects++}`, null)
      const patched = clientNames.map((client) => ({
        key: `patch-${client}`,
        patch: [client, { firstName: "X" }] as const
      }))
      const results = yield* Effect.forEach(patched, (step) => run(id, step), { concurrency: "unbounded" })
      assert.deepStrictEqual(results, ["true 2 false", "true 2 false", "true 2 false", "client_archived"])
      const rows = yield* sql<{ readonly key: string; readonly transaction: string }>`
        SELECT key, xmin::text AS transaction FROM idempotency_keys WHERE project_id = ${id} ORDER BY key`
      assert.deepStrictEqual(
        rows.map(({ key }) => key),
        ["patch-ada", "patch-bob", "patch-cyd"]
      )
      assert.strictEqual(new Set(rows.map(({ transaction }) => transaction)).size, 1)
    })
  )

  it.effect("run once each, and concurrent repeats are replayed", () =>
    Effect.gen(function* () {
      for (const some of fc.sample(steps, 10)) {
        const id = yield* open(`repeated-${projects++}`, null)
        const creates = some.filter(({ create }) => create !== undefined)
        const repeated = [...creates, ...creates, ...creates]
        const results = yield* Effect.forEach(repeated, (step) => run(id, step), { concurrency: "unbounded" })
        assert.strictEqual(results.filter((result) => result === "true 1 false").length, creates.length)
        assert.strictEqual(results.filter((result) => result === "true 1 true").length, 2 * creates.length)
        assert.lengthOf(yield* clientsOf(id), clientNames.length + creates.length)
      }
    })
  )

  it.effect("take exactly the free places of their projects", () =>
    Effect.gen(function* () {
      for (const [count, capacity] of fc.sample(
        fc.tuple(fc.integer({ min: 1, max: 60 }), fc.integer({ min: 0, max: 40 })),
        25
      )) {
        const ids = yield* Effect.forEach([`full-${projects++}`, `full-${projects++}`], (id) => open(id, capacity))
        const results = yield* Effect.forEach(
          ids,
          (id) =>
            Effect.forEach(
              Array.from({ length: count }, (_, n) => ({ key: `create-${n}`, create: `client ${n}` })),
              (step) => run(id, step),
              { concurrency: "unbounded" }
            ),
          { concurrency: "unbounded" }
        )
        const free = Math.max(0, capacity - 3)
        for (const [index, id] of ids.entries()) {
          const created = results[index]?.filter((result) => result === "true 1 false").length
          assert.strictEqual(created, Math.min(count, free))
          assert.deepStrictEqual(yield* activeOf(id), {
            counted: 3 + Math.min(count, free),
            active: 3 + Math.min(count, free),
            capacity
          })
        }
      }
    })
  )

  it.effect("never exceed a capacity and count each client", () =>
    Effect.gen(function* () {
      for (const some of fc.sample(steps, 20)) {
        const capacity = 4
        const id = yield* open(`busy-${projects++}`, capacity)
        const results = yield* Effect.forEach(some, (step) => run(id, step), { concurrency: "unbounded" })
        for (const result of results) assert.notMatch(result, /Error|unavailable/)
        const row = yield* activeOf(id)
        assert.strictEqual(row?.counted, row?.active)
        assert.isAtMost(row?.active ?? Number.NaN, capacity)
      }
    })
  )
})
