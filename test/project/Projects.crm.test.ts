/** Loyalty, tickets and tasks of applied files. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { anHourLater, apply, type File, rowsOf, services } from "./Projects.support.ts"

type Loyalty = NonNullable<File["clients"]>[number]["loyalty"]
type Rating = NonNullable<File["tickets"]>[number]["rating"]

const named = (...ids: ReadonlyArray<string>) => ids.map((id) => ({ id, name: id.toUpperCase() }))

layer(services)("loyalty in a project file", (it) => {
  /** Applies a file with one client and this loyalty; returns the client's loyalty and version. */
  const after = Effect.fnUntraced(function* (id: string, loyalty?: Loyalty) {
    yield* apply(id, { clients: [{ id: "c", displayName: "C", ...(loyalty !== undefined && { loyalty }) }] })
    const [row] = yield* rowsOf("clients", id)
    return [
      row?.["loyalty_card_number"],
      row?.["loyalty_level_id"],
      row?.["loyalty_balance"],
      row?.["ready_stamp_offer_ids"],
      row?.["version"]
    ]
  })

  it.effect("of a client is kept by member and cleared as a whole", () =>
    Effect.gen(function* () {
      const id = "loyalty"
      yield* apply(id, { loyaltyLevels: named("l"), stampOffers: named("a", "b", "c") })
      assert.deepStrictEqual(yield* after(id), [null, null, 0, [], 1])
      assert.deepStrictEqual(yield* after(id, {}), [null, null, 0, [], 1])
      const full = { cardNumber: "1", levelId: "l", balance: 5, readyStampOfferIds: ["a", "b"] }
      assert.deepStrictEqual(yield* after(id, full), ["1", "l", 5, ["a", "b"], 2])
      assert.deepStrictEqual(yield* after(id), ["1", "l", 5, ["a", "b"], 2])
      assert.deepStrictEqual(yield* after(id, {}), ["1", "l", 5, ["a", "b"], 2])
      assert.deepStrictEqual(yield* after(id, { readyStampOfferIds: ["c"] }), ["1", "l", 5, ["c"], 3])
      assert.deepStrictEqual(yield* after(id, { levelId: null, balance: 0 }), ["1", null, 0, ["c"], 4])
      assert.deepStrictEqual(yield* after(id, { cardNumber: null }), [null, null, 0, ["c"], 5])
      assert.deepStrictEqual(yield* after(id, full), ["1", "l", 5, ["a", "b"], 6])
      assert.deepStrictEqual(yield* after(id, null), [null, null, 0, [], 7])
      assert.deepStrictEqual(yield* after(id, null), [null, null, 0, [], 7])
      const fresh = yield* apply(id, { clients: [{ id: "d", displayName: "D", loyalty: { balance: 2_147_483_647 } }] })
      assert.strictEqual(fresh.created["clients"], 1)
      assert.strictEqual((yield* rowsOf("clients", id))[1]?.["loyalty_balance"], 2_147_483_647)
    })
  )

  it.effect("counts as a change of the client", () =>
    Effect.gen(function* () {
      const id = "loyal"
      yield* after(id)
      const later = yield* anHourLater
      const { updated } = yield* apply(id, { clients: [{ id: "c", displayName: "C", loyalty: { balance: 1 } }] })
      assert.deepStrictEqual(updated, { project: 0, clients: 1 })
      assert.deepInclude((yield* rowsOf("clients", id))[0], { updated_at: later, version: 2 })
    })
  )

  it.effect("has levels and offers identified by id", () =>
    Effect.gen(function* () {
      const id = "levels"
      yield* apply(id, { loyaltyLevels: named("a", "b"), stampOffers: named("c") })
      const file = { loyaltyLevels: [...named("a", "d"), { id: "b", name: "new" }], stampOffers: named("c") }
      const report = yield* apply(id, file)
      assert.deepStrictEqual(
        [report.created, report.updated, report.unchanged].map((of) => [of["loyaltyLevels"], of["stampOffers"]]),
        [
          [1, 0],
          [1, 0],
          [1, 1]
        ]
      )
      const names = (yield* rowsOf("loyalty_levels", id)).map(({ name }) => name)
      assert.deepStrictEqual(names, ["A", "new", "D"])
      assert.deepStrictEqual(yield* rowsOf("stamp_offers", id), [{ project_id: id, id: "c", name: "C" }])
    })
  )
})

