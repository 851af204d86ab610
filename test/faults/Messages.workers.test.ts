/**
 * Provider calls during a shutdown, and which process claims due messages: after a crash, during a claim, and among several
 * processes (contract §8, §15). `contract/Messages.concurrency` tests callers that disconnect, and sends on two servers.
 */
import { setTimeout as sleep } from "node:timers/promises"
import { assert } from "@effect/vitest"
import { describe, it } from "vitest"
import { defer } from "../support/Finalizers.ts"
import { ended, inGoodOrder, type Service } from "../support/Process.ts"
import { assertMatches } from "../support/Matches.ts"
import {
  expectTrue,
  openScene,
  resultOf,
  retrying,
  type Scene,
  sent,
  start,
  type TestMessage,
  testMessage,
  testMessages,
  unknown
} from "./Messages.support.ts"
import { database, startHere } from "./Projects.support.ts"
import { accept, acceptSilently, busy, ignore } from "./Providers.support.ts"
import { send } from "./Requests.support.ts"
import { openProxy } from "../support/WireProxy.ts"
import { eventually } from "../support/Waiting.ts"

const databaseUrl = await database()
const longTimeout = { PROVIDER_TIMEOUT: "60s" }

/** Sends one message of each kind, and waits until the provider has received them. */
const underWay = async (scene: Scene, service: Pick<Service, "url">, what = ignore) => {
  const all = testMessages("call")
  const { reached } = scene.provider.trap(all.length, what)
  const calls = all.map((each) => scene.call(service, each))
  await reached
  return {
    all,
    answers: Promise.all(calls.map(({ answer }) => answer.then(resultOf, () => "cut"))),
    disconnect: async () => {
      for (const { disconnect } of calls) disconnect()
      // Later requests are handled after the disconnection.
      for (const _ of [1, 2, 3]) await send(`${service.url}/healthz`)
      await sleep(300)
    }
  }
}

const statesOf = (scene: Scene, all: ReadonlyArray<TestMessage>) => Promise.all(all.map(scene.state))
const interrupted = { status: "unknown", attempting: false, attempts: ["unknown interrupted"] }

describe("a process that shuts down during sends", () => {
  it.each([
    ["SIGTERM, and its grace is over", "SIGTERM", "1s"],
    ["SIGINT", "SIGINT", "60s"]
  ] as const)("on %s records unknown outcomes, and other processes continue", async (_, signal, grace) => {
    const scene = await openScene(databaseUrl)
    const service = await start(databaseUrl, "all", { SHUTDOWN_GRACE: grace })
    const { all, answers } = await underWay(scene, service, acceptSilently)
    service.kill(signal)
    assert.deepStrictEqual(await ended(service), inGoodOrder)
    for (const answer of await answers) assert.include([unknown, "cut"], answer)
    assert.deepStrictEqual(await statesOf(scene, all), [interrupted, interrupted])

    scene.provider.answerWith(accept)
    const next = await startHere(databaseUrl, longTimeout, "all")
    const [http = testMessage("none", "http"), telegram = testMessage("none", "telegram")] = all
    await eventually(async () => assert.strictEqual(await scene.ask(next, http), sent))
    assert.strictEqual(await scene.ask(next, telegram), unknown)
    assertMatches(scene.entry(http), { calls: 2, taken: [/^/] })
    assertMatches(scene.entry(telegram), { calls: 1, taken: [/^/] })
    await expectTrue(scene, all)
  })

  it("on SIGTERM during a retry records its outcome and claims nothing more", async () => {
    const scene = await openScene(databaseUrl)
    const api = await startHere(databaseUrl, longTimeout)
    const [first, second] = [testMessages("first"), testMessages("second")]
    scene.provider.answerWith(busy)
    for (const each of first) assert.strictEqual(await scene.ask(api, each), retrying)
    await scene.endPauses()
    const { reached } = scene.provider.trap(first.length, ignore)
    const worker = await start(databaseUrl, "worker")
    await reached
    worker.kill("SIGTERM")
    await eventually(async () => assert.strictEqual((await send(`${worker.url}/readyz`)).status, 503))
    scene.provider.answerWith(busy)
    for (const each of second) assert.strictEqual(await scene.ask(api, each), retrying)
    await scene.endPauses()
    await sleep(1_000)
    scene.provider.acceptAll()
    assert.deepStrictEqual(await ended(worker), inGoodOrder)
    const again = { status: "sent", attempting: false, attempts: ["retrying http_503", "accepted"] }
    assert.deepStrictEqual(await statesOf(scene, first), [again, again])
    for (const each of second) assert.strictEqual(scene.entry(each).calls, 1)
  })

  it("ends while the database hangs and leaves the message to its lease", async () => {
    const scene = await openScene(databaseUrl)
    const proxy = await openProxy(databaseUrl)
    const service = await start(proxy.url)
    const { all, answers } = await underWay(scene, service, acceptSilently)
    proxy.hang()
    service.kill("SIGINT")
    assert.deepStrictEqual(await ended(service), inGoodOrder)
    for (const answer of await answers) assert.include([unknown, "cut"], answer)
    await scene.endLeases()
    scene.provider.answerWith(accept)
    await startHere(databaseUrl, longTimeout, "worker")
    await eventually(async () =>
      assert.deepStrictEqual(await statesOf(scene, all), [
        { status: "sent", attempting: false, attempts: ["unknown lease_lost", "accepted"] },
        { status: "unknown", attempting: false, attempts: ["unknown lease_lost"] }
      ])
    )
    await expectTrue(scene, all)
  })
})

/** Repeats no attempt by itself. */
const api = await startHere(databaseUrl, longTimeout)

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
  await startHere(databaseUrl, longTimeout, "worker")
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
