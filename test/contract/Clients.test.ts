/** Creates, gets and patches of clients (contract §7). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { receiptOf } from "../support/ContractAnswers.ts"
import { TestServer } from "../support/TestServer.ts"
import { open } from "./Clients.support.ts"

layer(TestServer.layer(), { excludeTestServices: true })("a client", (it) => {
  it.effect("gets ids that sort by age", function* () {
    const { created } = yield* open()
    const ids: Array<string> = []
    for (let i = 0; i < 5; i++) {
      ids.push(yield* created())
      yield* Effect.sleep(2)
    }
    assert.deepStrictEqual(ids, ids.toSorted())
  })

  it.effect("keeps an organization that is archived later, and can leave it", function* () {
    const { apply, created, patch, read } = yield* open({ organizations: [{ id: "o", name: "O" }] })
    const id = yield* created()
    receiptOf(yield* patch(id, { organizationId: "o" }), 200)
    yield* apply({ organizations: [{ id: "o", name: "O", archived: true }] })
    assert.isTrue(receiptOf(yield* patch(id, { displayName: "A" }), 200).changed)
    assert.strictEqual((yield* read(id)).organizationId, "o")
    assert.isTrue(receiptOf(yield* patch(id, { organizationId: null }), 200).changed)
  })

  it.effect("is found under any id that a project file gave it", function* () {
    const ids = ["a/b", "/", "a//b", "a b", "100%", "%41", "..", ".", "a;b#c?d=e&f", ":clientId", "a+b", "*"].concat([
      "u\u0308",
      "日本",
      "'\"\\",
      "\u0001\n\t",
      "constructor",
      "__proto__",
      "a".repeat(160),
      "😀".repeat(160)
    ])
    const { patch, read, walk } = yield* open({ clients: ids.map((id) => ({ id, displayName: "A" })) })
    for (const id of ids) {
      assert.strictEqual((yield* read(id)).id, id)
      assert.strictEqual(receiptOf(yield* patch(id, { displayName: "Found" }), 200).resourceId, id)
      assert.deepInclude(yield* read(id), { id, displayName: "Found" })
    }
    assert.deepStrictEqual((yield* walk("limit=1")).flat().toSorted(), ids.toSorted())
  })
})
