/** Finalizers of tests and test files that don't run in an Effect scope. `hooks.ts` runs them. */
import { Effect, Exit, Scope } from "effect"

const finalizers: Array<() => unknown> = []

/** Runs `finalizer` after the current test, or after the whole file if no test runs yet. The last one runs first. */
export const defer = (finalizer: () => unknown): void => {
  finalizers.push(finalizer)
}

/** Opens a resource that ends with the test, or with the file if no test runs yet. */
export const opened = <A, E>(resource: Effect.Effect<A, E, Scope.Scope>): Promise<A> => {
  const scope = Scope.makeUnsafe()
  defer(() => Effect.runPromise(Scope.close(scope, Exit.void)))
  return Effect.runPromise(Scope.provide(resource, scope))
}

/** Returns the number of pending finalizers. */
export const finalizerCount = (): number => finalizers.length

/** Runs finalizers, the last first, until `to` of them are left. */
export const runFinalizers = async (to: number): Promise<void> => {
  const failures: Array<unknown> = []
  while (finalizers.length > to) {
    try {
      await finalizers.pop()?.()
    } catch (failure) {
      failures.push(failure)
    }
  }
  if (failures.length > 0) throw new AggregateError(failures, "A finalizer of a test failed")
}
