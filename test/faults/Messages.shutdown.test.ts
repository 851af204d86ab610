/** How calls of providers end with the process that makes them, and what several processes do (contract §8, §13, §15). */
import { setTimeout as sleep } from "node:timers/promises"
import { assert } from "@effect/vitest"
import { beforeAll, describe, it } from "vitest"
import { ended, inGoodOrder, type Service } from "../support/Process.ts"
import { assertMatches } from "../support/Matches.ts"
import {
  creates,
  type Desk,
  expectTrue,
  type Mail,
  mail,
  mails,
  openDesk,
  pending,
  retrying,
  sent,
  start,
  told,
  unknown
} from "./Messages.support.ts"
import { database } from "./Projects.support.ts"
import { accept, busy, ignore, swallow } from "./Providers.support.ts"
import { send } from "./Requests.support.ts"
import { openProxy } from "../support/WireProxy.ts"
import { eventually } from "../support/Waiting.ts"

let databaseUrl: string

beforeAll(async () => {
  databaseUrl = await database()
})

/** A path that needs nothing tells when new requests are refused. */
const isDraining = (service: Service) =>
  eventually(async () => assert.strictEqual((await send(`${service.url}/nothing-here`)).status, 503))

/** Sends of each kind, of which the provider has heard, and done as it was told. */
const underWay = async (desk: Desk, service: Service, what = ignore) => {
  const all = mails("call")
  const { sprung } = desk.provider.trap(all.length, what)
  const calls = all.map((each) => desk.call(service, each))
  await sprung
  return {
    all,
    answers: Promise.all(calls.map(({ answer }) => answer.then(told, () => "cut"))),
    hangUp: async () => {
      for (const { hangUp } of calls) hangUp()
      // What is asked later is heard later.
      for (const _ of [1, 2, 3]) await send(`${service.url}/healthz`)
      await sleep(300)
    }
  }
}

const statesOf = (desk: Desk, all: ReadonlyArray<Mail>) => Promise.all(all.map(desk.state))
const delivered = { status: "sent", attempting: false, attempts: ["accepted"] }
const interrupted = { status: "unknown", attempting: false, attempts: ["unknown interrupted"] }

describe("a caller of a send that disconnects", () => {
  it("does not end the call, whose outcome is recorded", async () => {
    const desk = await openDesk(databaseUrl)
    const service = await start(databaseUrl)
    const { all, hangUp } = await underWay(desk, service)
    await hangUp()
    desk.provider.acceptAll()
    await eventually(async () => assert.deepStrictEqual(await statesOf(desk, all), [delivered, delivered]))
    assert.deepStrictEqual(await Promise.all(all.map((each) => desk.ask(service, each))), [sent, sent])
    await expectTrue(desk, all)
  })

  it("does not end the call when the process is shut down afterwards", async () => {
    const desk = await openDesk(databaseUrl)
    const service = await start(databaseUrl)
    const { all, hangUp } = await underWay(desk, service)
    await hangUp()
    service.kill("SIGTERM")
    await isDraining(service)
    await sleep(500)
    assert.isFalse(service.hasExited())
    desk.provider.acceptAll()
    assert.deepStrictEqual(await ended(service), inGoodOrder)
    assert.deepStrictEqual(await statesOf(desk, all), [delivered, delivered])
    assert.lengthOf(desk.provider.calls, 2)
  })
})

describe("a caller that disconnects while its message is committed", () => {
  it("leaves no message without a call", async () => {
    const desk = await openDesk(databaseUrl)
    const proxy = await openProxy(databaseUrl)
    const service = await start(proxy.url, "api")
    for (const each of mails("early")) {
      await desk.warmUp(service)
      const { release, sprung } = proxy.trap({ statement: creates, when: "answered", count: 1 })
      const { answer, hangUp } = desk.call(service, each)
      await sprung
      hangUp()
      assert.strictEqual(await answer.then(told, () => "cut"), "cut")
      for (const _ of [1, 2, 3]) await send(`${service.url}/healthz`)
      release()
      await eventually(async () => assert.deepStrictEqual(await desk.state(each), delivered))
    }
    assert.lengthOf(desk.provider.calls, 2)
  })
})

