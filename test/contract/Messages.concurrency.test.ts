/** Concurrent equal sends, and callers that disconnect before the answer (contract §5, §8). */
import { PgClient } from "@effect/sql-pg"
import { assert, layer } from "../support/Vitest.ts"
import { Context, Effect, Fiber, Layer, Redacted } from "effect"
import { type Answering, status } from "../webhooks/delivery/Deliveries.support.ts"
import { problemOf } from "../support/ContractAnswers.ts"
import type { Answer } from "../support/ContractHttp.ts"
import { sendOf } from "../support/MessagingAnswers.ts"
import { startServer, TestServer } from "../support/TestServer.ts"
import { newKey } from "./Requests.ts"
import { callsOf, held, open, reset, taken } from "./Messages.support.ts"
import { until, untilRows } from "../support/Waiting.ts"

const outcomes: ReadonlyArray<readonly [kind: string, Answering]> = [
  ["sent", taken],
  ["refused", status(403)],
  ["retrying", status(503, { "retry-after": "600" })],
  ["unknown", reset]
]

const together = (sends: ReadonlyArray<Effect.Effect<Answer>>) => Effect.all(sends, { concurrency: "unbounded" })

/** Asserts that one answer is of the first send, and the others are its replays. */
const assertOne = (answers: ReadonlyArray<Answer>, kind: string) => {
  const sends = answers.map(sendOf)
  assert.strictEqual(sends.filter(({ replayed }) => !replayed).length, 1)
  assert.deepStrictEqual([...new Set(sends.map(({ kind }) => kind))], [kind])
  assert.strictEqual(new Set(sends.map(({ messageId }) => messageId)).size, 1)
  if (answers[0]?.status === 200) assert.strictEqual(new Set(answers.map(({ text }) => text)).size, 1)
}

const longTimeout = TestServer.layer({ PROVIDER_TIMEOUT: "1h" }, "api")

layer(longTimeout, { excludeTestServices: true })("concurrent sends under one key", (it) => {
  it.effect("make one call on two servers, and all give its answer", function* () {
    const server = yield* TestServer
    const replica = yield* startServer({ DATABASE_URL: server.databaseUrl, PROVIDER_TIMEOUT: "1h" }, "api")
    for (const [kind, answering] of outcomes) {
      for (const to of ["http", "telegram"] as const) {
        const gate = held(answering)
        const { provider, rows, seeded } = yield* open(server, gate.answering)
        const [one, two] = [callsOf(server, seeded), callsOf(replica, seeded)]
        const key = newKey()
        const sends = Array.from({ length: 50 }, (_, n) => (n % 2 === 0 ? one : two).send(to, key))
        const answers = yield* Effect.forkChild(together(sends))
        yield* until(() => provider.hits.length === 1)
        // Enough time for the others to call as well or to answer too early.
        yield* Effect.sleep("300 millis")
        gate.letGo()
        assertOne(yield* Fiber.join(answers), kind)
        assert.strictEqual(provider.hits.length, 1)
        assert.lengthOf(yield* rows, 1)
      }
    }
  })
})

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("a send", (it) => {
  it.effect("is refused without a message while the project is locked, and its key sends afterwards", function* () {
    const { projectId, rows, send, server } = yield* open(yield* TestServer)
    const key = newKey()
    const refused = yield* Effect.andThen(
      server.sql`SELECT pg_advisory_xact_lock(hashtextextended(${projectId}, 0))`,
      send("http", key)
    ).pipe(server.sql.withTransaction)
    assert.strictEqual(refused.headers["retry-after"], "1")
    problemOf(refused, 503, "service_unavailable")
    assert.lengthOf(yield* rows, 0)
    assert.deepInclude(sendOf(yield* send("http", key)), { kind: "sent", replayed: false })
  })
})

layer(longTimeout, { excludeTestServices: true })("a caller that disconnects", (it) => {
  for (const [kind, answering] of outcomes) {
    it.effect(`during a call does not end it, and its key replays ${kind}`, function* () {
      const server = yield* TestServer
      for (const to of ["http", "telegram"] as const) {
        const gate = held(answering)
        const { provider, rows, send } = yield* open(server, gate.answering)
        const key = newKey()
        const caller = yield* Effect.forkChild(send(to, key))
        yield* until(() => provider.hits.length === 1)
        const another = yield* Effect.forkChild(send(to, key))
        const waiting = yield* Effect.forkChild(send(to, key))
        yield* Effect.sleep("150 millis")
        yield* Effect.forEach([caller, another], Fiber.interrupt)
        // Enough time for the service to notice.
        yield* Effect.sleep("150 millis")
        assert.strictEqual((yield* rows)[0]?.status, "pending")
        gate.letGo()
        yield* untilRows(rows, ([row]) => row?.attempting === false)
        assert.deepInclude(sendOf(yield* send(to, key)), { kind, replayed: true })
        assert.deepInclude(sendOf(yield* Fiber.join(waiting)), { kind, replayed: true })
        assert.strictEqual(provider.hits.length, 1)
      }
    })
  }

  it.effect("during the insertion leaves no message unsent", function* () {
    const server = yield* TestServer
    const { sql } = server
    const { provider, rows, send } = yield* open(server)
    yield* sql`
    CREATE FUNCTION take_a_while() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN PERFORM pg_sleep(1); RETURN NEW; END
    $$`
    yield* sql`CREATE TRIGGER take_a_while BEFORE INSERT ON messages FOR EACH ROW EXECUTE FUNCTION take_a_while()`
    // On a separate connection: on a shared one the query would wait behind the insert.
    const observer = Context.get(
      yield* Layer.build(PgClient.layer({ url: Redacted.make(server.databaseUrl), maxConnections: 1 })),
      PgClient.PgClient
    )
    const making = Effect.orDie(observer`
      SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'`)
    const caller = yield* Effect.forkChild(send("http"))
    yield* untilRows(making, ({ length }) => length > 0)
    yield* Fiber.interrupt(caller)
    yield* untilRows(making, ({ length }) => length === 0)
    yield* sql`DROP TRIGGER take_a_while ON messages`
    yield* untilRows(rows, (rows) => rows.every(({ status }) => status === "sent"))
    assert.lengthOf(provider.hits, (yield* rows).length)
  })
})
