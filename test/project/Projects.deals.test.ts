/** Deals of applied files: their members, defaults and rules. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { anHourLater, apply, faultsOf, type File, rowsOf, services, stateOf, textOf } from "./Projects.support.ts"

type Deal = Partial<NonNullable<File["deals"]>[number]>

/** Two pipelines, `p` and `q`, with two stages each: `p1`, `p2`, `q1` and `q2`. */
const pipelines = ["p", "q"].map((id) => ({
  id,
  name: id.toUpperCase(),
  stages: ["1", "2"].map((name) => ({ id: `${id}${name}`, name }))
}))

const fileOf = (...deals: ReadonlyArray<Deal>) => ({
  deals: deals.map((deal, index) => ({ id: `d${index}`, title: "T", ...deal }))
})

/** Applies a project with two pipelines, `p` the default, and these deals. */
const given = (id: string, ...deals: ReadonlyArray<Deal>) =>
  apply(id, { project: { defaultPipelineId: "p" }, pipelines, ...fileOf(...deals) })

/** Applies a file with these members; returns the deals in order. */
const after = Effect.fnUntraced(function* (id: string, ...deals: ReadonlyArray<Deal>) {
  yield* apply(id, fileOf(...deals))
  return yield* rowsOf("deals", id)
})

const refused = (id: string, ...deals: ReadonlyArray<Deal>) => faultsOf(textOf(id, fileOf(...deals)))

