/** A defect in a background fiber of the service: metrics, restart and readiness (contract §15). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import { freePort } from "../support/Process.ts"
import { startServer } from "../support/TestServer.ts"
import { TestDatabase } from "../support/TestDatabase.ts"

const service = Effect.gen(function* () {
  const port = yield* Effect.promise(freePort)
  const server = yield* startServer({ ADMIN_PORT: String(port) })
  const metrics = Effect.promise(() => fetch(`http://127.0.0.1:${port}/metrics`).then((answer) => answer.text()))
  const ready = Effect.promise(async () => {
    const answer = await fetch(`${server.url}/readyz`)
    return { status: answer.status, text: await answer.text() }
  })
  /** Reads a metric of a fiber. */
  const of = (name: string, fiber: string) =>
    Effect.map(metrics, (text) => Number(new RegExp(`^${name}\\{fiber="${fiber}"\\} (\\S+)`, "m").exec(text)?.[1]))
  return { ...server, metrics, ready, of }
})

/** Advances the clock in steps until a condition holds, with real time between them for statements. */
const passUntil = <A, E, R>(step: "500 millis", look: Effect.Effect<A, E, R>, holds: (found: A) => boolean) =>
  TestClock.adjust(step).pipe(
    Effect.andThen(TestClock.withLive(Effect.sleep("20 millis"))),
    Effect.andThen(look),
    Effect.repeat({ until: holds })
  )

layer(TestDatabase.layer)("a background fiber with a defect", (it) => {
  it.effect("is restarted and counted, and without progress the process is not ready", function* () {
    const { of, ready, sql } = yield* service
    assert.strictEqual((yield* ready).status, 200)
    assert.strictEqual(yield* of("background_restarts_total", "campaign progress"), 0)
    yield* Effect.orDie(sql`ALTER TABLE campaign_recipients RENAME TO elsewhere`)
    yield* passUntil("500 millis", of("background_restarts_total", "campaign progress"), (restarts) => restarts >= 2)
    yield* passUntil("500 millis", ready, ({ status }) => status === 503)
    assert.include((yield* ready).text, "campaign progress")
    yield* passUntil("500 millis", of("background_stalled", "campaign progress"), (stalled) => stalled === 1)
    assert.strictEqual(yield* of("background_stalled", "message claims"), 0)
    yield* Effect.orDie(sql`ALTER TABLE elsewhere RENAME TO campaign_recipients`)
    yield* passUntil("500 millis", ready, ({ status }) => status === 200)
    yield* passUntil("500 millis", of("background_stalled", "campaign progress"), (stalled) => stalled === 0)
  })
})
