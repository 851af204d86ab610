/** Moves that end before their switch, and what a move waits for (contract §18). */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { setTimeout as sleep } from "node:timers/promises"
import { beforeAll, describe, it } from "vitest"
import { run } from "../cli/Cli.support.ts"
import { held } from "../contract/Messages.support.ts"
import { ok } from "../webhooks/delivery/Deliveries.support.ts"
import { eventually } from "../support/Waiting.ts"
import { openProject } from "./Mix.project.support.ts"
import { load } from "./Move.load.support.ts"
import { type Cell, killAt, move, startCell } from "./Move.support.ts"
import { createClient } from "./Requests.support.ts"
import { listen, openShop } from "./Shop.support.ts"

const size = 500

/** The target loses its subscription, as after a restore: only its slot is left. */
const loseSubscription = async ({ query }: Cell) => {
  const [{ name } = assert.fail()] = await query("SELECT subname AS name FROM pg_subscription")
  await query(`ALTER SUBSCRIPTION ${String(name)} DISABLE`)
  await query(`ALTER SUBSCRIPTION ${String(name)} SET (slot_name = NONE)`)
  await query(`DROP SUBSCRIPTION ${String(name)}`)
}

describe("the move of a project", { timeout: 400_000 }, () => {
  let source: Cell
  let target: Cell

  beforeAll(async () => {
    source = await startCell("01")
    target = await startCell("02")
  })

  it("leaves no trace at the target and stays as it was, if the move is aborted before the switch", async () => {
    const ledger = await load(await openProject(source.databaseUrl), [source, target], size)
    const { id, token } = ledger
    await killAt(source, target, id, "fence")
    const aborted = await move(source, target, id, "--abort")
    assert.deepStrictEqual([aborted.status, aborted.state], [0, "aborted"], aborted.stderr)
    await ledger.goesOn()
    await ledger.stop()
    await ledger.expect(source)
    assert.deepStrictEqual(await target.traces(id), { rows: [], made: [] })
    assert.deepStrictEqual((await source.traces(id)).made, [])
    assert.deepStrictEqual(
      await source.query(`SELECT move_state, move_peer FROM projects WHERE project_id = '${id}'`),
      [{ move_state: null, move_peer: null }]
    )
    assert.strictEqual((await createClient(source.url, token, "after-abort", "Works")).status, 201)
  })

  it("is stopped before the switch by a difference of one row", async () => {
    const { id } = await openProject(source.databaseUrl)
    await killAt(source, target, id, "catch up")
    await target.query(`UPDATE clients SET display_name = 'Other' WHERE project_id = '${id}' AND id = 'cli_Ada'`)
    const stopped = await move(source, target, id)
    assert.strictEqual(stopped.status, 1)
    assert.include(stopped.stderr, "The target differs from the source in clients: ")
    await loseSubscription(target)
    assert.strictEqual((await move(source, target, id, "--abort")).state, "aborted")
    assert.deepStrictEqual(await target.traces(id), { rows: [], made: [] })
    assert.deepStrictEqual((await source.traces(id)).made, [])
  })

  it("waits for the attempts in flight", async () => {
    const { answering, letGo } = held(ok)
    const receiver = await listen(answering)
    const { create, id } = await openShop(source.databaseUrl, source, receiver.url)
    await create("command-in-flight")
    await eventually(() => assert.lengthOf(receiver.hits, 1))
    const moved = move(source, target, id)
    const stateIs = (state: string) =>
      eventually(async () => {
        const [project] = await source.query(`SELECT move_state AS state FROM projects WHERE project_id = '${id}'`)
        assert.strictEqual(project?.["state"], state)
      })
    await stateIs("resting")
    // Time in which the move would go on if it did not wait.
    await sleep(1_000)
    await stateIs("resting")
    letGo()
    assert.deepStrictEqual((await moved).state, "switched")
    const deliveries = await target.query(`SELECT status FROM deliveries WHERE project_id = '${id}'`)
    assert.deepStrictEqual(deliveries, [{ status: "delivered" }])
    assert.lengthOf(receiver.hits, 1)
  })

  it("is not deleted at the source while it still arrives at the target, as after a restore", async () => {
    const { id } = await openProject(source.databaseUrl)
    await killAt(source, target, id, "catch up")
    await source.query(`UPDATE projects SET move_state = 'switched' WHERE project_id = '${id}'`)
    const refused = await move(source, target, id)
    assert.strictEqual(refused.status, 1)
    assert.include(refused.stderr, `The target does not serve project ${id}`)
    await source.query(`UPDATE projects SET move_state = 'switching' WHERE project_id = '${id}'`)
    assert.strictEqual((await move(source, target, id)).state, "switched")
  })

  it("is not deleted at the source while the target has no such project, unless an operator confirms it", async () => {
    const { id, token } = await openProject(source.databaseUrl)
    const moveAndDelete = async () => {
      const moved = await move(source, target, id)
      assert.deepStrictEqual([moved.status, moved.state], [0, "switched"], moved.stderr)
      const remove = run(["project", "delete", "--project", id, "--confirm", id], { env: target.env })
      assert.strictEqual((await Effect.runPromise(remove)).status, 0)
    }
    await moveAndDelete()
    const refused = await move(source, target, id)
    assert.strictEqual(refused.status, 1)
    assert.include(refused.stderr, `The target has no project ${id}`)
    // The source takes it back, as after a restore of the target.
    await source.query(`UPDATE projects SET move_state = 'fenced' WHERE project_id = '${id}'`)
    assert.strictEqual((await move(source, target, id, "--abort")).state, "aborted")
    await eventually(async () =>
      assert.strictEqual((await createClient(source.url, token, "taken-back", "Works")).status, 201)
    )
    await moveAndDelete()
    await source.query(`UPDATE projects SET deleted_at = now() WHERE project_id = '${id}'`)
    assert.strictEqual((await move(source, target, id)).state, "cleaned")
    assert.deepStrictEqual(await source.traces(id), { rows: [], made: [] })
  })

  it("is not handed over to a target that has lost its subscription, and can then be taken back", async () => {
    const { id } = await openProject(source.databaseUrl)
    await killAt(source, target, id, "catch up")
    await source.query(`UPDATE projects SET move_state = 'switching' WHERE project_id = '${id}'`)
    await loseSubscription(target)
    const refused = await move(source, target, id)
    assert.deepStrictEqual([refused.status, refused.state], [1, undefined])
    assert.include(refused.stderr, "The target has no subscription of the move")
    const late = await move(source, target, id, "--abort")
    assert.strictEqual(late.status, 1)
    assert.include(late.stderr, "The target takes the project over")
    await source.query(`UPDATE projects SET move_state = 'fenced' WHERE project_id = '${id}'`)
    assert.strictEqual((await move(source, target, id, "--abort")).state, "aborted")
    assert.deepStrictEqual(await target.traces(id), { rows: [], made: [] })
    assert.deepStrictEqual((await source.traces(id)).made, [])
  })

  it("is not handed over to a target that has lost the project, and can then be taken back", async () => {
    const { id, token } = await openProject(source.databaseUrl)
    await killAt(source, target, id, "catch up")
    // As if the mover had died right after it closed the source, and the target had been restored to a time before the move.
    await source.query(`UPDATE projects SET move_state = 'switching' WHERE project_id = '${id}'`)
    await target.query("SET session_replication_role = replica")
    await target.query(`DELETE FROM projects WHERE project_id = '${id}'`)
    await target.query("RESET session_replication_role")
    const refused = await move(source, target, id)
    assert.deepStrictEqual([refused.status, refused.state], [1, undefined])
    assert.include(refused.stderr, `The target has no project ${id}`)
    const stateIs = async (state: string | null) =>
      assert.deepStrictEqual(await source.query(`SELECT move_state FROM projects WHERE project_id = '${id}'`), [
        { move_state: state }
      ])
    await stateIs("switching")
    await source.query(
      `UPDATE projects SET move_state = 'fenced' WHERE project_id = '${id}' AND move_state = 'switching'`
    )
    const aborted = await move(source, target, id, "--abort")
    assert.deepStrictEqual([aborted.status, aborted.state], [0, "aborted"], aborted.stderr)
    await stateIs(null)
    await eventually(async () =>
      assert.strictEqual((await createClient(source.url, token, "taken-back", "Works")).status, 201)
    )
  })

  // The last test: it ends the session of the source that the others use.
  it("is handed over after the source has died in the switch, which disables the subscription", async () => {
    const ledger = await load(await openProject(source.databaseUrl), [source, target], 100)
    const { id } = ledger
    await ledger.goesOn()
    await ledger.stop()
    await killAt(source, target, id, "catch up")
    await source.query(`UPDATE projects SET move_state = 'switching' WHERE project_id = '${id}'`)
    await source.killDatabase()
    await eventually(async () =>
      assert.deepStrictEqual(await target.query("SELECT subenabled FROM pg_subscription"), [{ subenabled: false }])
    )
    const moved = await move(source, target, id)
    assert.deepStrictEqual([moved.status, moved.state], [0, "switched"], moved.stderr)
    assert.notInclude(moved.stderr, "wait: ")
    await ledger.expect(target, true)
  })
})
