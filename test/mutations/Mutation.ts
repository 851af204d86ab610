/** A small change of the source that makes it wrong, and the tests expected to fail with it. */
export interface Mutation {
  /** Path below `src/`. */
  readonly file: string
  /** Text of the source; every occurrence is replaced. */
  readonly from: string
  readonly to: string
  /** Paths below `test/`, without `.test.ts`. At least one of their tests has to fail. */
  readonly tests: ReadonlyArray<string>
  /** Whether a test has to reach its time limit, because what it waits for never ends. */
  readonly hangs?: true
}

/** Declares mutations of one source file. */
export const mutating =
  (file: string, ...tests: ReadonlyArray<string>) =>
  (from: string, to: string, ...others: ReadonlyArray<string>): Mutation => ({
    file,
    from,
    to,
    tests: others.length === 0 ? tests : others
  })

/** Declares that a mutation makes its test hang. */
export const hanging = (mutation: Mutation): Mutation => ({ ...mutation, hangs: true })
