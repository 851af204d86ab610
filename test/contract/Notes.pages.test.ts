/** The pages of a deal's notes while notes are changed and removed (contract §6). */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { notePageOf, receiptOf } from "../support/ContractAnswers.ts"
import { TestServer } from "../support/TestServer.ts"
import { inOrder, many } from "./Lists.ts"
import { open } from "./Notes.support.ts"

const idsOf = ({ items }: ReturnType<typeof notePageOf>) => items.map(({ id }) => id)

layer(TestServer.layer(), { excludeTestServices: true })("the list of notes", (it) => {
  it.effect("contains notes of its deal alone, newest first", () =>
    Effect.gen(function* () {
      const notes = yield* open("deal", "other")
      yield* notes.insert(many(7))
      yield* notes.but({ dealId: "other" }).insert(many(7).map((note) => ({ ...note, id: `other ${note.id}` })))
      const written = yield* notes.created()
      assert.deepStrictEqual(idsOf(yield* notes.page()), [written, ...inOrder(many(7))])
    })
  )

  it.effect("continues after a note that has been removed", () =>
    Effect.gen(function* () {
      const notes = yield* open()
      yield* notes.insert(many(9))
      const first = yield* notes.page("limit=4")
      receiptOf(yield* notes.remove(idsOf(first).at(-1) ?? assert.fail(), 1), 200)
      assert.deepStrictEqual(idsOf(yield* notes.page(`cursor=${first.nextCursor}`)), inOrder(many(9)).slice(4))
    })
  )
})
