/** Bodies of commands: faults that `Walk.fields` does not reach, and their meaning under an idempotency key (contract §2, §5, §9). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { operations } from "../../src/api/campaigns/States.ts"
import { faultsOf, problemOf, receiptOf } from "../support/ContractAnswers.ts"
import { TestServer } from "../support/TestServer.ts"
import { everybody, open } from "./Campaigns.support.ts"
import { commands } from "./Fields.ts"

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("the body of a campaign command", (it) => {
  it.effect("reports only the operation when that is unknown", function* () {
    const { command } = yield* open()
    assert.deepStrictEqual(Object.keys(commands).toSorted(), operations.toSorted())
    for (const operation of ["", "Rename", "rename ", "toString", "__proto__", 1, null, ["rename"], {}]) {
      for (const rest of [{}, { expectedVersion: "x", surprise: 1, filter: 5 }]) {
        const { errors } = problemOf(yield* command("spring", { ...rest, operation }), 400, "validation_failed")
        assert.deepStrictEqual(Object.keys(errors ?? {}), ["body/operation"], JSON.stringify(operation))
        assert.strictEqual(errors?.["body/operation"]?.length, 1)
        for (const known of operations) assert.include(errors?.["body/operation"]?.[0], known)
      }
    }
    for (const body of [{}, { expectedVersion: "x", name: 1, surprise: 1 }]) {
      const { errors } = problemOf(yield* command("spring", body), 400, "validation_failed")
      assert.deepStrictEqual(errors, { "body/operation": ["is required"] })
    }
    for (const body of [[], "rename", 1, null, true, [{ operation: "pause" }]]) {
      const { errors } = problemOf(yield* command("spring", body), 400, "validation_failed")
      assert.deepStrictEqual(errors, { body: ["must be an object"] })
    }
  })

  it.effect("is refused at its locations inside a filter", function* () {
    const { command } = yield* open()
    const faults = (filter: object, more: object = {}) =>
      Effect.map(command("spring", { operation: "freeze_audience", filter, ...more }), faultsOf)
    assert.deepStrictEqual(yield* faults({}), [
      "body/filter/contactStatus",
      "body/filter/providerTypes",
      "body/filter/requiredTags",
      "body/filter/stageIds"
    ])
    assert.deepStrictEqual(
      yield* faults({ ...everybody, surprise: 1, segmentID: "x", "a/b~c": 1 }, { name: "X" }),
      ["body/filter/a~1b~0c", "body/filter/segmentID", "body/filter/surprise", "body/name"].toSorted()
    )
    const { errors = {} } = problemOf(
      yield* command("spring", { operation: "freeze_audience", filter: { surprise: 1 } }),
      400,
      "validation_failed"
    )
    const [, known = ""] = /the known members are (.*)$/.exec(errors["body/filter/surprise"]?.join() ?? "") ?? []
    assert.includeMembers(known.split(", "), Object.keys(everybody))
    // Too many faults for all of them to be reported.
    const many = yield* faults({ ...everybody, stageIds: Array(60_000).fill("") })
    assert.include(many, "body/filter/stageIds/0")
    // The operation follows 2,000 other members.
    const names = Object.fromEntries(Array.from({ length: 2_000 }, (_, index) => [`m${index}`, 0]))
    const answer = yield* command("spring", { ...names, operation: "pause" })
    assert.include(faultsOf(answer), "body/m0")
    assert.notInclude(faultsOf(answer), "body/operation")
  })

  it.effect("is recognised under its key when defaults are written out", function* () {
    const { command } = yield* open()
    const freeze = (filter: object) => command("spring", { operation: "freeze_audience", filter }, "one-key")
    const first = receiptOf(yield* freeze(everybody), 200)
    const spelt = {
      readyStampOfferIds: [],
      minimumLoyaltyBalance: null,
      loyaltyLevelIds: [],
      loyaltyCardRequired: false,
      segmentId: null,
      ...everybody
    }
    assert.deepStrictEqual(receiptOf(yield* freeze(spelt), 200), { ...first, replayed: true })
    problemOf(yield* freeze({ ...spelt, minimumLoyaltyBalance: 0 }), 409, "idempotency_key_reused")
  })
})
