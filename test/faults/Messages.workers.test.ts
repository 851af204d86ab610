/** Which process claims due messages: after a crash, during a claim, and among several processes (contract §8, §15). */
import { assert } from "@effect/vitest"
import { describe, it } from "vitest"
import { defer } from "../support/Finalizers.ts"
import { ended, inGoodOrder } from "../support/Process.ts"
import { assertMatches } from "../support/Matches.ts"
import { openScene, retrying, type Scene, sent, start, type TestMessage, testMessages } from "./Messages.support.ts"
import { database, startHere } from "./Projects.support.ts"
import { accept, acceptSilently, busy } from "./Providers.support.ts"
import { eventually } from "../support/Waiting.ts"

const databaseUrl = await database()
/** Repeats no attempt by itself. */
const api = await startHere(databaseUrl, { PROVIDER_TIMEOUT: "60s" })

/** Sends messages that the provider postpones, and makes them due again. */
const postponed = async (scene: Scene, name: string, count = 1): Promise<ReadonlyArray<TestMessage>> => {
  const all = testMessages(name, count)
  scene.provider.answerWith(busy)
  for (const each of all) assert.strictEqual(await scene.ask(api, each), retrying)
  await scene.endPauses()
  return all
}

/** Slows down each claim of a message, so that concurrent claims certainly overlap. */
const slowClaims = async ({ query }: Scene, seconds: number) => {
  await query(`
    CREATE OR REPLACE FUNCTION take_time() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_sleep(${seconds}); RETURN NEW; END $$`)
  await query(`
    CREATE TRIGGER slow_claim BEFORE UPDATE ON messages
    FOR EACH ROW WHEN (NEW.attempting AND NOT OLD.attempting) EXECUTE FUNCTION take_time()`)
  defer(() => query("DROP TRIGGER slow_claim ON messages"))
}

const statesOf = (scene: Scene, all: ReadonlyArray<TestMessage>) => Promise.all(all.map(scene.state))

describe("a message worker that shuts down", () => {
  it.each(["SIGTERM", "SIGINT"] as const)("on %s during a claim leaves nothing leased", async (signal) => {
    const scene = await openScene(databaseUrl)
    const all = await postponed(scene, `claim-${signal}`)
    scene.provider.answerWith(accept)
    await slowClaims(scene, 1.5)
    const claiming = `pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'`
    const count = async () => Number((await scene.query(`SELECT count(*) FROM ${claiming}`))[0]?.["count"])
    const worker = await start(databaseUrl, "worker")
    await eventually(async () => assert.strictEqual(await count(), 1))
    worker.kill(signal)
    assert.deepStrictEqual(await ended(worker), inGoodOrder)
    await eventually(async () => assert.strictEqual(await count(), 0))
    // Attempted, or not claimed: a lease without an attempt would make the outcome of an unsent message unknown.
    for (const state of await statesOf(scene, all)) {
      assertMatches(state, { attempting: false })
      assert.include(["sent", "retrying"], state === "none" ? state : state.status)
    }
  })
})

it("several message workers make each retry once", async () => {
  const scene = await openScene(databaseUrl)
  const all = await postponed(scene, "several", 20)
  scene.provider.answerWith((call) => void setTimeout(call.accept, 100))
  await scene.query(`UPDATE messages SET available_at = now() + interval '1 hour' WHERE project_id = '${scene.id}'`)
  const workers = await Promise.all([1, 2, 3].map(() => start(databaseUrl, "worker")))
  await slowClaims(scene, 0.02)
  await scene.endPauses()
  await eventually(async () => {
    for (const state of await statesOf(scene, all)) assertMatches(state, { status: "sent" })
  })
  assert.deepStrictEqual(
    all.map((each) => scene.entry(each).calls),
    all.map(() => 2)
  )
  for (const worker of workers) assert.deepStrictEqual(await worker.stop(), inGoodOrder)
  for (const each of all) assert.strictEqual(await scene.ask(api, each), sent)
  assert.lengthOf(scene.provider.calls, 2 * all.length)
})

/** Its lease lasts 65 s, longer than the test waits. */
it("a message worker that is killed loses no message, which another takes over without a second send", async () => {
  const scene = await openScene(databaseUrl)
  const { provider } = scene
  const all = testMessages("held")
  provider.answerWith(busy)
  assert.deepStrictEqual(await Promise.all(all.map((each) => scene.ask(api, each))), [retrying, retrying])
  const trap = provider.trap(all.length, acceptSilently)
  await scene.endPauses()
  const first = await start(databaseUrl, "worker")
  await trap.reached
  await startHere(databaseUrl, { PROVIDER_TIMEOUT: "60s" }, "worker")
  provider.answerWith(accept)
  first.kill("SIGKILL")
  await eventually(async () => {
    const [http, telegram] = await Promise.all(all.map(scene.state))
    const before = ["retrying http_503", "unknown lease_lost"]
    assert.deepStrictEqual(http, { status: "sent", attempting: false, attempts: [...before, "accepted"] })
    assert.deepStrictEqual(telegram, { status: "unknown", attempting: false, attempts: before })
  })
  assertMatches(
    all.map((each) => scene.entry(each)),
    [
      { calls: 3, taken: [/^/] },
      { calls: 2, taken: [/^/] }
    ]
  )
})
