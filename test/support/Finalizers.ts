/** Finalizers of tests and test files that don't run in an Effect scope. `hooks.ts` runs them. */

const finalizers: Array<() => unknown> = []

/** Runs `finalizer` after the current test, or after the whole file when `beforeAll` adds it. The last one runs first. */
export const defer = (finalizer: () => unknown): void => {
  finalizers.push(finalizer)
}

/** The number of finalizers that wait. */
export const height = (): number => finalizers.length

/** Runs the finalizers above a height. */
export const unwind = async (to: number): Promise<void> => {
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