layer(services)("tickets of a project file", (it) => {
  it.effect("get, keep and lose a rating as a whole", () =>
    Effect.gen(function* () {
      const id = "tickets"
      const after = Effect.fnUntraced(function* (rating?: Rating) {
        const ticket = { id: "t", subject: "T", status: "open" as const, ...(rating !== undefined && { rating }) }
        yield* apply(id, { tickets: [ticket] })
        const [row] = yield* rowsOf("tickets", id)
        return [row?.["rating_score"], row?.["rating_comment"], row?.["rating_by"], row?.["version"]]
      })
      assert.deepStrictEqual(yield* after(), [null, null, null, 1])
      assert.deepStrictEqual(yield* after({ score: 5, comment: "C", by: "customer" }), [5, "C", "customer", 2])
      assert.deepStrictEqual(yield* after(), [5, "C", "customer", 2])
      assert.deepStrictEqual(yield* after({ score: 5, comment: "C", by: "customer" }), [5, "C", "customer", 2])
      assert.deepStrictEqual(yield* after({ score: 5, by: "operator" }), [5, null, "operator", 3])
      assert.deepStrictEqual(yield* after({ score: 1, comment: null, by: "operator" }), [1, null, "operator", 4])
      assert.deepStrictEqual(yield* after(null), [null, null, null, 5])
      assert.deepStrictEqual(yield* after(null), [null, null, null, 5])
    })
  )

  it.effect("keep and change their other members", () =>
    Effect.gen(function* () {
      const id = "ticket"
      const clients = [{ id: "c", displayName: "C" }]
      yield* apply(id, { clients, tickets: [{ id: "t", subject: "T", status: "pending", clientId: "c" }] })
      yield* apply(id, { tickets: [{ id: "t", subject: "U", status: "closed" }] })
      assert.deepInclude((yield* rowsOf("tickets", id))[0], {
        subject: "U",
        status: "closed",
        client_id: "c",
        version: 2
      })
      yield* apply(id, { tickets: [{ id: "t", subject: "U", status: "closed", clientId: null }] })
      assert.deepInclude((yield* rowsOf("tickets", id))[0], { client_id: null, version: 3 })
    })
  )
})

layer(services)("tasks of a project file", (it) => {
  it.effect("are created, completed and reopened by files", () =>
    Effect.gen(function* () {
      const id = "tasks"
      const after = Effect.fnUntraced(function* (members: Partial<NonNullable<File["tasks"]>[number]> = {}) {
        yield* apply(id, { tasks: [{ id: "k", title: "K", ...members }] })
        return (yield* rowsOf("tasks", id))[0]
      })
      const start = yield* anHourLater
      yield* apply(id, {
        members: [{ id: "m", name: "M" }],
        clients: [{ id: "c", displayName: "C" }],
        pipelines: [{ id: "p", name: "P", stages: [{ id: "s", name: "S" }] }],
        deals: [{ id: "d", title: "D", pipelineId: "p" }]
      })
      const fresh = {
        project_id: id,
        id: "k",
        title: "K",
        deal_id: null,
        client_id: null,
        assignee_id: null,
        due_at: null,
        completed_at: null,
        version: 1,
        created_at: start
      }
      assert.deepStrictEqual(yield* after(), fresh)
      yield* anHourLater
      const time = new Date("2026-11-20T10:00:00.000Z")
      const set = {
        ...fresh,
        deal_id: "d",
        client_id: "c",
        assignee_id: "m",
        due_at: time,
        completed_at: time,
        version: 2
      }
      const at = "2026-11-20T11:00:00+01:00"
      const members = { dealId: "d", clientId: "c", assigneeId: "m", dueAt: at, completedAt: at }
      assert.deepStrictEqual(yield* after(members), set)
      assert.deepStrictEqual(yield* after(), set)
      assert.deepStrictEqual(yield* after({ completedAt: null }), { ...set, completed_at: null, version: 3 })
      assert.deepStrictEqual(
        yield* after({ title: "L", dealId: null, clientId: null, assigneeId: null, dueAt: null }),
        { ...fresh, title: "L", version: 4 }
      )
    })
  )
})
