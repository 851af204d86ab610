/** Bodies of commands: the paths of their faults, and their meaning under an idempotency key (contract §2, §5, §9). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { operations } from "../../src/api/campaigns/States.ts"
import { faultsOf, problemOf, receiptOf } from "../support/ContractAnswers.ts"
import { TestServer } from "../support/TestServer.ts"
import { everybody, open } from "./Campaigns.support.ts"
import { commands, fields } from "./Fields.ts"

/** The members that a command of each operation takes, as the walk over fields lists them. */
const members = Object.fromEntries(
  operations.map((operation) => [
    operation,
    Object.keys(fields[`patchCampaign ${operation}`] ?? {}).flatMap(
      (location) => /^body\/(\w+)$/.exec(location)?.[1] ?? []
    )
  ])
)

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("the body of a campaign command", (it) => {
  it.effect("reports only the operation when that is unknown", function* () {
    const { command } = yield* open()
    assert.deepStrictEqual(Object.keys(commands).toSorted(), operations.toSorted())
    for (const operation of [
      "",
      "renam",
      "Rename",
      "rename ",
      "toString",
      "__proto__",
      1,
      null,
      true,
      ["rename"],
      {}
    ]) {
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

  for (const operation of operations) {
    it.effect(`of ${operation} is validated by the members of ${operation} alone`, function* () {
      const { command } = yield* open()
      const good = commands[operation] ?? {}
      const faults = (body: object) => Effect.map(command("spring", { operation, ...body }), faultsOf)
      assert.deepStrictEqual(
        yield* faults({ surprise: 1, constructor: 2 }),
        ["body/constructor", "body/surprise", ...Object.keys(good).map((member) => `body/${member}`)].toSorted()
      )
      const all = Object.fromEntries((members[operation] ?? []).map((member) => [member, {}]))
      assert.deepStrictEqual(
        yield* faults({ ...good, ...all, other: 1 }).pipe(
          Effect.map((locations) => [...new Set(locations.map((location) => location.split("/", 2).join("/")))])
        ),
        ["body/other", ...Object.keys(all).map((member) => `body/${member}`)].toSorted()
      )
      // A good command passes validation although the campaign is missing.
      assert.notStrictEqual((yield* command("none", { operation, ...good })).status, 400)
    })
  }

  it.effect("is refused at each location inside a filter", function* () {
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
    for (const member of ["providerTypes", "requiredTags", "stageIds", "loyaltyLevelIds", "readyStampOfferIds"]) {
      assert.deepStrictEqual(yield* faults({ ...everybody, [member]: ["a", "", "b", 4, "x".repeat(161)] }), [
        `body/filter/${member}/1`,
        `body/filter/${member}/3`,
        `body/filter/${member}/4`
      ])
      // Too many faults for all of them to be reported.
      const many = yield* faults({ ...everybody, [member]: Array(60_000).fill("") })
      assert.include(many, `body/filter/${member}/0`)
    }
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
