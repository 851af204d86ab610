/** Projects that move between two cells while they are in use (contract §18). */
import { assert } from "@effect/vitest"
import { beforeAll, describe, it } from "vitest"
import { startRouter } from "../deploy/Router.support.ts"
import { requires } from "../support/Programs.ts"
import { openProject } from "./Mix.project.support.ts"
import { campaignsGoOn, load } from "./Move.load.support.ts"
import { type Cell, killAt, mapOf, move, moveWith, startCell, startProcesses } from "./Move.support.ts"
import { session } from "./Projects.support.ts"
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
    const ledger = await load(await openProject(source.databaseUrl), [source, target], size)
    const { id, token } = ledger
    const first = await send(`${source.url}${clients}?limit=2`, { headers: bearer(token) })
    await ledger.worksAt(source, "before-the-move")
    await ledger.goesOn()
    await campaignsGoOn(source, id)
    const moved = await move(source, target, id)
    assert.deepStrictEqual([moved.status, moved.state], [0, "switched"], moved.stderr)
    for (const step of ["copy", "rest", "fence", "verify", "switch"]) assert.include(moved.stderr, `${step}: `)
    const refused = await createClient(source.url, token, "command-late", "Late")
    expectProblem(refused, 503, "service_unavailable")
    assert.strictEqual(refused.headers["retry-after"], "1")
    expectProblem(await send(`${source.url}${clients}`, { headers: bearer(token) }), 503, "service_unavailable")
    await ledger.goesOn()
    await campaignsGoOn(target, id)
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
    await campaignsGoOn(source, id)
    await ledger.stop()
    await ledger.expect(source)
    assert.isBelow(ledger.longest(), 10_000)

    const again = await createClient(source.url, token, "before-the-move", "Works")
    assert.deepStrictEqual([again.status, again.headers["idempotent-replayed"]], [201, "true"])
    assert.strictEqual(await follow(source), next)
    assert.deepStrictEqual((await move(target, source, id)).state, "cleaned")
  })

  it("works on at the source after each death of the mover before the switch, and at the target after the next run", async () => {
    const ledger = await load(await openProject(source.databaseUrl), [source, target], size)
    const { id } = ledger
    for (const step of ["copy", "catch up", "rest", "fence", "verify"]) {
      await killAt(source, target, id, step)
      await ledger.worksAt(source, `after-${step.replace(" ", "-")}`)
    }
    await killAt(source, target, id, "switch")
    const moved = await move(source, target, id)
    assert.deepStrictEqual([moved.status, moved.state], [0, "switched"], moved.stderr)
    await ledger.goesOn()
    await ledger.stop()
    await ledger.expect(target)
    await killAt(source, target, id, "clean")
    assert.deepStrictEqual((await source.traces(id)).made, [])
    assert.deepStrictEqual((await target.traces(id)).made, [])
  })

  it("moves beside another one", async () => {
    const ledgers = await Promise.all(
      [1, 2].map(async () => load(await openProject(source.databaseUrl), [source, target], 100))
    )
    const moved = await Promise.all(ledgers.map(({ id }) => move(source, target, id)))
    assert.deepStrictEqual(
      moved.map(({ state, stderr }) => [state, stderr.includes("Another run")]),
      ledgers.map(() => ["switched", false])
    )
    for (const ledger of ledgers) await ledger.goesOn()
    for (const ledger of ledgers) await ledger.stop()
    for (const ledger of ledgers) {
      await ledger.expect(target)
      assert.deepStrictEqual((await target.traces(ledger.id)).made, [])
    }
  })

  it("survives the deaths of the workers, the API servers and the databases of both cells during its move", async () => {
    const [from, to] = [await startProcesses("01"), await startProcesses("02")]
    const ledger = await load(await openProject(from.databaseUrl), [from, to], size)
    const { id } = ledger
    await ledger.goesOn()
    let release = () => Promise.resolve<unknown>(undefined)
    const hold = async () => {
      release = await from.holdMutations(id)
    }
    // The copy waits for this lock until the database of the target is killed.
    const lock = await session(to.databaseUrl)
    await lock("BEGIN")
    await lock("LOCK TABLE clients")
    const moved = await moveWith(from, to, id, [
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
    await campaignsGoOn(to, id)
    await ledger.stop()
    await ledger.expect(to, true)
    assert.deepStrictEqual((await move(from, to, id)).state, "cleaned")
    assert.deepStrictEqual(await from.traces(id), { rows: [], made: [] })
    assert.deepStrictEqual((await to.traces(id)).made, [])
  })

  describe("behind the router of cells", patience, () => {
    requires("haproxy")

    it("goes on for its callers once the router leads to the other cell", async () => {
      const map = async () => (await mapOf(source)) + (await mapOf(target))
      const project = await openProject(source.databaseUrl)
      const { id, token } = project
      const router = await startRouter(portOf(source), portOf(target), await map())
      const ledger = await load(project, [router], 100)
      await ledger.goesOn()
      const moved = await move(source, target, id)
      assert.deepStrictEqual([moved.status, moved.state], [0, "switched"], moved.stderr)
      expectProblem(await createClient(router.url, token, "command-late", "Late"), 503, "service_unavailable")
      await router.lead(await map())
      await ledger.goesOn()
      assert.strictEqual((await move(source, target, id)).state, "cleaned")
      await ledger.goesOn()
      await ledger.stop()
      await ledger.expect(target)
    })
  })
})
