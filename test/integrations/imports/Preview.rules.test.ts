/** The version of the rules is stored with each batch: a release with other rules reevaluates the batch. */
import { assert, it, layer } from "../../support/Vitest.ts"
import { Effect, Exit, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { createHash } from "node:crypto"
import { entityTypes } from "../../../src/api/integrations/Preview.ts"
import { importFields, rules } from "../../../src/integrations/imports/ImportFields.ts"
import { reevaluation } from "../../../src/integrations/imports/StagedBatches.ts"
import { Supervisor } from "../../../src/platform/background/Supervisor.ts"
import { apply, contact, preview, services, usual } from "./Preview.support.ts"

const lengths = [0, 1, 2, 99, 100, 101, 159, 160, 161, 254, 255, 9_999, 10_000, 10_001]
const letters = [..."ABCDEFGHIJKLMNOPQRSTUVWXYZ"]
/** Every text of the form of a currency code. */
const codes = letters.flatMap((one) => letters.flatMap((two) => letters.map((three) => one + two + three)))
const mails = ["a@b.c", "a.b+c@d-e.fg", "A@B.C", ".a@b.c", "a@b", "a b@c.d", "a@b..c", "a@-b.c", "\u00e4@b.c"].concat(
  [64, 65].map((length) => `${"a".repeat(length)}@b.c`),
  [63, 64].map((length) => `a@${"b".repeat(length)}.c`),
  [250, 252].map((length) => `a@${"b.".repeat(length / 2)}c`)
)
const phones = ["+1", "+12", "+123456789012345", "+1234567890123456", "+0123", "123", "+1 23", "+12\n"]
const days = ["2026-01-01", "2024-02-29", "2026-02-29", "1900-02-29", "0000-01-01", "0001-01-01", "2026-1-1"]
const instants = [
  "2026-01-01T00:00:00Z",
  "2026-01-01t00:00:00.123456z",
  "2026-01-01T00:00:00+14:00",
  "2026-01-01T00:00:00",
  "2026-01-01T24:00:00Z",
  "2026-01-01T00:00:60Z",
  "2026-02-30T00:00:00Z",
  "0001-01-01T00:00:00+01:00"
]
const texts = lengths.flatMap((length) => ["x".repeat(length), "\u{1f600}".repeat(length)])
const lists = [99, 100, 101].map((length) => Array.from({ length }, (_, index) => `${index}`))
const values: ReadonlyArray<unknown> = [
  ["eur", null, true, false, {}, { a: 1 }, 0, -1, 1, 0.5, 2 ** 31, 2 ** 53 - 1, 2 ** 53, 1e300],
  [[], ["a"], ["a", "a"], ["A", "a"], [""], ["x".repeat(160)], ["x".repeat(161)], [1], [null], [["a"]]],
  [texts, codes, mails, phones, days, instants, lists].flat()
].flat()

it("the version of the preview rules is raised when the rules change", () => {
  const verdicts = entityTypes.flatMap((type) =>
    Object.entries(importFields[type]).map(([field, schema]) => {
      const decode = Schema.decodeUnknownExit(schema)
      return [type, field, values.map((value) => Number(Exit.isSuccess(decode(value))))]
    })
  )
  const digest = createHash("sha256").update(JSON.stringify(verdicts)).digest("hex")
  assert.deepStrictEqual(
    [rules, digest],
    [1, "aec9d2293159cc367a2d46b612d82599fe820de7c0be561b6ad965105b71fffa"],
    "What fits a field has changed: raise `rules`, so that what was judged before is judged anew, and pin both here"
  )
})

layer(services)("a batch judged by another version of the rules", (it) => {
  /** Changes a batch to the state that an earlier release without phones would have left. */
  const outdate = Effect.fnUntraced(function* (projectId: string) {
    const sql = yield* SqlClient.SqlClient
    yield* sql`
      UPDATE staged_batches SET rules = ${rules - 1}, unsupported_fields = '[]', duplicate_count = 9
      WHERE project_id = ${projectId} AND rules IS NOT NULL`
    yield* sql`UPDATE staged_contacts SET phone = NULL, mapped = '{}' WHERE project_id = ${projectId}`
  })
  const staged = [contact("1", { name: "Ada", tel: "+15550100" }), contact("2", { tel: "none" })]
  const clients = [{ id: "a", phone: "+15550100" }]

  it.effect("is judged again by the next file that names its installation", function* () {
    yield* apply("by file", { importProfile: usual, stagedRecords: staged }, { clients })
    const before = yield* preview("by file")
    assert.deepStrictEqual(before.estimatedChanges, { create: 1, update: 1, skip: 0 })
    yield* outdate("by file")
    assert.notDeepEqual(yield* preview("by file"), before)
    const report = yield* apply("by file", {})
    assert.strictEqual(report.unchanged["installations"], 1)
    assert.deepStrictEqual(yield* preview("by file"), before)
  })

  it.effect("is judged again by the background fibers, and no other batch is", function* () {
    const sql = yield* SqlClient.SqlClient
    const batches = sql<{ readonly rules: number | null }>`SELECT rules FROM staged_batches WHERE project_id = 'anew'`
    yield* apply("anew", { id: "none", stagedRecords: staged })
    yield* apply("anew", { importProfile: usual, stagedRecords: staged }, { clients })
    const before = yield* preview("anew")
    yield* outdate("anew")
    yield* apply("kept", { importProfile: usual, stagedRecords: staged })
    yield* sql`UPDATE staged_batches SET duplicate_count = 9 WHERE project_id = 'kept'`

    yield* Effect.scoped(
      Effect.gen(function* () {
        yield* Layer.build(reevaluation.pipe(Layer.provide(Supervisor.layer)))
        const judged = Effect.gen(function* () {
          while ((yield* batches).some(({ rules: by }) => by !== null && by !== rules)) yield* Effect.yieldNow
        })
        yield* judged
        // A process of the earlier release applies a file before it is replaced.
        yield* outdate("anew")
        yield* TestClock.adjust("10 minutes")
        yield* judged
      })
    )
    assert.deepStrictEqual(yield* preview("anew"), before)
    assert.strictEqual((yield* preview("kept")).duplicateCount, 9)
    assert.includeMembers(
      (yield* batches).map(({ rules }) => rules),
      [null, rules]
    )
  })
})
