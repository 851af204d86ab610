/** Projects that move between two cells while they are in use (contract §18). */
import { assert } from "@effect/vitest"
import { beforeAll, describe, it } from "vitest"
import { eventually } from "../support/Waiting.ts"
import { type Cell, callerOf, expectLedger, killAt, load, move, openProject, startCell } from "./Move.support.ts"
import { bearer, clients, createClient, expectProblem, send } from "./Requests.support.ts"

/** Records of a project before its move. */
const size = Number(process.env["RECORDS"] ?? 5_000)

/** On a busy machine each start of a mover takes seconds. */
const patience = { timeout: 400_000 }

describe("a project that moves to another cell", patience, () => {
  let source: Cell
  let target: Cell

  beforeAll(async () => {
    source = await startCell("01")
    target = await startCell("02")
  })

  it("loses and repeats nothing, goes on with its cursors and keys, and moves back", async () => {
    const moving = await openProject(source, "whole", size)
    const { id, token } = moving
    const first = await send(`${source.url}${clients}?limit=2`, { headers: bearer(token) })
    const ledger = await load([source, target], moving)
    await eventually(() => assert.isAbove(ledger.deals.size, 20))
    const moved = await move(source, target, id)
    assert.deepStrictEqual([moved.status, moved.state], [0, "switched"], moved.stderr)
    for (const step of ["copy", "rest", "fence", "verify", "switch"]) assert.include(moved.stderr, `${step}: `)
    const refused = await createClient(source.url, token, "command-late", "Late")
    expectProblem(refused, 503, "service_unavailable")
    assert.strictEqual(refused.headers["retry-after"], "1")
    expectProblem(await send(`${source.url}${clients}`, { headers: bearer(token) }), 503, "service_unavailable")
    const size1 = ledger.deals.size
    await eventually(() => assert.isAbove(ledger.deals.size, size1 + 20))

    const cleaned = await move(source, target, id)
    assert.deepStrictEqual([cleaned.status, cleaned.state], [0, "cleaned"], cleaned.stderr)
    assert.deepStrictEqual(await source.traces(id), { rows: [], made: [] })
    assert.deepStrictEqual((await target.traces(id)).made, [])

    const back = await move(target, source, id)
    assert.deepStrictEqual([back.status, back.state], [0, "switched"], back.stderr)
    const size2 = ledger.deals.size
    await eventually(() => assert.isAbove(ledger.deals.size, size2 + 20))
    await ledger.stop()
    await expectLedger(source, moving, ledger)
    assert.isBelow(ledger.longest(), 10_000)

    const { call } = callerOf([source], token)
    const again = await call("POST", "/crm/deals", "a-0", { title: "a-0" })
    assert.deepStrictEqual([again.status, again.headers["idempotent-replayed"]], [201, "true"])
    const link = /<([^>]+)>/.exec(String(first.headers["link"]))?.[1] ?? ""
    const next = await send(new URL(link, source.url).href, { headers: bearer(token) })
    assert.strictEqual(next.status, 200)
    assert.match(next.text, /"c\d+"/)
    assert.deepStrictEqual((await move(target, source, id)).state, "cleaned")
  })

  it("works on at the source after each death of the mover before the switch, and at the target after the next run", async () => {
    const moving = await openProject(source, "killed", size)
    const { id, token } = moving
    const ledger = await load([source, target], moving)
    for (const step of ["copy", "catch up", "rest", "fence", "verify"]) {
      await killAt(source, target, id, step)
      await eventually(async () => {
        assert.strictEqual(
          (await createClient(source.url, token, `after-${step.replace(" ", "-")}`, "Works")).status,
          201
        )
      })
    }
    await killAt(source, target, id, "switch")
    const moved = await move(source, target, id)
    assert.deepStrictEqual([moved.status, moved.state], [0, "switched"], moved.stderr)
    const size1 = ledger.deals.size
    await eventually(() => assert.isAbove(ledger.deals.size, size1 + 20))
    await ledger.stop()
    await expectLedger(target, moving, ledger)
    await killAt(source, target, id, "clean")
    assert.deepStrictEqual((await source.traces(id)).made, [])
    assert.deepStrictEqual((await target.traces(id)).made, [])
  })

  it("leaves no trace at the target and stays as it was, if the move is aborted before the switch", async () => {
    const moving = await openProject(source, "aborted", size)
    const { id, token } = moving
    const ledger = await load([source, target], moving)
    await killAt(source, target, id, "fence")
    const aborted = await move(source, target, id, "--abort")
    assert.deepStrictEqual([aborted.status, aborted.state], [0, "aborted"], aborted.stderr)
    const size1 = ledger.deals.size
    await eventually(() => assert.isAbove(ledger.deals.size, size1 + 20))
    await ledger.stop()
    await expectLedger(source, moving, ledger)
    assert.deepStrictEqual(await target.traces(id), { rows: [], made: [] })
    assert.deepStrictEqual((await source.traces(id)).made, [])
    assert.deepStrictEqual(
      await source.query(`SELECT move_state, move_peer FROM projects WHERE project_id = '${id}'`),
      [{ move_state: null, move_peer: null }]
    )
    assert.strictEqual((await createClient(source.url, token, "after-abort", "Works")).status, 201)
  })

  it("is stopped before the switch by a difference of one row", async () => {
    const { id } = await openProject(source, "differs", 100)
    await killAt(source, target, id, "catch up")
    await target.query(`UPDATE clients SET display_name = 'Other' WHERE project_id = '${id}' AND id = 'c50'`)
    const stopped = await move(source, target, id)
    assert.strictEqual(stopped.status, 1)
    assert.include(stopped.stderr, "clients differs: 100 rows at the source, 100 at the target")
    assert.strictEqual((await move(source, target, id, "--abort")).state, "aborted")
    assert.deepStrictEqual(await target.traces(id), { rows: [], made: [] })
  })

  it("moves beside another one", async () => {
    const ids = ["one", "two"]
    for (const id of ids) await openProject(source, id, 100)
    const moved = await Promise.all(ids.map((id) => move(source, target, id)))
    assert.deepStrictEqual(
      moved.map(({ state, stderr }) => [state, stderr.includes("Another run")]),
      ids.map(() => ["switched", false])
    )
    assert.deepStrictEqual((await target.traces("one")).made, [])
  })
})
