/** The function that determines the first client of an address, compared with its definition in contract §9. */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import * as fc from "fast-check"
import { SqlClient } from "effect/sql"
import { TestDatabase } from "../support/TestDatabase.ts"

type Clients = ReadonlyArray<ReadonlyArray<number>>

const verdictsOf = Effect.fnUntraced(function* (clients: Clients, pairCount: number) {
  const sql = yield* SqlClient.SqlClient
  const owners = clients.flatMap((pairs, index) => pairs.map(() => index + 1))
  const [row] = yield* sql<{ readonly verdicts: ReadonlyArray<number> }>`
    SELECT first_come(${owners}::int[], ${clients.flat()}::int[], ${clients.length}, ${pairCount}) AS verdicts`
  return row?.verdicts
})

/** Returns a verdict for each client: 0 without pairs, 2 if an earlier client of verdict 1 has a pair of it, otherwise 1. */
const expected = (clients: Clients) => {
  const taken = new Set<number>()
  return clients.map((pairs) => {
    if (pairs.length === 0) return 0
    if (pairs.some((pair) => taken.has(pair))) return 2
    for (const pair of pairs) taken.add(pair)
    return 1
  })
}

layer(TestDatabase.layer)("the SQL function first_come", (it) => {
  it.effect("assigns addresses in order, each to one client", function* () {
    const chain = Array.from({ length: 20_000 }, (_, index) => [index + 1, index + 2])
    assert.deepStrictEqual(yield* verdictsOf(chain, 20_001), expected(chain))
    for (const clients of fc.sample(
      fc.array(fc.array(fc.integer({ min: 1, max: 60 }), { maxLength: 3 }), { maxLength: 80 }),
      100
    )) {
      assert.deepStrictEqual(yield* verdictsOf(clients, 60), expected(clients), JSON.stringify(clients))
    }
  })
})
