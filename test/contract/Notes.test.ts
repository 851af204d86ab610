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

  it.effect("keeps its author and creation time when another key changes it", function* () {
    const notes = yield* open()
    const { find, insert, projectId, server, token } = notes
    const colleague = notes.but({ token: yield* server.issue(projectId) })
    yield* insert([old])
    let version = 1
    for (const body of ["\u00e9", "e\u0301", "e\u0301 ", "E\u0301 "]) {
      const answer = yield* colleague.patch(old.id, { body, expectedVersion: version })
      version++
      assert.deepStrictEqual(receiptOf(answer, 200), { resourceId: old.id, changed: true, replayed: false, version })
      const { updatedAt = "", ...note } = (yield* find(old.id)) ?? {}
      assert.deepStrictEqual(note, { ...old, dealId: "deal", body, authorKeyId: keyIdOf(token), version })
      assert.isAbove(Date.parse(updatedAt), Date.parse(old.createdAt))
    }
  })

  it.effect("is unchanged by a patch with its current text", function* () {
    const { find, insert, patch, remove } = yield* open()
    yield* insert([old])
    const before = yield* find(old.id)
    for (const _ of [1, 2]) {
      assert.deepStrictEqual(receiptOf(yield* patch(old.id, { body: "Inserted", expectedVersion: 1 }), 200), {
        resourceId: old.id,
        changed: false,
        replayed: false,
        version: 1
      })
    }
    assert.deepStrictEqual(yield* find(old.id), before)
    receiptOf(yield* remove(old.id, 1), 200)
  })

  it.effect("is not found after its removal", function* () {
    const { created, page, patch, remove } = yield* open()
    const [id, other] = [yield* created(), yield* created()]
    receiptOf(yield* patch(id, { body: "B", expectedVersion: 1 }), 200)
    assert.deepStrictEqual(receiptOf(yield* remove(id, 2), 200), {
      resourceId: id,
      changed: true,
      replayed: false,
      version: 2
    })
    assert.deepStrictEqual(
      (yield* page()).items.map(({ id }) => id),
      [other]
    )
    problemOf(yield* remove(id, 2), 404, "note_not_found")
    problemOf(yield* patch(id, { body: "C", expectedVersion: 2 }), 404, "note_not_found")
  })

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

  it.effect("changes neither its deal nor the outbox", function* () {
    const { created, patch, projectId, remove, server, token } = yield* open()
    yield* subscribe(server.sql, projectId, "shop")
    const read = Effect.map(server.send({ path: "/api/v1/developer/crm/deals/deal", token }), dealOf)
    const before = yield* read
    const id = yield* created()
    receiptOf(yield* patch(id, { body: "B", expectedVersion: 1 }), 200)
    receiptOf(yield* remove(id, 2), 200)
    assert.deepStrictEqual(yield* read, before)
    assert.deepStrictEqual(yield* eventsOf(server.sql, projectId), [])
  })
})
