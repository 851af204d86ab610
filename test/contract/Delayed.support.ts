/** Commands whose statement has begun when something else is committed. */
import { Effect, Fiber, Layer } from "effect"
import { TestServer } from "../support/TestServer.ts"
import { untilRows } from "../support/Waiting.ts"

/** Makes each statement wait for advisory lock 1 between its snapshot and its entry into the project. */
const delayEntry = Effect.gen(function* () {
  const { sql } = yield* TestServer
  yield* sql`ALTER FUNCTION enter_project RENAME TO enter_project_now`
  yield* sql`
    CREATE FUNCTION enter_project(project text) RETURNS integer LANGUAGE plpgsql VOLATILE AS $$
    BEGIN
      PERFORM pg_advisory_xact_lock_shared(1);
      RETURN enter_project_now(project);
    END $$`
}).pipe(Effect.orDie)

/** A server whose commands wait so. */
export const delayed = Layer.effectDiscard(delayEntry).pipe(Layer.provideMerge(TestServer.layer()))

/** Runs a command whose statement takes its snapshot before the change and enters the project after it. */
export const changedMeanwhile = <A>(command: Effect.Effect<A>, change: Effect.Effect<unknown>) =>
  Effect.gen(function* () {
    const { sql } = yield* TestServer
    const connection = yield* sql.reserve
    const execute = (text: string) => connection.execute(text, [], undefined)
    yield* execute("SELECT pg_advisory_lock(1)")
    const running = yield* Effect.forkChild(command)
    yield* untilRows(
      Effect.orDie(sql`SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND objid = 1`),
      (waiting) => waiting.length > 0
    )
    yield* change
    yield* execute("SELECT pg_advisory_unlock(1)")
    return yield* Fiber.join(running)
  }).pipe(Effect.scoped, Effect.orDie)
