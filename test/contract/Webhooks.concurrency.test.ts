/** Concurrent configures and rotations of one webhook: each version has one writer (contract §5, §10). */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { secretOf } from "../support/ContractAnswers.ts"
import type { Answer } from "../support/ContractHttp.ts"
import { slowDown } from "../support/SlowRows.ts"
import { startServer, TestServer } from "../support/TestServer.ts"
import { atOnce, statusesOf } from "./Clients.support.ts"
import { api, assertConflict, open } from "./Webhooks.support.ts"

/** Asserts that one of the answers is a success, and that all others report its version. */
const winnerOf = (answers: ReadonlyArray<Answer>, version: number) => {
  const index = answers.findIndex(({ status }) => status === 200)
  const winner = answers[index] ?? assert.fail(JSON.stringify(statusesOf(answers)))
  for (const other of answers.toSpliced(index, 1)) assertConflict(other, version)
  const { signingSecret, ...receipt } = secretOf(winner)
  assert.deepStrictEqual(receipt, { resourceId: "ins", changed: true, version })
  return { index, signingSecret }
}

const server = Layer.effectDiscard(Effect.flatMap(TestServer, ({ sql }) => slowDown(sql, "webhooks"))).pipe(
  Layer.provideMerge(api)
)

/** Creates a project with an installation; `of` returns its calls on two replicas in turn. */
const openTwice = Effect.gen(function* () {
  const webhooks = yield* open()
  const replica = webhooks.but({ server: yield* startServer({ DATABASE_URL: webhooks.server.databaseUrl }, "api") })
  return { webhooks, of: (index: number) => (index % 2 === 0 ? webhooks : replica) }
})

layer(server, { excludeTestServices: true })("a webhook under concurrent commands", (it) => {
  for (const times of [2, 20]) {
    it.effect(`is created by one of ${times}`, () =>
      Effect.gen(function* () {
        const { of, webhooks } = yield* openTwice
        const { server } = webhooks
        for (let round = 0; round < 5; round++) {
          const urlOf = (index: number) => `https://shop.example.com/${round}/${index}`
          const answers = yield* atOnce(times, (index) => of(index).configure({ endpointUrl: urlOf(index) }))
          const { index, signingSecret } = winnerOf(answers, 1)
          assert.deepInclude(yield* webhooks.found, { endpointUrl: urlOf(index), version: 1 })
          assert.strictEqual((yield* webhooks.secrets).length, 1)
          const again = yield* webhooks.configured({ endpointUrl: urlOf(index), expectedVersion: 1 })
          assert.deepStrictEqual(again, { resourceId: "ins", changed: false, version: 1, signingSecret })
          for (const table of ["webhook_secrets", "endpoint_health", "webhooks"]) {
            yield* Effect.orDie(server.sql`DELETE FROM ${server.sql(table)}`)
          }
        }
      })
    )
  }

  it.effect("is changed by one of 20 configures and rotations", () =>
    Effect.gen(function* () {
      const { of, webhooks } = yield* openTwice
      let { signingSecret } = yield* webhooks.configured()
      for (let version = 1; version <= 6; version++) {
        const rotates = (index: number) => (index + version) % 3 === 0
        const endpointUrl = `https://shop.example.com/${version}`
        const answers = yield* atOnce(20, (index) =>
          rotates(index) ? of(index).rotate(version) : of(index).configure({ endpointUrl, expectedVersion: version })
        )
        const winner = winnerOf(answers, version + 1)
        assert.strictEqual(winner.signingSecret !== signingSecret, rotates(winner.index))
        signingSecret = winner.signingSecret
      }
    })
  )
})
