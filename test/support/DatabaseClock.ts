/** The database's clock in the test's hand, together with that of the process. */
import { Clock, Effect, Layer } from "effect"
import { DatabaseClock } from "../../src/platform/DatabaseClock.ts"

const driven = Layer.succeed(DatabaseClock, (sql) =>
  Effect.map(Clock.currentTimeMillis, (millis) => sql`${new Date(millis)}::timestamptz`)
)

/** Uses the test's clock as the database's clock, where a test sets the time; otherwise the database has its own. */
export const databaseClock = Layer.unwrap(
  Effect.map(Clock.Clock, (clock) => ("adjust" in clock ? driven : Layer.empty))
)
