import { type Duration, Effect, Schedule } from "effect"

/** Does something now and again for as long as the scope lives; a failure is logged, and the next time comes. */
export const every = <A, E, R>(pause: Duration.Duration, complaint: string, effect: Effect.Effect<A, E, R>) =>
  effect.pipe(
    Effect.catchCause((cause) => Effect.logWarning(complaint, cause)),
    Effect.repeat(Schedule.spaced(pause)),
    Effect.forkScoped
  )