describe("a process that shuts down during sends", () => {
  it("on SIGTERM finishes its calls, answers and records them", async () => {
    const desk = await openDesk(databaseUrl)
    const service = await start(databaseUrl)
    const { all, answers } = await underWay(desk, service)
    service.kill("SIGTERM")
    await isDraining(service)
    desk.provider.acceptAll()
    assert.deepStrictEqual(await answers, [sent, sent])
    assert.deepStrictEqual(await ended(service), inGoodOrder)
    assert.deepStrictEqual(await statesOf(desk, all), [delivered, delivered])
    assert.lengthOf(desk.provider.calls, 2)
  })

  it.each([
    ["SIGTERM, and its grace is over", "SIGTERM", "1s"],
    ["SIGINT", "SIGINT", "60s"]
  ] as const)("on %s records unknown outcomes, and other processes continue", async (_, signal, grace) => {
    const desk = await openDesk(databaseUrl)
    const service = await start(databaseUrl, "all", { SHUTDOWN_GRACE: grace })
    const { all, answers } = await underWay(desk, service, swallow)
    service.kill(signal)
    assert.deepStrictEqual(await ended(service), inGoodOrder)
    for (const answer of await answers) assert.include([unknown, "cut"], answer)
    assert.deepStrictEqual(await statesOf(desk, all), [interrupted, interrupted])

    desk.provider.answerWith(accept)
    const next = await start(databaseUrl)
    const [http = mail("none", "http"), telegram = mail("none", "telegram")] = all
    await eventually(async () => assert.strictEqual(await desk.ask(next, http), sent))
    assert.strictEqual(await desk.ask(next, telegram), unknown)
    assertMatches(desk.entry(http), { calls: 2, taken: [/^/] })
    assertMatches(desk.entry(telegram), { calls: 1, taken: [/^/] })
    await expectTrue(desk, all)
  })

  it("on SIGTERM during a retry records its outcome and claims nothing more", async () => {
    const desk = await openDesk(databaseUrl)
    const api = await start(databaseUrl, "api")
    const [first, second] = [mails("first"), mails("second")]
    desk.provider.answerWith(busy)
    for (const each of first) assert.strictEqual(await desk.ask(api, each), retrying)
    await desk.endPauses()
    const { sprung } = desk.provider.trap(first.length, ignore)
    const worker = await start(databaseUrl, "worker")
    await sprung
    worker.kill("SIGTERM")
    await eventually(async () => assert.strictEqual((await send(`${worker.url}/readyz`)).status, 503))
    desk.provider.answerWith(busy)
    for (const each of second) assert.strictEqual(await desk.ask(api, each), retrying)
    await desk.endPauses()
    await sleep(1_000)
    desk.provider.acceptAll()
    assert.deepStrictEqual(await ended(worker), inGoodOrder)
    const again = { status: "sent", attempting: false, attempts: ["retrying http_503", "accepted"] }
    assert.deepStrictEqual(await statesOf(desk, first), [again, again])
    for (const each of second) assert.strictEqual(desk.entry(each).calls, 1)
  })

  it("ends while the database hangs and leaves the message to its lease", async () => {
    const desk = await openDesk(databaseUrl)
    const proxy = await openProxy(databaseUrl)
    const service = await start(proxy.url)
    const { all, answers } = await underWay(desk, service, swallow)
    proxy.hang()
    service.kill("SIGINT")
    assert.deepStrictEqual(await ended(service), inGoodOrder)
    for (const answer of await answers) assert.include([unknown, "cut"], answer)
    await desk.endLeases()
    desk.provider.answerWith(accept)
    await start(databaseUrl)
    await eventually(async () =>
      assert.deepStrictEqual(await statesOf(desk, all), [
        { status: "sent", attempting: false, attempts: ["unknown lease_lost", "accepted"] },
        { status: "unknown", attempting: false, attempts: ["unknown lease_lost"] }
      ])
    )
    await expectTrue(desk, all)
  })
})

