/** Clients: what a create, a get and a patch do (contract §7). */
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

  it.effect("keeps members that a patch omits, and clears members set to null", () =>
    Effect.gen(function* () {
      const { create, patch, read } = yield* open({
        organizations: [{ id: "o", name: "O" }],
        members: [{ id: "m", name: "M" }]
      })
      const { resourceId: id } = receiptOf(yield* create(full), 201)
      let expected = yield* read(id)
      for (const change of [
        { firstName: "Augusta" },
        { organizationId: "o", responsibleMemberId: "m" },
        { tags: ["newsletter", "vip"] },
        { tags: ["vip", "newsletter"] },
        { email: null },
        { phone: null, lastName: null },
        { firstName: null, externalId: null, organizationId: null, responsibleMemberId: null, tags: [] },
        { displayName: "\u00e9" },
        { displayName: "e\u0301" }
      ]) {
        yield* Effect.sleep(2)
        const receipt = receiptOf(yield* patch(id, change), 200)
        const { updatedAt, ...client } = yield* read(id)
        const { updatedAt: before, ...rest } = expected
        assert.deepStrictEqual(receipt, {
          resourceId: id,
          changed: true,
          version: expected.version + 1,
          replayed: false
        })
        assert.deepStrictEqual(client, { ...rest, ...change, version: expected.version + 1 })
        assert.isAbove(Date.parse(updatedAt), Date.parse(before))
        expected = { ...client, updatedAt }
      }
    })
  )

  it.effect("is unchanged by a patch with its current values", () =>
    Effect.gen(function* () {
      const { create, patch, read } = yield* open()
      const { resourceId: id } = receiptOf(yield* create(full), 201)
      const before = yield* read(id)
      yield* Effect.sleep(2)
      for (const same of [{ displayName: full.displayName }, full, { organizationId: null }, { status: "active" }]) {
        assert.deepStrictEqual(receiptOf(yield* patch(id, same), 200), {
          resourceId: id,
          changed: false,
          version: 1,
          replayed: false
        })
      }
      assert.deepStrictEqual(yield* read(id), before)
    })
  )

  it.effect("accepts only activation while archived", () =>
    Effect.gen(function* () {
      const { created, patch, read } = yield* open()
      const id = yield* created()
      receiptOf(yield* patch(id, { status: "archived", displayName: "Gone" }), 200)
      const archived = yield* read(id)
      assert.deepInclude(archived, { status: "archived", displayName: "Gone", version: 2 })
      assert.strictEqual(archived.archivedAt, archived.updatedAt)
      for (const body of [
        { status: "archived" },
        { displayName: "Back" },
        { displayName: "Gone" },
        { status: "active", displayName: "Gone" },
        { status: "active", tags: [] },
        { status: "active", organizationId: "nothing" },
        { organizationId: "nothing" },
        { responsibleMemberId: "nothing" }
      ]) {
        problemOf(yield* patch(id, body), 409, "client_archived")
      }
      assert.deepStrictEqual(yield* read(id), archived)
      assert.deepInclude(receiptOf(yield* patch(id, { status: "active" }), 200), { changed: true, version: 3 })
      assert.deepInclude(yield* read(id), { status: "active", archivedAt: null, version: 3 })
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
      const ids = [
        "a/b",
        "/",
        "a/",
        "a//b",
        "a b",
        "100%",
        "%41",
        "..",
        ".",
        "a;b",
        "a#b",
        "a?b=c",
        "a&b",
        "a:b",
        ":clientId",
        "a+b",
        "*",
        "ü",
        "u\u0308",
        "日本",
        "😀",
        "'\"\\",
        "\u0001\n\t",
        "constructor",
        "__proto__",
        "a".repeat(160),
        "😀".repeat(160)
      ]
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
