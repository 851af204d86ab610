/** What commands that are repeated make grow: the number of rows, and no column of a row (contract §10). */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { type Answering, layerOf, openShop } from "../webhooks/delivery/Deliveries.support.ts"
import { TestServer } from "../support/TestServer.ts"

/** Returns the longest value of every column of every table, in bytes of its text. */
const longest = Effect.fnUntraced(function* (sql: SqlClient.SqlClient) {
  const columns = yield* sql<{ readonly text: string }>`
    SELECT format('SELECT %L AS name, max(octet_length(%I::text)) AS bytes FROM %I', relname || '.' || attname, attname, relname) AS text
    FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
    WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace AND attnum > 0 AND NOT attisdropped`
  return yield* sql<{ readonly name: string; readonly bytes: number | null }>`
    ${sql.literal(columns.map(({ text }) => text).join(" UNION ALL "))} ORDER BY name`
}, Effect.orDie)

const fail: Answering = ({ response }) => void response.writeHead(500).end("x".repeat(1_000))

layerOf({ WEBHOOK_RETRY_SCHEDULE: "50ms", WEBHOOK_KEEP_ALLOWED_ANSWERS: "true" })("a tenant", (it) => {
  it.effect("makes no column grow by changing, failing and retrying the same records", function* () {
    const server = yield* TestServer
    const shop = yield* openShop(server, fail)
    const { id } = yield* shop.created()
    let round = 0
    const rounds = Effect.fnUntraced(function* (count: number) {
      for (const end = round + count; round < end; round++) {
        yield* shop.finished
        const { version } = yield* shop.webhook()
        // Ends the parking of the endpoint, too.
        yield* shop.configure("shop", `${shop.to.url}?${round % 2}`, version)
        yield* shop.rotate("shop", version + 1)
        yield* shop.patched(id, { title: `Title ${round % 2}` })
        const [first = assert.fail()] = yield* shop.deliveries()
        assert.strictEqual((yield* shop.retry("shop", first.id)).status, 200)
      }
      yield* shop.finished
    })
    // Each retry is two attempts: after 15 of 20 retries the log of attempts is full.
    yield* rounds(15)
    const before = yield* longest(server.sql)
    yield* rounds(5)
    const grown = (yield* longest(server.sql)).flatMap(({ bytes, name }, i) => {
      const more = (bytes ?? 0) - (before[i]?.bytes ?? 0)
      // Numbers and durations of attempts may have more digits.
      return more > 256 ? [`${name}: ${more} bytes`] : []
    })
    assert.isAbove(before.length, 250)
    assert.deepStrictEqual(grown, [])
  })
})
