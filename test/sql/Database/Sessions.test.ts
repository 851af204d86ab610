/** How long PostgreSQL keeps the sessions of commands and workers, whose locks others wait for. */
import { assert, layer } from "../../support/Vitest.ts"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { ProjectId } from "../../../src/api/schema/Ids.ts"
import { sqlClients, DatabaseUrl } from "../../../src/sql/Connections.ts"
import { exportProject } from "../../../src/project/Export.ts"
import { makeProject } from "../../support/Projects.ts"
import { TestDatabase } from "../../support/TestDatabase.ts"

const url = Layer.unwrap(Effect.map(TestDatabase, ({ url }) => DatabaseUrl.at(url)))
const operator = Layer.provide(sqlClients.operator, url)

const settingsOf = (...names: ReadonlyArray<string>) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    Effect.map(
      sql<{ readonly value: string }>`
        SELECT current_setting(name) AS value FROM unnest(${names}::text[]) WITH ORDINALITY AS given (name, n) ORDER BY n`,
      (rows) => rows.map(({ value }) => value)
    )
  )

/** Keepalives of an idle session: the first, the interval and their number; and the longest wait for an acknowledgement. */
const lost = ["tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count", "tcp_user_timeout"]
const idle = "idle_in_transaction_session_timeout"

layer(TestDatabase.layer)("a session with locks", (it) => {
  it.effect(
    "ends about five seconds after its host is lost, whether it is idle or PostgreSQL sends to it",
    function* () {
      for (const client of [operator, Layer.provide(sqlClients.worker, url)]) {
        const values = yield* Effect.provide(settingsOf(...lost), client)
        assert.deepStrictEqual(values, ["2", "1", "3", "5000"])
      }
    }
  )

  it.effect(
    "of a command ends after a minute in which its transaction is idle, except for an export, which waits for its reader",
    () =>
      Effect.gen(function* () {
        yield* makeProject("read-slowly")
        const inSession = Effect.provideService(settingsOf(idle), SqlClient.SqlClient, yield* SqlClient.SqlClient)
        const written: Array<string> = []
        yield* exportProject(ProjectId.make("read-slowly"), () =>
          Effect.map(Effect.orDie(inSession), (values) => void written.push(...values))
        )
        assert.deepStrictEqual(written, ["0"])
        assert.deepStrictEqual(yield* settingsOf(idle), ["1min"])
      }).pipe(Effect.provide(operator))
  )
})

layer(TestDatabase.layer)("a session of every pool", (it) => {
  it.effect("has the limits and the isolation of its pool, whatever the role sets", function* () {
    const sql = yield* SqlClient.SqlClient
    const [names] = yield* sql<{ role: string; database: string }>`
      SELECT quote_ident(current_user) AS role, quote_ident(current_database()) AS database`
    const role = sql.literal(`${names?.role} IN DATABASE ${names?.database}`)
    yield* sql`ALTER ROLE ${role} SET default_transaction_isolation = 'serializable'`
    yield* sql`ALTER ROLE ${role} SET statement_timeout = '1ms'`
    yield* sql`ALTER ROLE ${role} SET lock_timeout = '1ms'`
    yield* sql`ALTER ROLE ${role} SET idle_session_timeout = '1ms'`
    const expected = ["read committed", "0"]
    for (const client of Object.values(sqlClients)) {
      const values = yield* Effect.provide(
        settingsOf("default_transaction_isolation", "idle_session_timeout", "statement_timeout", "lock_timeout"),
        Layer.provide(client, url)
      )
      assert.deepStrictEqual(values.slice(0, 2), expected)
      assert.notInclude(values, "1ms")
    }
  })

  it.effect(
    "survives a row above the driver's default limit, so that the statements beside it are answered",
    function* () {
      for (const client of [sqlClients.reads, sqlClients.mutations, sqlClients.operator]) {
        const answers = Effect.gen(function* () {
          const sql = yield* SqlClient.SqlClient
          const large = Effect.map(
            sql<{ readonly text: string }>`SELECT repeat('x', 17 << 20) AS text`,
            ([row]) => row?.text.length
          )
          const beside = sql<{ readonly answer: number }>`SELECT 1 AS answer FROM pg_sleep(0.01)`
          return yield* Effect.all([large, ...Array.from({ length: 40 }, () => beside)], { concurrency: "unbounded" })
        })
        const [length, ...others] = yield* Effect.provide(answers, Layer.provide(client, url))
        assert.strictEqual(length, 17 << 20)
        assert.lengthOf(others, 40)
      }
    }
  )
})
