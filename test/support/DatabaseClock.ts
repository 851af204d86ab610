/** The database's clock under a test clock. */
import { Clock, Effect, Layer } from "effect"
import { DatabaseClock } from "../../src/sql/DatabaseClock.ts"

const driven = Layer.succeed(DatabaseClock, (sql) =>
  Effect.map(Clock.currentTimeMillis, (millis) => sql`${new Date(millis)}::timestamptz`)
)

/** Replaces the database's clock by the test clock if there is one. */
export const databaseClock = Layer.unwrap(
  Effect.map(Clock.Clock, (clock) => ("adjust" in clock ? driven : Layer.empty))
)
