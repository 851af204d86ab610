/** Notes on deals: what a create, a patch and a delete do, and what they refuse (contract §5, §7). */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { dealOf, faultsOf, problemOf, receiptOf } from "../support/ContractAnswers.ts"
import type { Answer } from "../support/ContractHttp.ts"
import { eventsOf, subscribe } from "../support/Events.ts"
import { TestServer } from "../support/TestServer.ts"
import { withDeals } from "../support/Deals.ts"
import { keyIdOf, open } from "./Notes.support.ts"
import { newKey } from "./Requests.ts"

const maxVersion = Number.MAX_SAFE_INTEGER

/** A note from long ago, so that what happens to it now happens later. */
const old = { id: "old", createdAt: "2026-01-01T00:00:00.000Z" }

const assertConflict = (answer: Answer, currentVersion: number) =>
  assert.strictEqual(problemOf(answer, 409, "version_conflict").currentVersion, currentVersion)

layer(TestServer.layer(), { excludeTestServices: true })("a note", (it) => {
  it.effect("is created on its deal with the caller's key as author", () =>
    Effect.gen(function* () {
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
  )

  it.effect("keeps its author and creation time when another key changes it", () =>
    Effect.gen(function* () {
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
  )

  it.effect("is unchanged by a patch with its current text", () =>
    Effect.gen(function* () {
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
  )

  it.effect("is neither changed nor removed at another version", () =>
    Effect.gen(function* () {
      const { created, find, patch, remove } = yield* open()
      const id = yield* created("A")
      receiptOf(yield* patch(id, { body: "B", expectedVersion: 1 }), 200)
      const before = yield* find(id)
      for (const expectedVersion of [1, 3, 2 ** 31, maxVersion]) {
        // The guard comes before the question whether the text is another.
        for (const body of ["C", "B"]) assertConflict(yield* patch(id, { body, expectedVersion }), 2)
        assertConflict(yield* remove(id, expectedVersion), 2)
      }
      assert.deepStrictEqual(yield* find(id), before)
    })
  )

  it.effect("is not found after its removal", () =>
    Effect.gen(function* () {
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
  )

  it.effect("is removed only with an expected version in the query", () =>
    Effect.gen(function* () {
      const { created, find, path, server, token } = yield* open()
      const id = yield* created()
      const answer = yield* server.send({ method: "DELETE", path: `${path}/${id}`, token, key: newKey() })
      assert.deepStrictEqual(faultsOf(answer), ["query/expectedVersion"])
      assert.isDefined(yield* find(id))
    })
  )

  it.effect("is not found on a missing deal, whose list answers deal_not_found", () =>
    Effect.gen(function* () {
      const notes = yield* open()
      const { created, find } = notes
      const id = yield* created()
      const { create, list, patch, remove } = notes.but({ dealId: "nothing" })
      problemOf(yield* list(), 404, "deal_not_found")
      problemOf(yield* create({ body: "A" }), 404, "note_not_found")
      problemOf(yield* patch(id, { body: "A", expectedVersion: 1 }), 404, "note_not_found")
      problemOf(yield* remove(id, 1), 404, "note_not_found")
      assert.strictEqual((yield* find(id))?.version, 1)
    })
  )

  it.effect("is not found on another deal of the project at any version", () =>
    Effect.gen(function* () {
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
  )

  it.effect("is not found in another project with a deal of the same id", () =>
    Effect.gen(function* () {
      const { created, find } = yield* open()
      const { page, patch, remove } = yield* open()
      const id = yield* created("A")
      problemOf(yield* patch(id, { body: "B", expectedVersion: 1 }), 404, "note_not_found")
      problemOf(yield* remove(id, 1), 404, "note_not_found")
      assert.deepStrictEqual((yield* page()).items, [])
      assert.deepInclude(yield* find(id), { body: "A", version: 1 })
    })
  )

  it.effect("is found on a deal of any id", () =>
    Effect.gen(function* () {
      const ids = ["a/b", "..", "100%", "a?b#c", "ü", "日本", ":dealId", "😀".repeat(160)]
      const notes = yield* open("deal", ...ids)
      for (const dealId of ids) {
        const { created, find, page, patch, remove } = notes.but({ dealId })
        const id = yield* created("A")
        receiptOf(yield* patch(id, { body: "B", expectedVersion: 1 }), 200)
        assert.deepInclude(yield* find(id), { dealId, body: "B", version: 2 })
        receiptOf(yield* remove(id, 2), 200)
        assert.deepStrictEqual((yield* page()).items, [])
      }
    })
  )

  it.effect("changes neither its deal nor the outbox", () =>
    Effect.gen(function* () {
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
  )
})

layer(TestServer.layer(), { excludeTestServices: true })("the idempotency key of notes", (it) => {
  it.effect("replays its answer whatever happened to the note since, without effect", () =>
    Effect.gen(function* () {
      const { create, created, page, patch, remove } = yield* open()
      const other = yield* created("O")
      const creation = create({ body: "A" })
      const first = yield* creation
      const { resourceId: id } = receiptOf(first, 201)
      const commands = [
        patch(id, { body: "B", expectedVersion: 1 }),
        patch(id, { body: "B", expectedVersion: 2 }),
        patch(other, { body: "P", expectedVersion: 1 }),
        remove(id, 2)
      ]
      const answers = [first, ...(yield* Effect.all(commands))]
      receiptOf(yield* patch(other, { body: "Q", expectedVersion: 2 }), 200)
      const before = yield* page()
      for (const _ of [1, 2]) {
        for (const [index, again] of (yield* Effect.all([creation, ...commands])).entries()) {
          const { headers, status, text } = answers[index] ?? assert.fail()
          assert.include([200, 201], status, text)
          assert.deepStrictEqual([again.status, again.text, again.headers["etag"]], [status, text, headers["etag"]])
          assert.notProperty(headers, "idempotent-replayed")
          assert.strictEqual(again.headers["idempotent-replayed"], "true")
        }
      }
      assert.deepStrictEqual(yield* page(), before)
    })
  )

  it.effect("is replayed to another API key of the project without a change of author", () =>
    Effect.gen(function* () {
      const notes = yield* open()
      const { create, page, projectId, server, token } = notes
      const rotated = notes.but({ token: yield* server.issue(projectId) })
      const key = newKey()
      const { resourceId } = receiptOf(yield* create({ body: "A" }, key), 201)
      assert.deepInclude(receiptOf(yield* rotated.create({ body: "A" }, key), 201), { resourceId, replayed: true })
      const { items } = yield* page()
      assert.deepStrictEqual(
        items.map(({ authorKeyId, id }) => [id, authorKeyId]),
        [[resourceId, keyIdOf(token)]]
      )
    })
  )

  it.effect("remains unused when its command fails", () =>
    Effect.gen(function* () {
      const notes = yield* open()
      const { created, patch, projectId, remove, server } = notes
      const later = notes.but({ dealId: "later" })
      const id = yield* created("A")
      const [made, changed, gone] = [newKey(), newKey(), newKey()]
      const create = later.create({ body: "A" }, made)
      const change = patch(id, { body: "C", expectedVersion: 2 }, changed)
      const removal = remove(id, 3, gone)
      problemOf(yield* create, 404, "note_not_found")
      assertConflict(yield* change, 1)
      assertConflict(yield* removal, 1)
      yield* server.apply(projectId, withDeals("later"))
      receiptOf(yield* patch(id, { body: "B", expectedVersion: 1 }), 200)
      assert.isFalse(receiptOf(yield* create, 201).replayed)
      assert.deepInclude(receiptOf(yield* change, 200), { changed: true, replayed: false, version: 3 })
      assert.deepInclude(receiptOf(yield* removal, 200), { changed: true, replayed: false, version: 3 })
    })
  )
})
