/** Readiness of a process whose delivery loop can't work (contract §10, §15). */
import { assert, layer } from "../../support/Vitest.ts"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import { startServer } from "../../support/TestServer.ts"
import { TestDatabase } from "../../support/TestDatabase.ts"

/** Advances the clock in steps, with time for statements in between, until something holds. */
const passUntil = <A, E, R>(look: Effect.Effect<A, E, R>, holds: (found: A) => boolean) =>
  TestClock.adjust("1 second").pipe(
    Effect.andThen(TestClock.withLive(Effect.sleep("50 millis"))),
    Effect.andThen(look),
    Effect.repeat({ until: holds })
  )

/** Matches the name of the loop, not of its maintenance. */
const namesLoop = /\bdeliveries(?! [a-z])/

layer(TestDatabase.layer)("a delivery loop whose statements all fail", (it) => {
  it.effect("makes the process not ready while it retries, until a statement succeeds", function* () {
    const { sql, url } = yield* startServer()
    const ready = Effect.promise(async () => {
      const answer = await fetch(`${url}/readyz`)
      return { status: answer.status, text: await answer.text() }
    })
    assert.strictEqual((yield* ready).status, 200)
    // PostgreSQL's error when its disk is full: the loop keeps its results and retries.
    yield* Effect.orDie(sql`
      CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN RAISE EXCEPTION USING ERRCODE = 'disk_full', MESSAGE = 'no space left'; END $$`)
    yield* Effect.orDie(sql`
      CREATE TRIGGER refused BEFORE UPDATE ON deliveries FOR EACH STATEMENT EXECUTE FUNCTION refuse()`)
    yield* passUntil(ready, ({ status, text }) => status === 503 && namesLoop.test(text))
    yield* Effect.orDie(sql`DROP TRIGGER refused ON deliveries`)
    yield* passUntil(ready, ({ status }) => status === 200)
  })
})
