/** Concurrent configures and rotations of one webhook: each version has one writer (contract §5, §10). */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { receiptOf, secretOf } from "../support/ContractAnswers.ts"
import type { Answer } from "../support/ContractHttp.ts"
import { slowDown } from "../support/SlowRows.ts"
import { startServer, TestServer } from "../support/TestServer.ts"
import { atOnce, statusesOf } from "./Clients.support.ts"
import { newKey } from "./Requests.ts"
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
        for (let round = 0; round < 10; round++) {
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

  it.effect("is changed by one of 20 at each version", () =>
    Effect.gen(function* () {
      const { of, webhooks } = yield* openTwice
      const { signingSecret } = yield* webhooks.configured()
      for (let version = 1; version <= 5; version++) {
        const urlOf = (index: number) => `https://shop.example.com/${version}/${index}`
        const change = (index: number) => ({ endpointUrl: urlOf(index), expectedVersion: version })
        const winner = winnerOf(yield* atOnce(20, (index) => of(index).configure(change(index))), version + 1)
        assert.strictEqual(winner.signingSecret, signingSecret)
        assert.deepInclude(yield* webhooks.found, { endpointUrl: urlOf(winner.index), version: version + 1 })
      }
    })
  )

  it.effect("has its secret rotated by one of 20 at each version", () =>
    Effect.gen(function* () {
      const { of, webhooks } = yield* openTwice
      const secrets = new Set([(yield* webhooks.configured()).signingSecret])
      for (let version = 1; version <= 5; version++) {
        const { signingSecret } = winnerOf(yield* atOnce(20, (index) => of(index).rotate(version)), version + 1)
        secrets.add(signingSecret)
        const inForce = yield* webhooks.configured({ expectedVersion: version + 1 })
        assert.strictEqual(inForce.signingSecret, signingSecret)
      }
      assert.strictEqual(secrets.size, 6)
      const kept = yield* webhooks.secrets
      // At most three secrets sign: the current one and two that overlap.
      assert.strictEqual(kept.length, 3)
      assert.strictEqual(kept.filter(({ retiresAt }) => retiresAt === null).length, 1)
    })
  )

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

  it.effect("shows its secret in one of 50 equal answers", () =>
    Effect.gen(function* () {
      const { of } = yield* openTwice
      const [creation, rotation] = [newKey(), newKey()]
      for (const [version, command] of [
        [1, (index: number) => of(index).configure({}, creation)],
        [2, (index: number) => of(index).rotate(1, rotation)]
      ] as const) {
        const answers = yield* atOnce(50, command)
        const [first = assert.fail(), ...others] = answers.filter(
          ({ headers }) => headers["idempotent-replayed"] === undefined
        )
        assert.deepStrictEqual(others, [])
        assert.strictEqual(secretOf(first).version, version)
        for (const answer of answers) {
          if (answer === first) continue
          const receipt = { resourceId: "ins", changed: true, version, replayed: true }
          assert.deepStrictEqual(receiptOf(answer, 200), receipt)
        }
      }
    })
  )
})