layer(services)("deals of a project file", (it) => {
  it.effect("get defaults when they are new", () =>
    Effect.gen(function* () {
      const start = yield* anHourLater
      yield* given("new", {})
      assert.deepStrictEqual(yield* rowsOf("deals", "new"), [
        {
          project_id: "new",
          id: "d0",
          title: "T",
          client_id: null,
          organization_id: null,
          pipeline_id: "p",
          stage_id: "p1",
          status: "open",
          lifecycle: "active",
          amount_minor: null,
          currency: null,
          expected_close_date: null,
          responsible_member_id: null,
          lost_reason: null,
          closed_at: null,
          version: 1,
          created_at: start,
          updated_at: start
        }
      ])
    })
  )

  it.effect("keep omitted members, and lose members set to null", () =>
    Effect.gen(function* () {
      const id = "members"
      const full: Deal = {
        title: "Full",
        clientId: "c",
        organizationId: "o",
        pipelineId: "q",
        stageId: "q2",
        status: "lost",
        lifecycle: "archived",
        amountMinor: Number.MAX_SAFE_INTEGER,
        currency: "EUR",
        expectedCloseDate: "0099-12-31",
        responsibleMemberId: "m",
        lostReason: "No budget",
        closedAt: "2026-02-01T12:00:00+02:00",
        createdAt: "2026-01-01T00:00:00.123Z"
      }
      yield* apply(id, {
        members: [{ id: "m", name: "M", active: false }],
        organizations: [{ id: "o", name: "O" }],
        clients: [{ id: "c", displayName: "C" }]
      })
      yield* given(id, full)
      const [before = {}] = yield* rowsOf("deals", id)
      assert.deepInclude(before, {
        client_id: "c",
        organization_id: "o",
        stage_id: "q2",
        lifecycle: "archived",
        lost_reason: "No budget",
        closed_at: new Date("2026-02-01T10:00:00.000Z"),
        created_at: new Date("2026-01-01T00:00:00.123Z"),
        version: 1
      })
      assert.strictEqual(String(before["amount_minor"]), "9007199254740991")
      yield* anHourLater
      const silent = yield* apply(id, fileOf({ title: "Full" }))
      assert.strictEqual(silent.unchanged["deals"], 1)
      assert.deepStrictEqual(yield* rowsOf("deals", id), [before])

      const later = yield* anHourLater
      const none = { clientId: null, organizationId: null, responsibleMemberId: null, expectedCloseDate: null }
      const [cleared] = yield* after(id, { ...none, amountMinor: null, currency: null, lostReason: null })
      assert.deepStrictEqual(cleared, {
        ...before,
        title: "T",
        client_id: null,
        organization_id: null,
        responsible_member_id: null,
        expected_close_date: null,
        amount_minor: null,
        currency: null,
        lost_reason: null,
        version: 2,
        updated_at: later
      })
    })
  )

  it.effect("are put on the resulting default pipeline and its first stage", () =>
    Effect.gen(function* () {
      const id = "place"
      assert.deepStrictEqual(yield* refused(id, {}, { pipelineId: "p" }), [
        "deals/1/pipelineId: names nothing in pipelines, here or in the project",
        "deals/0/pipelineId: is required while the project has no default pipeline"
      ])
      yield* given(id, {}, { stageId: "p2" }, { pipelineId: "q" }, { pipelineId: "q", stageId: "q2" })
      const places = Effect.map(rowsOf("deals", id), (rows) => rows.map(({ stage_id }) => stage_id).join(" "))
      assert.strictEqual(yield* places, "p1 p2 q1 q2")
      // The previous default is not used, and existing deals are not moved.
      const reversed = pipelines.map((pipeline) => ({ ...pipeline, stages: pipeline.stages.toReversed() }))
      const deals = [...fileOf({}, {}, {}, {}).deals, { id: "d4", title: "T" }]
      yield* apply(id, { project: { defaultPipelineId: "q" }, pipelines: reversed, deals })
      assert.strictEqual(yield* places, "p1 p2 q1 q2 q2")
      assert.deepStrictEqual(
        yield* faultsOf(textOf(id, { project: { defaultPipelineId: null }, deals: [{ id: "d5", title: "T" }] })),
        ["deals/0/pipelineId: is required while the project has no default pipeline"]
      )
      assert.deepStrictEqual(
        yield* faultsOf(textOf(id, { project: { defaultPipelineId: "r" }, deals: [{ id: "d5", title: "T" }] })),
        ["project/defaultPipelineId: names nothing in pipelines, here or in the project"]
      )
      // A new pipeline without a stage moves a deal to its first stage; the same pipeline keeps the stage.
      yield* after(id, { pipelineId: "q" }, { pipelineId: "p" }, { stageId: "q1" }, { pipelineId: "p", stageId: "p1" })
      assert.strictEqual(yield* places, "q2 p2 q1 p1 q2")
    })
  )

  it.effect("require a stage of their pipeline", () =>
    Effect.gen(function* () {
      const id = "outside"
      yield* given(id, {}, {})
      const before = yield* stateOf(id)
      assert.deepStrictEqual(
        yield* refused(id, { stageId: "q1" }, { pipelineId: "q", stageId: "p1" }, { stageId: "q2" }, { stageId: "x" }),
        [
          "deals/3/stageId: names nothing in stages, here or in the project",
          "deals/0/stageId: names no stage of the deal's pipeline",
          "deals/1/stageId: names no stage of the deal's pipeline",
          "deals/2/stageId: names no stage of the deal's pipeline"
        ]
      )
      assert.deepStrictEqual(yield* stateOf(id), before)
    })
  )

  it.effect("have an amount and a currency, or neither", () =>
    Effect.gen(function* () {
      const id = "money"
      const money = { amountMinor: 5, currency: "EUR" }
      yield* given(id, {}, money, money)
      assert.deepStrictEqual(
        yield* refused(id, { amountMinor: 0 }, { amountMinor: null }, { currency: null }, { currency: "EUR" }),
        [
          "deals/0/currency: is required with an amount",
          "deals/1/amountMinor: is required with a currency",
          "deals/2/currency: is required with an amount",
          "deals/3/amountMinor: is required with a currency"
        ]
      )
      const rows = yield* after(id, money, { amountMinor: 6 }, { currency: "JPY" }, { amountMinor: null })
      assert.deepStrictEqual(
        rows.map(({ amount_minor, currency }) => `${amount_minor} ${currency}`),
        ["5 EUR", "6 EUR", "5 JPY", "null null"]
      )
    })
  )

  it.effect("have a lost reason only when lost", () =>
    Effect.gen(function* () {
      const id = "reason"
      const lost = { status: "lost", lostReason: "R" } as const
      yield* given(id, {}, lost, lost, lost, lost)
      const reasons = (rows: ReadonlyArray<Record<string, unknown>>) => rows.map(({ lost_reason }) => lost_reason)
      assert.deepStrictEqual(
        yield* refused(
          id,
          { lostReason: "R" },
          { status: "won", lostReason: "R" },
          { status: "open", lostReason: "R" }
        ),
        [0, 1, 2].map((index) => `deals/${index}/lostReason: must be null unless the deal is lost`)
      )
      const kept = yield* after(
        id,
        { lostReason: null },
        {},
        { status: "won" },
        { status: "open" },
        { lostReason: "S" }
      )
      assert.deepStrictEqual(reasons(kept), [null, "R", null, null, "S"])
      const cleared = yield* after(id, { status: "lost" }, { lostReason: null }, lost, {}, { status: "won" })
      assert.deepStrictEqual(reasons(cleared), [null, null, "R", null, null])
    })
  )

  it.effect("have a closing time only when closed", () =>
    Effect.gen(function* () {
      const id = "closed"
      const then = new Date("2026-01-01T00:00:00.000Z")
      const closedAt = then.toISOString()
      const start = yield* anHourLater
      yield* given(id, {}, { status: "won" }, { status: "lost", closedAt }, { closedAt: null })
      const times = (rows: ReadonlyArray<Record<string, unknown>>) => rows.map(({ closed_at }) => closed_at)
      assert.deepStrictEqual(times(yield* rowsOf("deals", id)), [null, start, then, null])
      assert.deepStrictEqual(
        yield* refused(
          id,
          { closedAt },
          { closedAt: null },
          { status: "open", closedAt },
          { status: "won", closedAt: null },
          { closedAt }
        ),
        [
          "deals/0/closedAt: must be null while the deal is open",
          "deals/1/closedAt: must not be null once the deal is won or lost",
          "deals/2/closedAt: must be null while the deal is open",
          "deals/3/closedAt: must not be null once the deal is won or lost",
          "deals/4/closedAt: must be null while the deal is open"
        ]
      )
      // It stays closed from won to lost and back.
      const later = yield* anHourLater
      const moved = yield* after(id, { status: "lost" }, { status: "lost" }, { status: "won" }, {})
      assert.deepStrictEqual(times(moved), [later, start, then, null])
      yield* anHourLater
      const opened = yield* after(id, {}, { closedAt }, { status: "open" }, { status: "won", closedAt })
      assert.deepStrictEqual(times(opened), [later, then, null, then])
    })
  )

  it.effect("keep the time of their creation unless a file gives it", () =>
    Effect.gen(function* () {
      const id = "created"
      const start = yield* anHourLater
      yield* given(id, {}, { createdAt: "2026-01-01T00:00:00Z" })
      yield* anHourLater
      const rows = yield* after(id, { title: "U" }, { createdAt: "2027-01-01T00:00:00Z" })
      assert.deepStrictEqual(
        rows.map(({ created_at, version }) => [created_at, version]),
        [
          [start, 2],
          [new Date("2027-01-01T00:00:00.000Z"), 2]
        ]
      )
    })
  )
})
