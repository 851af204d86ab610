/** Creates, gets and patches of clients (contract §7). */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { problemOf, receiptOf } from "../support/ContractAnswers.ts"
import { TestServer } from "../support/TestServer.ts"
import { atOnce, open } from "./Clients.support.ts"

const full = {
  displayName: " Ada Lovelace ",
  firstName: "Ada",
  lastName: "Lovelace",
  email: "ada@example.com",
  phone: "+442071838750",
  tags: ["vip", "Newsletter", "newsletter"],
  externalId: "crm-1815"
}

const nothing = { firstName: null, lastName: null, email: null, phone: null, tags: [], externalId: null }

layer(TestServer.layer(), { excludeTestServices: true })("a client", (it) => {
  it.effect("is created with the given members, and null or empty defaults", () =>
    Effect.gen(function* () {
      const { create, read } = yield* open()
      for (const [body, expected] of [
        [full, full],
        [{ displayName: "A" }, { displayName: "A", ...nothing }],
        [
          { displayName: "A", ...nothing },
          { displayName: "A", ...nothing }
        ]
      ] as const) {
        const before = Date.now()
        const { changed, replayed, resourceId, version } = receiptOf(yield* create(body), 201)
        assert.deepStrictEqual([changed, replayed, version], [true, false, 1])
        assert.match(resourceId, /^cli_/)
        const { createdAt, updatedAt, ...client } = yield* read(resourceId)
        assert.deepStrictEqual(client, {
          ...expected,
          id: resourceId,
          tags: [...expected.tags],
          organizationId: null,
          responsibleMemberId: null,
          status: "active",
          version: 1,
          archivedAt: null
        })
        assert.strictEqual(createdAt, updatedAt)
        assert.isTrue(Date.parse(createdAt) >= before && Date.parse(createdAt) <= Date.now())
      }
    })
  )

  it.effect("gets ids that sort by age", () =>
    Effect.gen(function* () {
      const { created } = yield* open()
      const ids: Array<string> = []
      for (let i = 0; i < 5; i++) {
        ids.push(yield* created())
        yield* Effect.sleep(2)
      }
      assert.deepStrictEqual(ids, ids.toSorted())
    })
  )

  it.effect("may share its email and external id with others", () =>
    Effect.gen(function* () {
      const { create } = yield* open()
      for (const _ of [1, 2]) receiptOf(yield* create(full), 201)
    })
  )

  it.effect("refers only to members and organizations of the project that are not archived", () =>
    Effect.gen(function* () {
      const { created, patch, read } = yield* open({
        members: [
          { id: "m", name: "M" },
          { id: "idle", name: "Idle", active: false }
        ],
        organizations: [
          { id: "o", name: "O" },
          { id: "old", name: "Old", archived: true }
        ]
      })
      const id = yield* created()
      problemOf(yield* patch("nothing", { displayName: "A" }), 404, "client_not_found")
      problemOf(yield* patch(id, { displayName: "A", responsibleMemberId: "o" }), 404, "member_not_found")
      problemOf(yield* patch(id, { displayName: "A", organizationId: "m" }), 404, "organization_not_found")
      problemOf(yield* patch(id, { displayName: "A", organizationId: "old" }), 409, "organization_archived")
      assert.deepInclude(yield* read(id), { version: 1, displayName: "New" })
      receiptOf(yield* patch(id, { organizationId: "o", responsibleMemberId: "m" }), 200)
      assert.deepInclude(yield* read(id), { organizationId: "o", responsibleMemberId: "m", version: 2 })
    })
  )

  it.effect("keeps an organization that is archived later, and can leave it", () =>
    Effect.gen(function* () {
      const { apply, created, patch, read } = yield* open({ organizations: [{ id: "o", name: "O" }] })
      const id = yield* created()
      receiptOf(yield* patch(id, { organizationId: "o" }), 200)
      yield* apply({ organizations: [{ id: "o", name: "O", archived: true }] })
      assert.isTrue(receiptOf(yield* patch(id, { displayName: "A" }), 200).changed)
      assert.strictEqual((yield* read(id)).organizationId, "o")
      assert.isTrue(receiptOf(yield* patch(id, { organizationId: null }), 200).changed)
    })
  )

  it.effect("is found under any id that a project file gave it", () =>
    Effect.gen(function* () {
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
  )

  it.effect("keeps each of 50 concurrent patches", () =>
    Effect.gen(function* () {
      const { created, patch, read } = yield* open()
      const id = yield* created()
      const answers = yield* atOnce(50, (index) => patch(id, { displayName: `Name ${index}` }))
      const versions = answers.map((answer) => receiptOf(answer, 200).version)
      assert.deepStrictEqual(
        versions.toSorted((left, right) => left - right),
        Array.from({ length: 50 }, (_, index) => index + 2)
      )
      const last = versions.indexOf(51)
      assert.deepInclude(yield* read(id), { version: 51, displayName: `Name ${last}` })
    })
  )
})
