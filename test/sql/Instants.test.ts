import { assert, it, layer } from "../support/Vitest.ts"
import { SqlClient } from "effect/sql"
import fc from "fast-check"
import { formatInstant, registerTimestamps } from "../../src/sql/Instants.ts"
import { TestDatabase } from "../support/TestDatabase.ts"

registerTimestamps()

const instant = fc.date({
  min: new Date("0001-01-01T00:00:00Z"),
  max: new Date("9999-12-31T23:59:59.999Z"),
  noInvalidDate: true
})

const edges = ["0001-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z", "1999-12-31T23:59:59.999Z"]

layer(TestDatabase.layer)("instants of PostgreSQL", (it) => {
  it.effect("are formatted as the contract says in every year", function* () {
    const sql = yield* SqlClient.SqlClient
    const texts = [...fc.sample(instant, 200).map((date) => date.toISOString()), ...edges]
    const rows = yield* sql<{ readonly at: string }>`
      SELECT at AT TIME ZONE 'UTC' AS at FROM unnest(${texts}::timestamptz(3)[]) WITH ORDINALITY AS given (at, ordinal)
      ORDER BY ordinal`
    assert.deepStrictEqual(
      rows.map(({ at }) => at),
      texts
    )
  })

  it.effect("are the same as parameters and as columns in every year", function* () {
    const sql = yield* SqlClient.SqlClient
    for (const date of [...fc.sample(instant, 100), ...edges.map((edge) => new Date(edge))]) {
      const [row] = yield* sql<{ readonly same: boolean; readonly at: Date }>`
        SELECT ${date}::timestamptz = ${date.toISOString()}::timestamptz AS same, ${date}::timestamptz AS at`
      assert.deepStrictEqual(row, { same: true, at: date }, date.toISOString())
    }
  })
})

it("instants are formatted like Date.prototype.toISOString", () => {
  fc.assert(fc.property(instant, (date) => assert.strictEqual(formatInstant(date.getTime()), date.toISOString())))
})
