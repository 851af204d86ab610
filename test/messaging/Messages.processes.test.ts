/** Several processes on one database: who repeats what waits, and how often (contract §8, §13). */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import { conversations, taken, text } from "../contract/Messages.support.ts"
import { status } from "../integrations/Deliveries.support.ts"
import { messageReceiptOf } from "../support/MessagingAnswers.ts"
import { startServer, TestServer } from "../support/TestServer.ts"
import { start } from "./Messages.retries.support.ts"
import { untilLater } from "./Messages.support.ts"

layer(TestServer.layer({}, "api"))("with several processes", (it) => {
  it.effect("a message waits for a process that runs background work", () =>
    Effect.gen(function* () {
      const { calls, row, send, server, untilIs } = yield* start(status(503), taken)
      const { messageId } = messageReceiptOf(yield* send("http"))
      yield* TestClock.adjust("1 hour")
      yield* TestClock.withLive(Effect.sleep("200 millis"))
      assert.deepInclude(yield* row(messageId), { status: "retrying", attempts: 1 })
      yield* startServer({ DATABASE_URL: server.databaseUrl }, "worker")
      yield* untilIs(messageId, "sent")
      assert.strictEqual(calls(), 2)
    })
  )

  it.effect("each attempt is made once", () =>
    Effect.gen(function* () {
      const server = yield* TestServer
      const projects = [yield* start(status(503)), yield* start(status(503))]
      const sends = projects.flatMap(({ ask }) => Array.from({ length: 60 }, () => ask(conversations.http, { text })))
      const ids = (yield* Effect.all(sends, { concurrency: 20 })).map((answer) => messageReceiptOf(answer).messageId)
      for (const _ of [1, 2, 3]) yield* startServer({ DATABASE_URL: server.databaseUrl }, "worker")
      const rows = Effect.map(
        Effect.forEach(projects, (project) => project.rows),
        (rows) => rows.flat()
      )
      for (const [index, delay] of [1_000, 5_000, 30_000, 120_000].entries()) {
        yield* TestClock.adjust(delay)
        yield* untilLater(
          rows,
          (rows) => rows.every(({ attempting, attempts }) => attempts === index + 2 && !attempting),
          (rows) => rows.some(({ attempting }) => attempting)
        )
        const seen = projects.flatMap(({ provider }) => provider.hits.map(({ headers }) => headers["idempotency-key"]))
        assert.lengthOf(seen, ids.length * (index + 2))
        for (const id of ids)
          assert.lengthOf(
            seen.filter((each) => each === id),
            index + 2
          )
      }
      assert.isTrue((yield* rows).every(({ status }) => status === "failed"))
    })
  )
})
