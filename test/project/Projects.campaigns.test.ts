/** Segments, templates and campaigns of applied files, and the members of clients that campaigns use. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { anHourLater, apply, faultsOf, rowsOf, services, textOf } from "./Projects.support.ts"

const clients = ["a", "b", "c"].map((id) => ({ id, displayName: id.toUpperCase() }))

layer(services)("segments of a project file", (it) => {
  const membersOf = Effect.fnUntraced(function* (project: string) {
    return (yield* rowsOf("segment_clients", project)).map((row) => `${row["segment_id"]} ${row["client_id"]}`)
  })

  it.effect("count their clients and have creation and change times", () =>
    Effect.gen(function* () {
      const id = "counted"
      const start = yield* anHourLater
      yield* apply(id, { clients, segments: [{ id: "s", name: "S", clientIds: ["b", "a"] }] })
      const fresh = {
        project_id: id,
        id: "s",
        name: "S",
        description: null,
        contact_count: 2,
        created_at: start,
        updated_at: start
      }
      assert.deepStrictEqual(yield* rowsOf("segments", id), [fresh])
      assert.deepStrictEqual(yield* membersOf(id), ["s a", "s b"])

      const later = yield* anHourLater
      yield* apply(id, { segments: [{ id: "s", name: "S", description: "D", clientIds: ["c"] }] })
      const changed = { ...fresh, description: "D", contact_count: 1, updated_at: later }
      assert.deepStrictEqual(yield* rowsOf("segments", id), [changed])
      assert.deepStrictEqual(yield* membersOf(id), ["s c"])

      // Omitted members are kept; the list of clients is required.
      const last = yield* anHourLater
      yield* apply(id, { segments: [{ id: "s", name: "T", clientIds: [] }] })
      const emptied = { ...changed, name: "T", contact_count: 0, updated_at: last }
      assert.deepStrictEqual(yield* rowsOf("segments", id), [emptied])
      assert.deepStrictEqual(yield* membersOf(id), [])
    })
  )

  it.effect("are unchanged by another order of their clients", () =>
    Effect.gen(function* () {
      const id = "sets"
      // The order of these ids differs between bytes, UTF-16 units and numbers.
      const ids = ["a", "\u{10000}", "\uffee", "B", "10", "9"]
      const of = (clientIds: ReadonlyArray<string>) => [{ id: "s", name: "S", clientIds }]
      yield* apply(id, { clients: ids.map((id) => ({ id, displayName: id })), segments: of(ids) })
      const report = yield* apply(id, { segments: of(ids.toReversed()) })
      assert.deepStrictEqual(report.unchanged["segments"], 1)
    })
  )
})

layer(services)("templates of a project file", (it) => {
  it.effect("are identified by id and version", () =>
    Effect.gen(function* () {
      const id = "versions"
      const template = (id: string, version: number, body = "Hello") => ({ id, version, name: "T", body })
      const first = yield* apply(id, { templates: [template("t", 1), template("t", 2), template("u", 1)] })
      assert.strictEqual(first.created["templates"], 3)
      const second = yield* apply(id, {
        templates: [template("t", 2, "Hi"), template("t", 3), template("u", 1), template("u", 2_147_483_647)]
      })
      assert.deepStrictEqual(
        [second.created["templates"], second.updated["templates"], second.unchanged["templates"]],
        [2, 1, 1]
      )
      assert.deepStrictEqual(
        (yield* rowsOf("templates", id)).map((row) => [row["id"], Number(row["version"]), row["body"]]),
        [
          ["t", 1, "Hello"],
          ["t", 2, "Hi"],
          ["t", 3, "Hello"],
          ["u", 1, "Hello"],
          ["u", 2_147_483_647, "Hello"]
        ]
      )
    })
  )
})

layer(services)("campaigns of a project file", (it) => {
  it.effect("are created as drafts, and only their name changes later", () =>
    Effect.gen(function* () {
      const id = "drafts"
      const sql = yield* SqlClient.SqlClient
      const start = yield* anHourLater
      yield* apply(id, { campaigns: [{ id: "c", name: "C" }] })
      const [draft] = yield* rowsOf("campaigns", id)
      const fresh = { name: "C", status: "draft", version: 1, audience_id: null, primary_template_id: null }
      assert.deepInclude(draft, { ...fresh, created_at: start, updated_at: start })

      yield* apply(id, { templates: [{ id: "t", version: 1, name: "T", body: "Hello" }] })
      yield* sql`
        UPDATE campaigns SET version = 5, primary_template_id = 't', primary_template_version = 1
        WHERE project_id = ${id}`
      yield* anHourLater
      assert.strictEqual((yield* apply(id, { campaigns: [{ id: "c", name: "C" }] })).unchanged["campaigns"], 1)
      const later = yield* anHourLater
      assert.strictEqual((yield* apply(id, { campaigns: [{ id: "c", name: "D" }] })).updated["campaigns"], 1)
      const [renamed] = yield* rowsOf("campaigns", id)
      assert.deepStrictEqual(
        { ...renamed, primary_template_version: Number(renamed?.["primary_template_version"]) },
        { ...draft, name: "D", version: 6, primary_template_id: "t", primary_template_version: 1, updated_at: later }
      )
    })
  )
})

layer(services)("clients of a project file", (it) => {
  it.effect("are consenting, suppressed and merged as in the file, and keep members that a file omits", () =>
    Effect.gen(function* () {
      const id = "consent"
      yield* anHourLater
      const state = Effect.map(rowsOf("clients", id), (rows) =>
        rows.map((row) => [row["id"], row["marketing_consent"], row["suppressed"], row["merged_into_client_id"]])
      )
      yield* apply(id, {
        clients: [
          // The other client comes later in the file.
          { id: "a", displayName: "A", marketingConsent: true, suppressed: true, mergedIntoClientId: "b" },
          { id: "b", displayName: "B" }
        ]
      })
      const expected = [
        ["a", true, true, "b"],
        ["b", false, false, null]
      ]
      assert.deepStrictEqual(yield* state, expected)
      yield* apply(id, { clients: [{ id: "a", displayName: "Other" }] })
      assert.deepStrictEqual(yield* state, expected)
      yield* apply(id, {
        clients: [
          { id: "a", displayName: "Other", marketingConsent: false, suppressed: false, mergedIntoClientId: null },
          { id: "b", displayName: "B", mergedIntoClientId: "a" }
        ]
      })
      assert.deepStrictEqual(yield* state, [
        ["a", false, false, null],
        ["b", false, false, "a"]
      ])
    })
  )

  it.effect("are not merged into themselves", () =>
    Effect.gen(function* () {
      const id = "self"
      const file = { clients: [...clients, { id: "d", displayName: "D", mergedIntoClientId: "d" }] }
      assert.deepStrictEqual(yield* faultsOf(textOf(id, file)), [
        "clients/3/mergedIntoClientId: must be another client than this one"
      ])
      assert.deepStrictEqual(yield* rowsOf("clients", id), [])
    })
  )
})
