/** A delivery loop that can't do its work: the process is not ready until it can (contract §10, §15). */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import { startServer } from "../support/TestServer.ts"
import { TestDatabase } from "../support/TestDatabase.ts"

/** Lets time pass in steps, so that statements end between them, until something holds. */
const passUntil = <A, E, R>(look: Effect.Effect<A, E, R>, holds: (found: A) => boolean) =>
  TestClock.adjust("1 second").pipe(
    Effect.andThen(TestClock.withLive(Effect.sleep("50 millis"))),
    Effect.andThen(look),
    Effect.repeat({ until: holds })
  )

/** The loop itself, not its maintenance. */
const namesLoop = /\bdeliveries(?! [a-z])/

layer(TestDatabase.layer)("a delivery loop whose statements all fail", (it) => {
  it.effect("makes the process not ready, though it tries again and again, until one succeeds", () =>
    Effect.gen(function* () {
      const { sql, url } = yield* startServer()
      const ready = Effect.promise(async () => {
        const answer = await fetch(`${url}/readyz`)
        return { status: answer.status, text: await answer.text() }
      })
      assert.strictEqual((yield* ready).status, 200)
      // The error of PostgreSQL when its disk is full: the loop keeps its results and tries again.
      yield* Effect.orDie(sql`
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION USING ERRCODE = 'disk_full', MESSAGE = 'no space left'; END $$`)
      yield* Effect.orDie(sql`
        CREATE TRIGGER refused BEFORE UPDATE ON deliveries FOR EACH STATEMENT EXECUTE FUNCTION refuse()`)
      yield* passUntil(ready, ({ status, text }) => status === 503 && namesLoop.test(text))
      yield* Effect.orDie(sql`DROP TRIGGER refused ON deliveries`)
      yield* passUntil(ready, ({ status }) => status === 200)
    }).pipe(Effect.scoped)
  )
})
