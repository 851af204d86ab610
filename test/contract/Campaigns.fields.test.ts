/** What is refused of the body of a command, and where the fault is told (specification 2.4 and 4.3; contract §2). */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { operations } from "../../src/api/campaigns/States.ts"
import { faultsOf, problemOf, receiptOf } from "../support/ContractAnswers.ts"
import { TestServer } from "../support/TestServer.ts"
import { everybody, open, route } from "./Campaigns.support.ts"

const x = (length: number) => "𝒳".repeat(length)
const longest = x(160)
const tooLong = x(161)

interface Variant {
  readonly good: object
  readonly required: ReadonlyArray<string>
  /** Values that a member refuses. */
  readonly bad?: Readonly<Record<string, ReadonlyArray<unknown>>>
}

const ids = ["", tooLong, 1, null, [], {}, true]
const versions = [0, -1, 1.5, "1", null, Number.MAX_SAFE_INTEGER + 1, 1e300, [], true]
const names = ["", tooLong, 5, null, ["a"]]
const routeVariant: Variant = {
  good: route,
  required: ["templateId", "templateVersion", "channelId"],
  bad: { templateId: ids, templateVersion: versions, channelId: ids }
}
const bare: Variant = { good: {}, required: [] }

const variants: Readonly<Record<string, Variant>> = {
  rename: {
    good: { expectedVersion: 1, name: "N" },
    required: ["expectedVersion", "name"],
    bad: { expectedVersion: versions, name: names }
  },
  delete: { good: { expectedVersion: 1 }, required: ["expectedVersion"], bad: { expectedVersion: versions } },
  bind_template: {
    good: { templateId: "welcome", templateVersion: 1 },
    required: ["templateId", "templateVersion"],
    bad: { templateId: ids, templateVersion: versions }
  },
  bind_sender: { good: { channelId: "chat" }, required: ["channelId"], bad: { channelId: ids } },
  set_primary_route: routeVariant,
  set_fallback_route: routeVariant,
  remove_fallback_route: bare,
  freeze_audience: { good: { filter: everybody }, required: ["filter"], bad: { filter: [null, "x", 1, [], true] } },
  schedule: {
    good: { scheduledForLocal: null, sendsPerMinute: 1 },
    required: ["scheduledForLocal", "sendsPerMinute"],
    bad: {
      scheduledForLocal: [
        "",
        "2026",
        "2026-01-01",
        "2026-01-01 10:00",
        "2026-01-01T10:00:00",
        "2026-01-01T10:00Z",
        "2026-01-01T10:00+01:00",
        "26-01-01T10:00",
        "2026-1-1T10:00",
        " 2026-01-01T10:00",
        "2026-01-01T10:00\n",
        "２０２６-01-01T10:00",
        1,
        {},
        []
      ],
      sendsPerMinute: [0, 60_001, 1.5, "60", null, -1, 1e9]
    }
  },
  duplicate: { good: {}, required: [], bad: { name: names } },
  pause: bare,
  resume: bare,
  cancel: bare
}

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("the body of a command", (it) => {
  it.effect("names one of the operations; else that is all that is told", () =>
    Effect.gen(function* () {
      const { command } = yield* open()
      assert.deepStrictEqual(Object.keys(variants).toSorted(), operations.toSorted())
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
  )

  for (const operation of operations) {
    it.effect(`is judged as that of ${operation} alone`, () =>
      Effect.gen(function* () {
        const { command } = yield* open()
        const { bad = {}, good, required } = variants[operation] ?? bare
        const faults = (body: object) => Effect.map(command("spring", { operation, ...body }), faultsOf)
        assert.deepStrictEqual(
          yield* faults({ surprise: 1, constructor: 2 }),
          ["body/constructor", "body/surprise", ...required.map((member) => `body/${member}`)].toSorted()
        )
        // A member of other variants is as unknown as any.
        const foreign = [...new Set(Object.values(variants).flatMap((variant) => Object.keys(variant.good)))]
          .concat("name")
          .filter((member) => !(member in good) && !(member in bad))
        for (const member of foreign)
          assert.deepStrictEqual(yield* faults({ ...good, [member]: 1 }), [`body/${member}`])
        for (const [member, values] of Object.entries(bad)) {
          for (const value of values) {
            assert.deepStrictEqual(
              yield* faults({ ...good, [member]: value }),
              [`body/${member}`],
              `${member} ${JSON.stringify(value)}`
            )
          }
        }
        const all = Object.fromEntries(Object.entries(bad).map(([member, values]) => [member, values[0]]))
        if (Object.keys(all).length > 0) {
          const expected = Object.keys(all).map((member) => `body/${member}`)
          assert.deepStrictEqual(yield* faults({ ...good, ...all, other: 1 }), [...expected, "body/other"].toSorted())
        }
        // Whatever stands against it, it is not the shape.
        assert.notStrictEqual((yield* command("none", { operation, ...good })).status, 400)
      })
    )
  }

  it.effect("tells faults inside a filter at their place", () =>
    Effect.gen(function* () {
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
      for (const [member, values] of Object.entries({
        contactStatus: ["", "Active", null, 1, ["all"]],
        segmentId: ["", tooLong, 1, {}],
        loyaltyCardRequired: [null, "true", 0],
        minimumLoyaltyBalance: [-1, 1_000_000_001, 0.5, "1", true],
        providerTypes: [null, "x", {}],
        loyaltyLevelIds: [null, 1]
      })) {
        for (const value of values) {
          assert.deepStrictEqual(
            yield* faults({ ...everybody, [member]: value }),
            [`body/filter/${member}`],
            `${member} ${JSON.stringify(value)}`
          )
        }
      }
      for (const member of ["providerTypes", "requiredTags", "stageIds", "loyaltyLevelIds", "readyStampOfferIds"]) {
        assert.deepStrictEqual(yield* faults({ ...everybody, [member]: Array(101).fill("a") }), [
          `body/filter/${member}`
        ])
        assert.deepStrictEqual(yield* faults({ ...everybody, [member]: ["a", "", "b", 4, tooLong] }), [
          `body/filter/${member}/1`,
          `body/filter/${member}/3`,
          `body/filter/${member}/4`
        ])
        assert.deepStrictEqual(yield* faults({ ...everybody, [member]: ["a", "\u0000"] }), [`body/filter/${member}/1`])
        // So many that not each of them is told.
        const many = yield* faults({ ...everybody, [member]: Array(60_000).fill("") })
        assert.include(many, `body/filter/${member}/0`)
      }
      // The operation stands behind a thousand others.
      const names = Object.fromEntries(Array.from({ length: 2_000 }, (_, index) => [`m${index}`, 0]))
      const answer = yield* command("spring", { ...names, operation: "pause" })
      assert.include(faultsOf(answer), "body/m0")
      assert.notInclude(faultsOf(answer), "body/operation")
    })
  )

  it.effect("takes the longest and largest that is allowed, and gives the filter back with its defaults", () =>
    Effect.gen(function* () {
      const { audience, command, done } = yield* open()
      const hundred = Array.from({ length: 100 }, (_, index) => `${index}`.padEnd(160, "x"))
      const filter = {
        readyStampOfferIds: hundred,
        minimumLoyaltyBalance: 1_000_000_000,
        loyaltyLevelIds: hundred,
        loyaltyCardRequired: true,
        stageIds: hundred,
        requiredTags: hundred,
        providerTypes: hundred,
        contactStatus: "archived"
      }
      yield* done("spring", { operation: "freeze_audience", filter })
      const frozen = (yield* audience("spring")).audience?.filter
      assert.deepStrictEqual(frozen, { ...filter, segmentId: null, contactStatus: "archived" as const })
      yield* done("spring", { operation: "freeze_audience", filter: { ...everybody, requiredTags: ["b", "a", "b"] } })
      assert.deepStrictEqual((yield* audience("spring")).audience?.filter, {
        ...everybody,
        contactStatus: "all" as const,
        requiredTags: ["b", "a", "b"],
        segmentId: null,
        loyaltyCardRequired: false,
        loyaltyLevelIds: [],
        minimumLoyaltyBalance: null,
        readyStampOfferIds: []
      })
      receiptOf(yield* command("spring", { operation: "rename", expectedVersion: 3, name: longest }), 200)
    })
  )
})
