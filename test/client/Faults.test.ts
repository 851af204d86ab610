/** The faults that the client finds before it sends, compared with those of the service. */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { ValidationFailed } from "../../src/api/Problems.ts"
import { createClient } from "../../src/client/PromiseClient.ts"
import { queryOf, requestOf } from "../contract/Requests.ts"
import type { Sample } from "../contract/Sample.ts"
import { World } from "../contract/Samples.ts"
import { walkingOver } from "../contract/Walk.support.ts"
import { problemOf } from "../support/ContractAnswers.ts"
import { methodOf } from "./Walk.support.ts"

interface Faulty {
  readonly params?: Readonly<Record<string, string>>
  readonly query?: Readonly<Record<string, string>>
  readonly body?: unknown
}

const tooLong = "x".repeat(161)

/** Yields invalid requests, each with other faults. */
function* faultyOf({ body, discriminator, params = {}, query = {}, required = [] }: Sample): Generator<Faulty> {
  yield { query: { surplus: "1" } }
  for (const name of Object.keys(query)) yield { query: { [name]: "" } }
  for (const name of Object.keys(params)) yield { params: { [name]: tooLong } }
  if (body === undefined) return yield { body: {} }
  for (const other of [null, 7, [], { surplus: 1 }, { ...body, surplus: 1 }]) yield { body: other }
  if (required.length > 0) yield { body: {} }
  for (const name of Object.keys(body)) yield { body: { ...body, [name]: {} } }
  for (const name of Object.keys(body)) {
    const rest = Object.fromEntries(Object.entries(body).filter(([other]) => other !== name))
    // With a surplus member: the rules between members are not checked while a member has a fault.
    yield { body: { ...rest, surplus: 1 } }
  }
  if (discriminator !== undefined) yield { body: { ...body, [discriminator]: "surplus" } }
}

layer(World.layer, { excludeTestServices: true })("an invalid request of", (it) => {
  walkingOver(it)(
    "fails in the client with the faults that the service answers",
    function* (sample, { name, own, send, url }) {
      const method = methodOf(createClient({ baseUrl: url, token: own.token }), name)
      for (const faulty of faultyOf(sample)) {
        const params = { ...sample.params, ...faulty.params }
        const query = { ...Object.fromEntries(queryOf(sample)), ...faulty.query }
        const body = "body" in faulty ? faulty.body : sample.body
        const refused = yield* Effect.promise(() =>
          method({ params, query, payload: body }).catch((error: unknown) => error)
        )
        const answer = yield* send(
          requestOf(sample, own.token, {
            params,
            query: new URLSearchParams(query).toString(),
            ...(body === undefined ? {} : { json: body })
          })
        )
        const what = JSON.stringify(faulty)
        if (!(refused instanceof ValidationFailed)) return assert.fail(`sent: ${what}`)
        assert.isUndefined(refused.instance, what)
        assert.deepStrictEqual(refused.errors, problemOf(answer, 400, "validation_failed").errors, what)
      }
    }
  )
})
