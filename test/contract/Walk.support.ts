/** Walks over the operations, with a function that sends a request in a project that has every record. */
import { Effect, type Scope } from "effect"
import { scopes } from "../../src/api/Access.ts"
import { remainingOf } from "../support/ContractAnswers.ts"
import type { Answer } from "../support/ContractHttp.ts"
import { TestServer } from "../support/TestServer.ts"
import { type Body, effectOf, type It } from "../support/Vitest.ts"
import type { Change } from "./Requests.ts"
import type { Sample } from "./Sample.ts"
import { samples, World } from "./Samples.ts"

/** What the test of an operation gets: its name, the server, and the projects of the walk, whose `seed` adds the samples' records. */
type Given = Omit<TestServer["Service"], "seed"> & World["Service"] & { readonly name: string }

/** Adds a test for each operation, or for those that `among` selects. */
export const walkingOver =
  <R = never>(it: It<R | World | TestServer>, among: (sample: Sample) => boolean = () => true) =>
  (what: string, test: (sample: Sample, given: Given) => Body<R | World | TestServer | Scope.Scope>): void => {
    for (const [name, sample] of Object.entries(samples).filter(([, sample]) => among(sample))) {
      it.effect(`${name} ${what}`, function* () {
        yield* effectOf(test(sample, { ...(yield* TestServer), ...(yield* World), name }))
      })
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
    walkingOver(it, among)(what, (sample, { ask, own }) =>
      test(sample, (change) =>
        Effect.tap(ask(sample, own, change), (answer) => Effect.sync(() => remainingOf(answer, sample.policy)))
      )
    )

/** Returns every scope but that of an operation. */
export const otherScopes = (sample: Sample) => scopes.filter((scope) => scope !== sample.scope)

/** Whether an operation needs a scope and a module. */
export const isScoped = ({ scope }: Sample) => scope !== null
export const hasBody = ({ body }: Sample) => body !== undefined
export const isMutation = ({ key }: Sample) => key !== undefined
export const hasReferences = ({ references = [] }: Sample) => references.length > 0
export const hasParams = ({ params }: Sample) => params !== undefined