describe("two processes that send messages", () => {
  it("send a message once that both are asked to send", async () => {
    const desk = await openDesk(databaseUrl)
    const services = await Promise.all([start(databaseUrl), start(databaseUrl)])
    const all = mails("both", 5)
    const { sprung } = desk.provider.trap(all.length, ignore)
    const answers = all.flatMap((each) => [0, 1, 0, 1].map((n) => desk.post(services[n] ?? services[0], each)))
    await sprung
    // Longer than it takes to look for what is under way.
    await sleep(500)
    assert.lengthOf(desk.provider.calls, all.length)
    desk.provider.acceptAll()
    const told = await Promise.all(answers)
    assert.deepStrictEqual(
      told.map(({ status }) => status),
      told.map(() => 200)
    )
    assert.lengthOf(
      told.filter(({ headers }) => headers["idempotent-replayed"] === undefined),
      all.length
    )
    for (const { body } of told) assertMatches(body, { deliveryStatus: "sent" })
    assert.lengthOf(desk.provider.calls, all.length)
    await expectTrue(desk, all)
  })

  it("wait for each other's call no longer than its deadline and its lease", async () => {
    const desk = await openDesk(databaseUrl)
    const [first, second] = await Promise.all([
      start(databaseUrl, "api", { PROVIDER_TIMEOUT: "3s" }),
      start(databaseUrl, "api", { PROVIDER_TIMEOUT: "3s" })
    ])
    const all = mails("waiting")
    const { sprung } = desk.provider.trap(all.length, swallow)
    const cut = all.map((each) => desk.ask(first, each))
    await sprung
    first.kill("SIGKILL")
    await first.exited
    assert.deepStrictEqual(await Promise.all(cut), ["cut", "cut"])
    for (const answer of await Promise.all(all.map((each) => desk.post(second, each)))) {
      assert.strictEqual(told(answer), pending)
      assertMatches(answer.body, { createdAt: /^/ })
    }
    const waited = await desk.query(`
      SELECT bool_and(now() > created_at + interval '3 s') AS waited FROM messages WHERE project_id = '${desk.id}'`)
    assert.deepStrictEqual(waited, [{ waited: true }])
    // With nobody but the API there, it stays as it is, but from the end of its lease it counts as unknown.
    await eventually(async () =>
      assert.deepStrictEqual(await Promise.all(all.map((each) => desk.ask(second, each))), [unknown, unknown])
    )
    assertMatches(await statesOf(desk, all), [{ status: "pending" }, { status: "pending" }])
  })
})

describe("the roles of a process for messages", () => {
  it("are `api` for first attempts and `worker` for retries", async () => {
    const desk = await openDesk(databaseUrl)
    const api = await start(databaseUrl, "api")
    const all = mails("role")
    desk.provider.answerWith(busy)
    assert.deepStrictEqual(await Promise.all(all.map((each) => desk.ask(api, each))), [retrying, retrying])
    desk.provider.answerWith(accept)
    await desk.endPauses()
    await sleep(1_500)
    assert.lengthOf(desk.provider.calls, 2)
    const worker = await start(databaseUrl, "worker")
    await eventually(async () =>
      assert.deepStrictEqual(await Promise.all(all.map((each) => desk.ask(api, each))), [sent, sent])
    )
    assert.lengthOf(desk.provider.calls, 4)
    const refused = await Promise.all(all.map((each) => desk.post(worker, each)))
    assert.deepStrictEqual(
      refused.map(({ status }) => status),
      [404, 404]
    )
  })
})
