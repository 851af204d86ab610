/** `@effect/vitest`, whose `it` and `layer` take the generator of a test as well as its effect: `it.live("…", function* () { … })`. */
import * as Base from "@effect/vitest"
import { Effect, type Layer, type Scope } from "effect"

export * from "@effect/vitest"

/** The body of a test: an effect, or a generator as that of `Effect.gen`. */
export type Body<R> = Effect.Effect<unknown, unknown, R> | Generator<Effect.Effect<unknown, unknown, R>, unknown, never>

/** Returns the effect of a body. */
export const effectOf = <R>(body: Body<R>): Effect.Effect<unknown, unknown, R> =>
  Effect.isEffect(body) ? body : Effect.gen(() => body)

type Test<R> = (
  title: string,
  body: (context: Base.TestContext) => Body<R>,
  options?: number | Base.TestOptions
) => void

interface Tester<R> extends Test<R> {
  readonly each: <T>(cases: ReadonlyArray<T>) => (title: string, body: (one: T) => Body<R>) => void
  readonly skipIf: (condition: unknown) => Test<R>
}

/** The `it` of a layer. */
export interface It<R> {
  readonly effect: Tester<R | Scope.Scope>
}

const testOf =
  <R>(test: Base.Vitest.Test<R>): Test<R> =>
  (title, body, options) =>
    test(title, (context) => effectOf(body(context)), options)

const testerOf = <R>(tester: Base.Vitest.Tester<R>): Tester<R> =>
  Object.assign(testOf(tester), {
    each:
      <T>(cases: ReadonlyArray<T>) =>
      (title: string, body: (one: T) => Body<R>) =>
        tester.each(cases)(title, (one) => effectOf(body(one))),
    skipIf: (condition: unknown) => testOf(tester.skipIf(condition))
  })

interface Plain {
  (title: string, body: (context: Base.TestContext) => unknown, timeout?: number): void
  (title: string, options: Base.TestOptions, body: (context: Base.TestContext) => unknown): void
}

const plain: Plain = Base.it.bind(undefined)

export const it = Object.assign(plain, {
  each: Base.it.each.bind(Base.it),
  for: Base.it.for.bind(Base.it),
  effect: testerOf(Base.it.effect),
  live: testerOf(Base.it.live)
})

/** Declares tests that share services. */
export const layer =
  <R, E>(...services: Parameters<typeof Base.layer<R, E>>) =>
  (name: string, tests: (it: It<R>) => void): void =>
    Base.layer(...services)(name, ({ effect }) => tests({ effect: testerOf(effect) }))

/** Returns a test with services of its own, which end with it; its clock is the system's or a `TestClock`. */
export const providing =
  <R, E>(services: Layer.Layer<R, E>, clock: "live" | "effect" = "live"): Test<R | Scope.Scope> =>
  (title, body, options) =>
    Base.it[clock](title, (context) => Effect.provide(effectOf(body(context)), services), options)
