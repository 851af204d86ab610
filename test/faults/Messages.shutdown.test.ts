/** Provider calls during a shutdown, and among several processes (contract §8, §13, §15). */
import { setTimeout as sleep } from "node:timers/promises"
import { assert } from "@effect/vitest"
import { describe, it } from "vitest"
import { ended, inGoodOrder, type Service } from "../support/Process.ts"
import { assertMatches } from "../support/Matches.ts"
import {
  creates,
  expectTrue,
  openScene,
  pending,
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
import { isDraining, send } from "./Requests.support.ts"
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
const delivered = { status: "sent", attempting: false, attempts: ["accepted"] }
const interrupted = { status: "unknown", attempting: false, attempts: ["unknown interrupted"] }

it("a caller that disconnects does not end its call, also when the process is shut down afterwards", async () => {
  const scene = await openScene(databaseUrl)
  const service = await start(databaseUrl)
  const { all, disconnect } = await underWay(scene, service)
  await disconnect()
  service.kill("SIGTERM")
  await isDraining(service)
  await sleep(500)
  assert.isFalse(service.hasExited())
  scene.provider.acceptAll()
  assert.deepStrictEqual(await ended(service), inGoodOrder)
  assert.deepStrictEqual(await statesOf(scene, all), [delivered, delivered])
  assert.lengthOf(scene.provider.calls, 2)
})

it("a caller that disconnects while its message is committed leaves no message without a call", async () => {
  const scene = await openScene(databaseUrl)
  const proxy = await openProxy(databaseUrl)
  const service = await startHere(proxy.url, longTimeout)
  for (const each of testMessages("early")) {
    await scene.warmUp(service)
    const { release, reached } = proxy.trap({ statement: creates, when: "answered", count: 1 })
    const { answer, disconnect } = scene.call(service, each)
    await reached
    disconnect()
    assert.strictEqual(await answer.then(resultOf, () => "cut"), "cut")
    for (const _ of [1, 2, 3]) await send(`${service.url}/healthz`)
    release()
    await eventually(async () => assert.deepStrictEqual(await scene.state(each), delivered))
  }
  assert.lengthOf(scene.provider.calls, 2)
})

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

describe("two processes that send messages", () => {
  it("send a message once that both are asked to send", async () => {
    const scene = await openScene(databaseUrl)
    const services = await Promise.all([start(databaseUrl), startHere(databaseUrl, longTimeout, "all")])
    const all = testMessages("both", 5)
    const { reached } = scene.provider.trap(all.length, ignore)
    const answers = all.flatMap((each) => [0, 1, 0, 1].map((n) => scene.post(services[n] ?? services[0], each)))
    await reached
    // Longer than a look-up of attempts in flight takes.
    await sleep(500)
    assert.lengthOf(scene.provider.calls, all.length)
    scene.provider.acceptAll()
    const resultOf = await Promise.all(answers)
    assert.deepStrictEqual(
      resultOf.map(({ status }) => status),
      resultOf.map(() => 200)
    )
    assert.lengthOf(
      resultOf.filter(({ headers }) => headers["idempotent-replayed"] === undefined),
      all.length
    )
    for (const { body } of resultOf) assertMatches(body, { deliveryStatus: "sent" })
    assert.lengthOf(scene.provider.calls, all.length)
    await expectTrue(scene, all)
  })

  it("wait for each other's call no longer than its deadline and its lease", async () => {
    const scene = await openScene(databaseUrl)
    const [first, second] = await Promise.all([
      start(databaseUrl, "api", { PROVIDER_TIMEOUT: "3s" }),
      startHere(databaseUrl, { PROVIDER_TIMEOUT: "3s" })
    ])
    const all = testMessages("waiting")
    const { reached } = scene.provider.trap(all.length, acceptSilently)
    const cut = all.map((each) => scene.ask(first, each))
    await reached
    first.kill("SIGKILL")
    await first.exited
    assert.deepStrictEqual(await Promise.all(cut), ["cut", "cut"])
    for (const answer of await Promise.all(all.map((each) => scene.post(second, each)))) {
      assert.strictEqual(resultOf(answer), pending)
      assertMatches(answer.body, { createdAt: /^/ })
    }
    const waited = await scene.query(`
      SELECT bool_and(now() > created_at + interval '3 s') AS waited FROM messages WHERE project_id = '${scene.id}'`)
    assert.deepStrictEqual(waited, [{ waited: true }])
    // Without a worker its state does not change, but after the end of its lease it is answered as unknown.
    await eventually(async () =>
      assert.deepStrictEqual(await Promise.all(all.map((each) => scene.ask(second, each))), [unknown, unknown])
    )
    assertMatches(await statesOf(scene, all), [{ status: "pending" }, { status: "pending" }])
  })
})
