import { assert, describe, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import fc from "fast-check"
import { formatInstant, registerTimestamps } from "../../src/platform/Instants.ts"
import { TestDatabase } from "../support/TestDatabase.ts"

registerTimestamps()

const instant = fc.date({
  min: new Date("0001-01-01T00:00:00Z"),
  max: new Date("9999-12-31T23:59:59.999Z"),
  noInvalidDate: true
})

describe("instants", () => {
  layer(TestDatabase.layer)("instants of PostgreSQL", (it) => {
    it.effect("are formatted as the contract says in every year", () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        const edges = ["0001-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z", "1999-12-31T23:59:59.999Z"]
        const texts = [...fc.sample(instant, 200).map((date) => date.toISOString()), ...edges]
        const rows = yield* sql<{ readonly at: string }>`
          SELECT at AT TIME ZONE 'UTC' AS at FROM unnest(${texts}::timestamptz(3)[]) WITH ORDINALITY AS given (at, ordinal)
          ORDER BY ordinal`
        assert.deepStrictEqual(
          rows.map(({ at }) => at),
          texts
        )
      })
    )

    it.effect("format like Date.prototype.toISOString", () =>
      Effect.sync(() =>
        fc.assert(fc.property(instant, (date) => assert.strictEqual(formatInstant(date.getTime()), date.toISOString())))
      )
    )
  })
})
