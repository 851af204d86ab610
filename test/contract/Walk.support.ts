/** Walks over the operations, with a function that sends a request in a project that has every record. */
import { Effect, type Scope } from "effect"
import { remainingOf } from "../support/ContractAnswers.ts"
import type { Answer } from "../support/ContractHttp.ts"
import type { TestServer } from "../support/TestServer.ts"
import { type Body, effectOf, type It } from "../support/Vitest.ts"
import type { Change } from "./Requests.ts"
import type { Sample } from "./Sample.ts"
import { samples, World } from "./Samples.ts"

/** Adds a test for each operation, or for those that `among` selects. */
export const walkingOver =
  (it: It<World | TestServer>, among: (sample: Sample) => boolean = () => true) =>
  (what: string, test: (sample: Sample, name: string) => Body<World | TestServer | Scope.Scope>): void => {
    for (const [name, sample] of Object.entries(samples).filter(([, sample]) => among(sample))) {
      it.effect(`${name} ${what}`, () => test(sample, name))
    }
  }

/** Sends independent requests, several at a time. */
export const each = <A, B, E, R>(all: Iterable<A>, test: (one: A) => Effect.Effect<B, E, R>) =>
  Effect.forEach(all, test, { concurrency: 8, discard: true })

type Ask = (change: Change) => Effect.Effect<Answer>

/** As `walkingOver`, with a function that sends a request and asserts that the limiter counted it. */
export const walking =
  (it: It<World | TestServer>, among?: (sample: Sample) => boolean) =>
  (what: string, test: (sample: Sample, ask: Ask) => Body<World | TestServer | Scope.Scope>): void =>
    walkingOver(it, among)(what, (sample) =>
      Effect.gen(function* () {
        const { ask, own } = yield* World
        const asking: Ask = (change) =>
          Effect.tap(ask(sample, own, change), (answer) => Effect.sync(() => remainingOf(answer, sample.policy)))
        yield* effectOf(test(sample, asking))
      })
    )

export const hasBody = ({ body }: Sample) => body !== undefined
export const hasParams = ({ params }: Sample) => params !== undefined
