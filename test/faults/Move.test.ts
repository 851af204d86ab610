/** Projects that move between two cells while they are in use (contract §18). */
import { assert } from "@effect/vitest"
import { beforeAll, describe, it } from "vitest"
import { startRouter } from "../deploy/Router.support.ts"
import { requires } from "../support/Programs.ts"
import { eventually } from "../support/Waiting.ts"
import { callerOf, campaignGoesOn, expectLedger, load } from "./Move.load.support.ts"
import { type Cell, killAt, mapOf, move, moveWith, openProject, startCell, startProcesses } from "./Move.support.ts"
import { bearer, clients, createClient, expectProblem, send } from "./Requests.support.ts"

/** Records of a project before its move. */
const size = Number(process.env["RECORDS"] ?? 5_000)

const portOf = ({ url }: Cell) => Number(new URL(url).port)

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
    await ledger.goesOn()
    await campaignGoesOn(source, moving)
    const moved = await move(source, target, id)
    assert.deepStrictEqual([moved.status, moved.state], [0, "switched"], moved.stderr)
    for (const step of ["copy", "rest", "fence", "verify", "switch"]) assert.include(moved.stderr, `${step}: `)
    const refused = await createClient(source.url, token, "command-late", "Late")
    expectProblem(refused, 503, "service_unavailable")
    assert.strictEqual(refused.headers["retry-after"], "1")
    expectProblem(await send(`${source.url}${clients}`, { headers: bearer(token) }), 503, "service_unavailable")
    await ledger.goesOn()
    await campaignGoesOn(target, moving)
    const link = /<([^>]+)>/.exec(String(first.headers["link"]))?.[1] ?? ""
    const follow = async ({ url }: Cell) => {
      const { pathname, search } = new URL(link)
      const next = await send(`${url}${pathname}${search}`, { headers: bearer(token) })
      assert.strictEqual(next.status, 200)
      return next.text
    }
    const next = await follow(target)
    assert.match(next, /"c\d+"/)

    const cleaned = await move(source, target, id)
    assert.deepStrictEqual([cleaned.status, cleaned.state], [0, "cleaned"], cleaned.stderr)
    assert.deepStrictEqual(await source.traces(id), { rows: [], made: [] })
    assert.deepStrictEqual((await target.traces(id)).made, [])

    const back = await move(target, source, id)
    assert.deepStrictEqual([back.status, back.state], [0, "switched"], back.stderr)
    await ledger.goesOn()
    await campaignGoesOn(source, moving)
    await ledger.stop()
    await expectLedger(source, moving, ledger)
    assert.isBelow(ledger.longest(), 10_000)

    const { call } = callerOf([source], token)
    const again = await call("POST", "/crm/deals", "a-0", { title: "a-0" })
    assert.deepStrictEqual([again.status, again.headers["idempotent-replayed"]], [201, "true"])
    assert.strictEqual(await follow(source), next)
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
    await ledger.goesOn()
    await ledger.stop()
    await expectLedger(target, moving, ledger)
    await killAt(source, target, id, "clean")
    assert.deepStrictEqual((await source.traces(id)).made, [])
    assert.deepStrictEqual((await target.traces(id)).made, [])
  })

  it("moves beside another one", async () => {
    const both = [await openProject(source, "one", 100), await openProject(source, "two", 100)]
    const ledgers = await Promise.all(both.map((moving) => load([source, target], moving)))
    const moved = await Promise.all(both.map(({ id }) => move(source, target, id)))
    assert.deepStrictEqual(
      moved.map(({ state, stderr }) => [state, stderr.includes("Another run")]),
      both.map(() => ["switched", false])
    )
    for (const ledger of ledgers) await ledger.goesOn()
    for (const ledger of ledgers) await ledger.stop()
    for (const [n, ledger] of ledgers.entries()) {
      const moving = both[n] ?? assert.fail()
      await expectLedger(target, moving, ledger)
      assert.deepStrictEqual((await target.traces(moving.id)).made, [])
    }
  })

  it("survives the deaths of the workers, the API servers and the databases of both cells during its move", async () => {
    const [from, to] = [await startProcesses("01"), await startProcesses("02")]
    const moving = await openProject(from, "survivor", size)
    const ledger = await load([from, to], moving)
    await ledger.goesOn()
    let release = () => Promise.resolve<unknown>(undefined)
    const hold = async () => {
      release = await from.holdMutations(moving.id)
    }
    const moved = await moveWith(from, to, moving.id, [
      ["copy", to.killDatabase],
      ["copy", () => to.kill("api")],
      ["catch up", from.killDatabase],
      ["rest", hold],
      ["fence", from.killDatabase],
      ["rest", () => from.kill("worker").then(hold)],
      [
        "fence",
        async () => {
          await to.killDatabase()
          await from.kill("api")
          await release()
        }
      ],
      ["verify", to.killDatabase],
      ["switch", () => to.kill("worker")]
    ])
    assert.deepStrictEqual([moved.status, moved.state], [0, "switched"], moved.stderr)
    await ledger.goesOn()
    await campaignGoesOn(to, moving)
    await ledger.stop()
    await expectLedger(to, moving, ledger, true)
    assert.deepStrictEqual((await move(from, to, moving.id)).state, "cleaned")
    assert.deepStrictEqual(await from.traces(moving.id), { rows: [], made: [] })
    assert.deepStrictEqual((await to.traces(moving.id)).made, [])
  })

  describe("behind the router of cells", patience, () => {
    requires("haproxy")

    it("goes on for its callers once the router leads to the other cell", async () => {
      const map = async () => (await mapOf(source)) + (await mapOf(target))
      const moving = await openProject(source, "routed", 100)
      const router = await startRouter(portOf(source), portOf(target), await map())
      const ledger = await load([router], moving)
      await ledger.goesOn()
      const moved = await move(source, target, moving.id)
      assert.deepStrictEqual([moved.status, moved.state], [0, "switched"], moved.stderr)
      expectProblem(await createClient(router.url, moving.token, "command-late", "Late"), 503, "service_unavailable")
      await router.lead(await map())
      await ledger.goesOn()
      assert.strictEqual((await move(source, target, moving.id)).state, "cleaned")
      await ledger.goesOn()
      await ledger.stop()
      await expectLedger(target, moving, ledger)
    })
  })
})
