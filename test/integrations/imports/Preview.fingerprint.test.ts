/** The fingerprint: equal for the same batch in any order, different after any change (contract §11). */
import { assert, layer } from "../../support/Vitest.ts"
import { Effect } from "effect"
import * as fc from "fast-check"
import { createHash } from "node:crypto"
import { records, value } from "./Preview.batches.support.ts"
import { canonical, fingerprintOf, type StagedRecord } from "./Preview.model.support.ts"
import { apply, contact, preview, services, usual } from "./Preview.support.ts"

layer(services)("the fingerprint of a preview", (it) => {
  const fingerprint = Effect.fnUntraced(function* (
    projectId: string,
    stagedRecords: ReadonlyArray<StagedRecord>,
    version = 1,
    id = "ins"
  ) {
    yield* apply(projectId, { id, importProfile: { ...usual, version }, stagedRecords })
    return (yield* preview(projectId, id)).fingerprint
  })

  it.effect("is the SHA-256 of the documented text", function* () {
    const text =
      '{"installationId":"ins","profileVersion":7,"records":[' +
      '{"entityType":"contact","externalId":"1","fields":{"a":[1,{"x":null,"y":"\u00e4"}],"b":1e+21}},' +
      '{"entityType":"contact","externalId":"1\u{1f600}","fields":{"\\n":true,"\u{1f600}":0,"\uffee":-0.5}},' +
      '{"entityType":"contact","externalId":"1\uffee","fields":{}},' +
      '{"entityType":"note","externalId":"1","fields":{}},' +
      '{"entityType":"note","externalId":"1","fields":{}}]}'
    const note = { entityType: "note", externalId: "1", fields: {} } as const
    const batch = [
      note,
      contact("1\uffee"),
      contact("1\u{1f600}", { "\uffee": -0.5, "\u{1f600}": -0, "\n": true }),
      note,
      contact("1", { b: 1e21, a: [1, { y: "\u00e4", x: null }] })
    ]
    const expected = createHash("sha256").update(text).digest("hex")
    assert.strictEqual(yield* fingerprint("text", batch, 7), expected)
  })

  it.effect("is the same in any order of records and members", function* () {
    const shuffles = records.chain((records) =>
      fc.record({
        records: fc.constant(records),
        shuffled: fc.shuffledSubarray([...records], { minLength: records.length })
      })
    )
    for (const [index, { records, shuffled }] of fc.sample(shuffles, 40).entries()) {
      const expected = fingerprintOf("ins", 1, records)
      assert.strictEqual(yield* fingerprint(`order ${index}`, records), expected)
      const turned = shuffled.map(({ fields, ...record }) => ({
        fields: Object.fromEntries(Object.entries(fields).toReversed()),
        ...record
      }))
      assert.strictEqual(yield* fingerprint(`order ${index}`, turned), expected)
    }
  })

  it.effect("differs after any change", function* () {
    /** Changes one record: its type, its id, or a field's name or value; or repeats or removes the record. */
    const change = (record: StagedRecord): fc.Arbitrary<ReadonlyArray<StagedRecord>> =>
      fc.oneof(
        fc.constantFrom<ReadonlyArray<StagedRecord>>(
          [],
          [record, record],
          [{ ...record, externalId: `${record.externalId} ` }],
          [{ ...record, entityType: record.entityType === "deal" ? "lead" : "deal" }],
          [{ ...record, fields: { ...record.fields, another: null } }],
          [{ ...record, fields: Object.fromEntries(Object.entries(record.fields).slice(1)) }]
        ),
        fc
          .tuple(fc.constantFrom("mail", "\u{1f600}", "\uffee"), value)
          .map(([name, value]) => [{ ...record, fields: { ...record.fields, [name]: value } }])
      )
    const changes = records.chain((records) =>
      fc.nat(records.length - 1).chain((index) =>
        fc.tuple(...records.slice(index, index + 1).map(change)).map(([instead = []]) => ({
          records,
          changed: records.toSpliced(index, 1, ...instead)
        }))
      )
    )
    let compared = 0
    for (const [index, { changed, records }] of fc.sample(changes, 60).entries()) {
      const same = canonical([...records].map(canonical).sort()) === canonical([...changed].map(canonical).sort())
      if (same || changed.length === 0) continue
      const [one, other] = [
        yield* fingerprint(`change ${index}`, records),
        yield* fingerprint(`change ${index}`, changed)
      ]
      assert.notStrictEqual(one, other, JSON.stringify([records, changed]))
      compared++
    }
    assert.isAbove(compared, 30)
    const batch = [contact("1")]
    const one = yield* fingerprint("version", batch, 1)
    assert.notStrictEqual(yield* fingerprint("version", batch, 2), one)
    assert.notStrictEqual(yield* fingerprint("version", batch, 1, "another"), one)
    assert.strictEqual(yield* fingerprint("another project", batch, 1), one)
  })
})
