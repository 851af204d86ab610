/** Properties whose body is an effect with the services of the test. */
import { type Context, Effect } from "effect"
import * as fc from "fast-check"

/** Runs the body for arbitrary values. A counterexample is reported before the test times out. */
export const forAll = <A, E, R>(
  arbitrary: fc.Arbitrary<A>,
  body: (value: A) => Effect.Effect<unknown, E, R>,
  options: fc.Parameters<[A]>
) =>
  Effect.contextWith((context: Context.Context<R>) =>
    Effect.promise(() =>
      fc.assert(
        fc.asyncProperty(arbitrary, async (value) => void (await Effect.runPromiseWith(context)(body(value)))),
        { interruptAfterTimeLimit: 45_000, ...options }
      )
    )
  )
