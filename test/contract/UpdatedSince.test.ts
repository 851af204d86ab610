/** Walks over the changes of clients and deals, which are committed in another order than that of their times (contract §7). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import * as fc from "fast-check"
import { receiptOf } from "../support/ContractAnswers.ts"
import { put } from "../support/Rows.ts"
import { TestServer } from "../support/TestServer.ts"
import * as Clients from "./Clients.support.ts"
import * as Deals from "./Deals.support.ts"
import { newKey } from "./Requests.ts"

interface Change {
  readonly id: string
  readonly version: number
  readonly updatedAt: string
}

const at = (millis: number) => new Date(millis).toISOString()

const since = (newest: string) => `updatedSince=${at(Date.parse(newest) - 60_000)}`

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("a walk over changes", (it) => {
  it.effect("ends 20 s after its first page, so that the next walk has what was committed behind it", function* () {
    const { page, projectId, server } = yield* Clients.open()
    const insert = (id: string, seconds: number) =>
      put(server.sql, "clients", { project_id: projectId, id, updated_at: at(now + seconds * 1_000) })
    const now = Date.now()
    for (const seconds of [-300, -200, -100, -1]) yield* insert(`at ${seconds}`, seconds)
    let next = yield* page(`updatedSince=${at(now - 300_000)}&limit=1`)
    const seen: Array<Change> = []
    while (true) {
      seen.push(...next.items)
      if (next.nextCursor === null) break
      // Committed late, the last two behind the walk, and by other hosts ahead of it.
      if (seen.length === 2) for (const seconds of [5, 15, 60, 120]) yield* insert(`at ${seconds}`, seconds)
      if (seen.length === 5) for (const seconds of [-7, -2]) yield* insert(`at ${seconds}`, seconds)
      next = yield* page(`updatedSince=${at(now - 300_000)}&limit=1&cursor=${next.nextCursor}`)
    }
    assert.deepStrictEqual(
      seen.map(({ id }) => id),
      ["at -300", "at -200", "at -100", "at -1", "at 5", "at 15"]
    )
    const again = yield* page(since(seen.at(-1)?.updatedAt ?? assert.fail()))
    assert.deepStrictEqual(
      again.items.map(({ id }) => id),
      ["at -7", "at -2", "at -1", "at 5", "at 15", "at 60", "at 120"]
    )
  })

  it.effect("misses no change of 16 writers, of a long transaction and of project files", function* () {
    const { apply, created, page, patch, projectId, server } = yield* Deals.open()
    const deals = yield* Effect.forEach(Array.from({ length: 16 }), () => created({}), { concurrency: "unbounded" })
    const known = new Map<string, number>()
    let newest = at(Date.now() - 60_000)
    const walk = Effect.gen(function* () {
      const from = `lifecycle=all&limit=7&${since(newest)}`
      let next = yield* page(from)
      while (true) {
        for (const { id, updatedAt, version } of next.items) {
          known.set(id, Math.max(version, known.get(id) ?? 0))
          if (updatedAt > newest) newest = updatedAt
        }
        if (next.nextCursor === null) return
        next = yield* page(`${from}&cursor=${next.nextCursor}`)
      }
    })
    // Holds one row for as long as a statement may wait for it, so that its patch is committed last.
    const hold = (id: string, millis: number) =>
      server.sql.withTransaction(
        Effect.andThen(
          server.sql`SELECT FROM deals WHERE project_id = ${projectId} AND id = ${id} FOR UPDATE`,
          Effect.sleep(millis)
        )
      )
    const rounds = fc.array(
      fc.record({ held: fc.nat(15), millis: fc.nat(60), isFile: fc.boolean(), walks: fc.nat(2) }),
      {
        minLength: 3,
        maxLength: 6
      }
    )
    for (const some of fc.sample(rounds, 5)) {
      for (const { held, isFile, millis, walks } of some) {
        const one = deals[held]?.id ?? assert.fail()
        const writers = deals.map(({ id }, index) =>
          Effect.map(patch(id, { title: `${newKey()} ${index}` }), (answer) => receiptOf(answer, 200))
        )
        const file = isFile ? apply({ deals: [{ id: one, title: newKey() }] }) : Effect.void
        yield* Effect.all([hold(one, millis), ...writers, file, ...Array.from({ length: walks }, () => walk)], {
          concurrency: "unbounded"
        })
      }
      yield* walk
      const stored = yield* server.sql<Change>`SELECT id, version FROM deals WHERE project_id = ${projectId}`
      assert.deepStrictEqual(
        [...known].toSorted(),
        stored.map(({ id, version }): [string, number] => [id, version]).toSorted()
      )
    }
  })
})
