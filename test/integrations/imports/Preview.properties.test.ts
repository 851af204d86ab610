/** Previews of random batches, compared with a model of contract §11. */
import { assert, layer } from "../../support/Vitest.ts"
import * as fc from "fast-check"
import { clients, profile, records } from "./Preview.batches.support.ts"
import { previewOf } from "./Preview.model.support.ts"
import { apply, preview, services } from "./Preview.support.ts"

const batches = fc.record({ clients, records, profile, other: profile })

layer(services)("any batch", (it) => {
  it.effect("is previewed as the model does, under two profiles and after a change", function* () {
    const seen = { update: 0, skip: 0, duplicates: 0, unsupported: 0 }
    for (const [index, batch] of fc.sample(batches, 150).entries()) {
      const projectId = `any-${index}`
      const text = JSON.stringify(batch, null, 1)
      const { clients, other, profile, records } = batch
      yield* apply(projectId, { importProfile: profile, stagedRecords: records }, { clients })
      const answer = yield* preview(projectId)
      assert.deepStrictEqual(answer, previewOf("ins", profile, records, clients), text)

      const { counts, duplicateCount, estimatedChanges, unsupportedFields } = answer
      const { create, skip, update } = estimatedChanges
      const total = Object.values(counts).reduce((sum, count) => sum + count, 0)
      assert.strictEqual(total, records.length)
      assert.strictEqual(create + update + skip, total)
      assert.isAtLeast(skip, duplicateCount)
      assert.isAtMost(update, counts.contact)
      seen.update += update
      seen.skip += skip - duplicateCount
      seen.duplicates += duplicateCount
      seen.unsupported += unsupportedFields.length

      yield* apply(projectId, { importProfile: other })
      assert.deepStrictEqual(yield* preview(projectId), previewOf("ins", other, records, clients), text)

      // A batch that differs in one field replaces the stored one.
      const changed = records.map((record, n) => (n > 0 ? record : { ...record, fields: { another: null } }))
      yield* apply(projectId, { importProfile: other, stagedRecords: changed })
      assert.deepStrictEqual(yield* preview(projectId), previewOf("ins", other, changed, clients), text)
    }
    // Each kind occurs in the samples.
    for (const [what, count] of Object.entries(seen)) assert.isAbove(count, 20, what)
  })
})
