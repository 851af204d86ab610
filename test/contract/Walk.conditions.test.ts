/** Every operation with a record's version as its ETag: the conditions `If-Match` and `If-None-Match` (contract §1). */
import { assert, layer } from "../support/Vitest.ts"
import { faultsOf, problemOf, replayedOf, versionOf } from "../support/ContractAnswers.ts"
import type { Answer } from "../support/ContractHttp.ts"
import { versioned } from "../support/Documented.ts"
import { TestServer } from "../support/TestServer.ts"
import { atOnce, statusesOf } from "./Clients.support.ts"
import { newKey, requestOf } from "./Requests.ts"
import type { Sample } from "./Sample.ts"
import { receiptOfSample, samples, World } from "./Samples.ts"
import { isMutation, walkingOver } from "./Walk.support.ts"

const conditional = new Set(Object.entries(samples).flatMap(([name, sample]) => (versioned.has(name) ? [sample] : [])))
const isNew = ({ body }: Sample) => body?.["expectedVersion"] === null
const onExisting = (sample: Sample) => conditional.has(sample) && !isNew(sample)
const isRead = (sample: Sample) => onExisting(sample) && !isMutation(sample)
const isCreate = ({ status }: Sample) => status === 201

const malformed = ["", "1", '"1', "W/1", '*, "1"', '"1" "2"', '"a b"', 'w/"1"', "'1'"]
const stale = ['"9007199254740991"', 'W/"1"', '"0"', '"01"', '"+1"', '"x"', '""', '"98765", W/"1"']

/** Returns the version that the refusal of a stale condition tells. */
const currentOf = (answer: Answer) => problemOf(answer, 412, "precondition_failed").currentVersion

layer(World.layer, { excludeTestServices: true })("the conditions of requests", (it) => {
  walkingOver(it, onExisting)("acts on the versions of If-Match alone", function* (sample, { ask, own }) {
    for (const value of stale) {
      assert.isAtLeast(currentOf(yield* ask(sample, own, { headers: { "if-match": value } })) ?? 0, 1, value)
    }
    for (const value of malformed) {
      assert.deepStrictEqual(faultsOf(yield* ask(sample, own, { headers: { "if-match": value } })), ["header/if-match"])
    }
    const version = currentOf(yield* ask(sample, own, { headers: { "if-match": '"98765"' } }))
    const matching = (tag: string) => ["*", tag, `"98765", ${tag}`, `, ${tag} ,,W/"7"`]
    for (let i = 0; i < matching("").length; i++) {
      const current = currentOf(yield* ask(sample, own, { headers: { "if-match": '"98765"' } }))
      const answer = yield* ask(sample, own, { headers: { "if-match": matching(`"${current}"`)[i] ?? "" } })
      assert.strictEqual(answer.status, 200, answer.text)
    }
    const several = yield* ask(sample, own, { headers: { "if-match": ['"98765"', `"${version}"`, "W/*"] } })
    assert.deepStrictEqual(faultsOf(several), ["header/if-match"])
  })

  walkingOver(it, (sample) => onExisting(sample) && isMutation(sample))(
    "answers its stored outcome, whatever If-Match says",
    function* (sample, { own, restore, send }) {
      yield* restore(sample, own.projectId)
      const key = newKey()
      const first = yield* send(requestOf(sample, own.token, { key, headers: { "if-match": "*" } }))
      const receipt = receiptOfSample(sample, first)
      for (const headers of [{}, { "if-match": '"98765"' }, { "if-match": "*" }]) {
        const again = yield* send(requestOf(sample, own.token, { key, headers }))
        assert.isTrue(replayedOf(again), again.text)
        assert.deepStrictEqual(receiptOfSample(sample, again), { ...receipt, replayed: true })
      }
    }
  )

  walkingOver(it, isRead)("answers 304 to a version of If-None-Match", function* (sample, { ask, own }) {
    const version = versionOf(yield* ask(sample, own))
    const unchanged = [`"${version}"`, `W/"${version}"`, "*", `"98765", W/"${version}"`]
    for (const value of unchanged) {
      const answer = yield* ask(sample, own, { headers: { "if-none-match": value } })
      assert.deepStrictEqual([answer.status, answer.text, versionOf(answer)], [304, "", version])
    }
    for (const value of ['"98765"', '"x"', `"0${version}"`]) {
      assert.strictEqual((yield* ask(sample, own, { headers: { "if-none-match": value } })).status, 200, value)
    }
    for (const value of malformed) {
      const answer = yield* ask(sample, own, { headers: { "if-none-match": value } })
      assert.deepStrictEqual(faultsOf(answer), ["header/if-none-match"], value)
    }
    const both = { "if-match": '"98765"', "if-none-match": "*" }
    assert.strictEqual(currentOf(yield* ask(sample, own, { headers: both })), version)
  })

  walkingOver(it, isCreate)("reads no condition", function* (sample, { ask, own }) {
    const headers = { "if-match": "malformed", "if-none-match": "*" }
    assert.strictEqual((yield* ask(sample, own, { headers })).status, 201)
  })

  it.effect("configureWebhook matches nothing where no webhook is", function* () {
    const { ask, own } = yield* World
    const sample = samples["configureWebhook"] ?? assert.fail()
    for (const value of ["*", '"1"']) {
      assert.isNull(currentOf(yield* ask(sample, own, { headers: { "if-match": value } })))
    }
  })

  it.effect("of 20 commands with one If-Match one is done, on records of any kind", function* () {
    const { send } = yield* TestServer
    const { own } = yield* World
    for (const [name, changed] of [
      ["patchClient", (i: number) => ({ lastName: `Of ${i}` })],
      ["patchDeal", (i: number) => ({ title: `Of ${i}` })],
      ["rateTicket", (i: number) => ({ score: 3, comment: `Of ${i}` })],
      ["patchCampaign", (i: number) => ({ operation: "duplicate", name: `Of ${i}` })]
    ] as const) {
      const sample = samples[name] ?? assert.fail()
      const requested = (version: string, index: number) =>
        requestOf(sample, own.token, { json: changed(index), headers: { "if-match": version } })
      const version = currentOf(yield* send(requested('"98765"', 0)))
      const answers = yield* atOnce(20, (index) => send(requested(`"${version}"`, index)))
      // A copy does not change the campaign.
      const done = name === "patchCampaign" ? { "200": 20 } : { "200": 1, "412": 19 }
      assert.deepStrictEqual(statusesOf(answers), done, name)
    }
  })
})
