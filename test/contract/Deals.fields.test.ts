/** What the fields of a deal take, at their limits (contract §7). */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { faultsOf, receiptOf } from "../support/ContractAnswers.ts"
import { TestServer } from "../support/TestServer.ts"
import { dealPath, open, path } from "./Deals.support.ts"
import { newKey } from "./Requests.ts"

interface Limits {
  readonly good: ReadonlyArray<unknown>
  readonly bad: ReadonlyArray<unknown>
  /** What stands beside the field, for its own faults to be the only ones. */
  readonly beside?: object
  readonly patchOnly?: true
}

/** A reference of the right form; whether there is such a record is another question. */
const badIds = ["", "\u0000", "\ud800", "x".repeat(161), "😀".repeat(161), 1, false, ["c"], {}]

const limits: Readonly<Record<string, Limits>> = {
  title: {
    good: ["a", " ", "\n", "a".repeat(160), "😀".repeat(160), "👩‍👩‍👧‍👦".repeat(22), "\u0001", "\u{10ffff}", "<b>'\"\\"],
    bad: ["", "a".repeat(161), "😀".repeat(161), "a\u0000", "\ud83d", null, 1, ["a"]]
  },
  clientId: { good: [null, "c"], bad: badIds },
  organizationId: { good: [null, "o"], bad: badIds },
  responsibleMemberId: { good: [null, "m"], bad: badIds },
  pipelineId: { good: ["sales"], bad: [...badIds, null] },
  stageId: { good: ["closing"], bad: [...badIds, null] },
  amountMinor: {
    good: [0, 1, 2 ** 31, 2 ** 53 - 2, 2 ** 53 - 1],
    bad: [-1, 1.5, 2 ** 53, 2 ** 63, 1e300, "1", "", true, [1]],
    beside: { currency: "EUR" }
  },
  currency: {
    good: ["EUR", "USD", "JPY", "XCG", "ZWG"],
    bad: ["", "eur", "Eur", "EURO", "EU", " EUR", "EUR\n", "DEM", "BGN", "ABC", "€", 978, ["EUR"]],
    beside: { amountMinor: 1 }
  },
  expectedCloseDate: {
    good: [null, "2024-02-29", "2000-02-29", "2026-12-31", "1999-01-01", "0001-01-01", "0099-12-31", "9999-12-31"],
    bad: [
      "",
      "2026-02-30",
      "2026-02-29",
      "1900-02-29",
      "2026-13-01",
      "2026-00-01",
      "2026-01-00",
      "2026-04-31",
      "2026-2-3",
      "26-02-03",
      "02026-02-03",
      "2026/02/03",
      "20260203",
      "2026-02-03T00:00:00.000Z",
      "2026-02-03T10:00",
      "2026-02-03Z",
      " 2026-02-03",
      "2026-02-03\n",
      "+2026-02-03",
      "-001-02-03",
      "２０２６-02-03",
      "infinity",
      "today",
      20260203
    ]
  },
  lostReason: {
    good: [null, "a", " ", "a".repeat(500), "😀".repeat(500)],
    bad: ["", "a".repeat(501), "😀".repeat(501), "a\u0000", "\ude00", 1, ["a"]],
    beside: { status: "lost" },
    patchOnly: true
  },
  status: { good: ["open", "won"], bad: ["all", "Open", "", "archived", null, 1], patchOnly: true },
  lifecycle: { good: ["active", "archived"], bad: ["all", "Active", "", "open", null, true], patchOnly: true }
}

layer(TestServer.layer(), { excludeTestServices: true })("a deal", (it) => {
  for (const [name, { bad, beside = {}, good, patchOnly = false }] of Object.entries(limits)) {
    it.effect(`takes ${name} up to its limits`, () =>
      Effect.gen(function* () {
        const { created, patch, read } = yield* open()
        const { id } = yield* created()
        for (const value of good) {
          const change = { ...beside, [name]: value }
          if (!patchOnly) assert.deepInclude(yield* created(change), change, JSON.stringify(value))
          receiptOf(yield* patch(id, change), 200)
          assert.deepInclude(yield* read(id), change, JSON.stringify(value))
        }
      })
    )

    it.effect(`refuses ${name} beyond its limits`, () =>
      Effect.gen(function* () {
        const { create, created, page, patch } = yield* open()
        const before = yield* created()
        for (const value of bad) {
          const change = { ...beside, [name]: value }
          for (const answer of [
            ...(patchOnly ? [] : [yield* create({ title: "A", ...change })]),
            yield* patch(before.id, change)
          ]) {
            assert.deepStrictEqual(faultsOf(answer), [`body/${name}`], JSON.stringify(value))
          }
        }
        assert.deepStrictEqual((yield* page()).items, [before])
      })
    )
  }

  it.effect("takes an amount however JSON writes the number, and only if it is exact", () =>
    Effect.gen(function* () {
      const { created, read, server, token } = yield* open()
      const { id } = yield* created()
      const headers = { "content-type": "application/json" }
      const sent = (amount: string) => {
        const members = `"currency":"EUR","amountMinor":${amount}}`
        return Effect.all([
          server.send({ method: "POST", path, token, key: newKey(), headers, body: `{"title":"A",${members}` }),
          server.send({ method: "PATCH", path: dealPath(id), token, key: newKey(), headers, body: `{${members}` })
        ])
      }
      for (const [amount, stored] of [
        ["1.0", 1],
        ["12e2", 1_200],
        ["1500e-2", 15],
        ["-0", 0],
        ["9007199254740991", 9_007_199_254_740_991],
        ["9.007199254740991E+15", 9_007_199_254_740_991]
      ] as const) {
        const [made, patched] = yield* sent(amount)
        receiptOf(patched, 200)
        for (const of of [receiptOf(made, 201).resourceId, id]) {
          assert.strictEqual((yield* read(of)).amountMinor, stored, amount)
        }
      }
      for (const amount of ["9007199254740992", "9007199254740993", "1e400", "-1e400", "1e-1"]) {
        for (const answer of yield* sent(amount)) assert.deepStrictEqual(faultsOf(answer), ["body/amountMinor"], amount)
      }
    })
  )
})
