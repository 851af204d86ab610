/** Creates, patches and deletes of notes, their conflicts, and the pages (contract §5, §6, §7). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { dealOf, problemOf, receiptOf } from "../support/ContractAnswers.ts"
import { eventsOf, subscribe } from "../support/Events.ts"
import { TestServer } from "../support/TestServer.ts"
import { keyIdOf, open } from "./Notes.support.ts"

/** A note so old that every change of it has a later time. */
const old = { id: "old", createdAt: "2026-01-01T00:00:00.000Z" }

layer(TestServer.layer(), { excludeTestServices: true })("a note", (it) => {
  it.effect("is created on its deal with the caller's key as author", function* () {
    const { create, find, token } = yield* open()
    const before = Date.now()
    const { resourceId, ...receipt } = receiptOf(yield* create({ body: " First \n" }), 201)
    assert.deepStrictEqual(receipt, { changed: true, replayed: false, version: 1 })
    assert.match(resourceId, /^note_/)
    const note = yield* find(resourceId)
    const { createdAt = "" } = note ?? {}
    assert.deepStrictEqual(note, {
      id: resourceId,
      dealId: "deal",
      body: " First \n",
      authorKeyId: keyIdOf(token),
      version: 1,
      createdAt,
      updatedAt: createdAt
    })
    assert.isTrue(Date.parse(createdAt) >= before && Date.parse(createdAt) <= Date.now())
  })

  it.effect(
    "keeps its author and creation time when another key changes it, and all of it with its current text",
    function* () {
      const notes = yield* open()
      const { find, insert, projectId, server, token } = notes
      const colleague = notes.but({ token: yield* server.issue(projectId) })
      yield* insert(old)
      let before = (yield* find(old.id)) ?? assert.fail()
      for (const body of ["Inserted", "\u00e9", "e\u0301", "e\u0301 ", "E\u0301 ", "E\u0301 "]) {
        const changed = body !== before.body
        const version = before.version + (changed ? 1 : 0)
        const answer = yield* colleague.patch(old.id, { body, expectedVersion: before.version })
        assert.deepStrictEqual(receiptOf(answer, 200), { resourceId: old.id, changed, replayed: false, version })
        const after = (yield* find(old.id)) ?? assert.fail()
        assert.deepStrictEqual(after, { ...before, body, version, updatedAt: after.updatedAt })
        if (changed) assert.isAbove(Date.parse(after.updatedAt), Date.parse(old.createdAt))
        else assert.strictEqual(after.updatedAt, before.updatedAt)
        before = after
      }
      assert.deepInclude(before, { ...old, authorKeyId: keyIdOf(token) })
    }
  )

  it.effect("is not found on another deal of the project at any version", function* () {
    const notes = yield* open("deal", "other")
    const { created, find } = notes
    const id = yield* created("A")
    const other = notes.but({ dealId: "other" })
    for (const version of [1, 2]) {
      problemOf(yield* other.patch(id, { body: "B", expectedVersion: version }), 404, "note_not_found")
      problemOf(yield* other.remove(id, version), 404, "note_not_found")
    }
    assert.deepInclude(yield* find(id), { body: "A", version: 1 })
    assert.deepStrictEqual((yield* other.page()).items, [])
  })

  it.effect("is not found after its removal, and has changed neither its deal nor the outbox", function* () {
    const { created, page, patch, projectId, remove, server, token } = yield* open()
    yield* subscribe(server.sql, projectId, "shop")
    const read = Effect.map(server.send({ path: "/api/v1/developer/crm/deals/deal", token }), dealOf)
    const before = yield* read
    const [id, other] = [yield* created(), yield* created()]
    receiptOf(yield* patch(id, { body: "B", expectedVersion: 1 }), 200)
    const removed = receiptOf(yield* remove(id, 2), 200)
    assert.deepStrictEqual(removed, { resourceId: id, changed: true, replayed: false, version: 2 })
    assert.deepStrictEqual(
      (yield* page()).items.map(({ id }) => id),
      [other]
    )
    problemOf(yield* remove(id, 2), 404, "note_not_found")
    problemOf(yield* patch(id, { body: "C", expectedVersion: 2 }), 404, "note_not_found")
    assert.deepStrictEqual(yield* read, before)
    assert.deepStrictEqual(yield* eventsOf(server.sql, projectId), [])
  })
})
