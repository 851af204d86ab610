/**
 * A process is killed, or PostgreSQL fails, at every step of a send: a message that can't be repeated is sent at most once, one
 * that can be converges to one accepted send under one key, and every receipt is true. While PostgreSQL is away, the caller gets
 * the answer in time that the outcome is unknown, and the service recovers without help (contract §5, §8, §15).
 */
import { setTimeout as sleep } from "node:timers/promises"
import { assert } from "@effect/vitest"
import { beforeAll, describe, it } from "vitest"
import { type Service } from "../support/Process.ts"
import { assertMatches } from "../support/Matches.ts"
import { startCluster } from "./Cluster.support.ts"
import {
  creates,
  expectTrue,
  openScene,
  pending,
  records,
  resultOf,
  type Scene,
  sent,
  start,
  type State,
  type TestMessage,
  testMessage,
  testMessages,
  unknown
} from "./Messages.support.ts"
import { database, startHere } from "./Projects.support.ts"
import { accept, acceptSilently, halfway, ignore, type Kind, kinds } from "./Providers.support.ts"
import { expectProblem } from "./Requests.support.ts"
import { openProxy, type Trap, type WireProxy } from "../support/WireProxy.ts"
import { eventually } from "../support/Waiting.ts"

const databaseUrl = await database()

const leased: State = { status: "pending", attempting: true, attempts: ["pending"] }
const delivered: State = { status: "sent", attempting: false, attempts: ["accepted"] }

interface Step {
  /** The messages that are sent before each kill. */
  readonly batches: ReadonlyArray<ReadonlyArray<TestMessage>>
  /** Holds the step once this number of messages has reached it. */
  readonly trap: (scene: Scene, proxy: WireProxy, count: number) => Promise<Pick<Trap, "reached" | "cut">>
  /** The state of each message after the kill, and the calls that the provider has received. */
  readonly leaves: State | "none"
  readonly calls: 0 | 1
  readonly taken: 0 | 1
}

/** All messages of the batch reach the provider, and continue from there at the same time. */
const together = [testMessages("together", 3)]

/** One message at a time: others could wait behind the held statement. */
const alone = testMessages("alone").map((each) => [each])

/** As many messages as statements that record outcomes may be in flight, as one statement records any number of them. */
const fewTogether = [testMessages("together", 2)]

/** Lets the provider accept all messages once it has received them, and holds the statements that record the outcomes. */
const afterTheCall = async ({ provider }: Scene, count: number, hold: () => Pick<Trap, "reached" | "cut">) => {
  await provider.trap(count, ignore).reached
  const trap = hold()
  provider.acceptAll()
  return trap
}

/** Holds the outcomes of all messages: none is recorded. */
const beforeTheRecord = (proxy: WireProxy) => (): Pick<Trap, "reached" | "cut"> => {
  const gate = proxy.gate(records)
  return { reached: gate.next().then(() => undefined), cut: gate.open }
}

/** Holds the answers for all messages: each is recorded. */
const afterTheRecord =
  ({ query, id }: Scene, proxy: WireProxy, count: number) =>
  (): Pick<Trap, "reached" | "cut"> => {
    const { cut } = proxy.trap({ statement: records, when: "answered", count: Infinity })
    const reached = eventually(async () => {
      const recorded = await query(`SELECT FROM messages WHERE project_id = '${id}' AND status = 'sent'`)
      assert.lengthOf(recorded, count)
    })
    return { reached, cut }
  }

const steps: Readonly<Record<string, Step>> = {
  "before the message is committed": {
    batches: alone,
    trap: async (_, proxy, count) => proxy.trap({ statement: creates, when: "requested", count }),
    leaves: "none",
    calls: 0,
    taken: 0
  },
  "when the message is committed and the answer is in transit": {
    batches: alone,
    trap: async (_, proxy, count) => proxy.trap({ statement: creates, when: "answered", count }),
    leaves: leased,
    calls: 0,
    taken: 0
  },
  "during the call, before the provider takes the message": {
    batches: together,
    trap: async ({ provider }, _, count) => provider.trap(count, ignore),
    leaves: leased,
    calls: 1,
    taken: 0
  },
  "during the call, when the provider has taken the message": {
    batches: together,
    trap: async ({ provider }, _, count) => provider.trap(count, acceptSilently),
    leaves: leased,
    calls: 1,
    taken: 1
  },
  "in the middle of the provider's answer": {
    batches: together,
    trap: async ({ provider }, _, count) => provider.trap(count, halfway),
    leaves: leased,
    calls: 1,
    taken: 1
  },
  "before the outcome is recorded": {
    batches: together,
    trap: (scene, proxy, count) => afterTheCall(scene, count, beforeTheRecord(proxy)),
    leaves: leased,
    calls: 1,
    taken: 1
  },
  "when the outcome is recorded and the answer is in transit": {
    batches: fewTogether,
    trap: (scene, proxy, count) => afterTheCall(scene, count, afterTheRecord(scene, proxy, count)),
    leaves: delivered,
    calls: 1,
    taken: 1
  }
}

/** Kills a process at a step of each batch, and returns the messages. */
const killAt = async (scene: Scene, { batches, trap }: Step) => {
  const proxy = await openProxy(databaseUrl)
  for (const batch of batches) {
    const service = await start(proxy.url, "api")
    await scene.warmUp(service)
    scene.provider.answerWith(accept)
    const trapped = trap(scene, proxy, batch.length)
    const answers = batch.map((each) => scene.ask(service, each))
    const { cut, reached } = await trapped
    await reached
    service.kill("SIGKILL")
    await service.exited
    cut()
    // On a machine that was suspended meanwhile, the answer may be that the outcome is unknown.
    for (const answer of await Promise.all(answers)) assert.include(["cut", unknown], answer)
  }
  return batches.flat()
}

const sentAgain = { status: 200, headers: { "idempotent-replayed": "true" }, json: { deliveryStatus: "sent" } }

/** Starts the service that continues after a process was killed. */
const goOn = () => startHere(databaseUrl, { PROVIDER_TIMEOUT: "60s" }, "all")

describe.each(Object.entries(steps))("a process that is killed %s", { timeout: 180_000 }, (_, step) => {
  it("sends nothing twice and answers repeated keys truthfully", async () => {
    const scene = await openScene(databaseUrl)
    const { provider } = scene
    const all = await killAt(scene, step)
    await scene.untilSessionsEnd()
    const expectEntries = (
      of: ReadonlyArray<TestMessage>,
      expected: { readonly calls: number; readonly taken: number }
    ) => {
      const entries = of.map((each) => ({ calls: scene.entry(each).calls, taken: scene.entry(each).taken.length }))
      assert.deepStrictEqual(entries, Array(of.length).fill(expected))
    }
    for (const each of all) assert.deepStrictEqual(await scene.state(each), step.leaves, each.text)
    expectEntries(all, { calls: step.calls, taken: step.taken })

    provider.answerWith(step.leaves === "none" ? accept : ignore)
    await scene.endWaits()
    const service = await goOn()
    const http = all.filter(({ kind }) => kind === "http")
    const telegram = all.filter(({ kind }) => kind === "telegram")
    const expectAnswers = async (of: ReadonlyArray<TestMessage>, expected: string) => {
      const answers = await Promise.all(of.map((each) => scene.ask(service, each)))
      assert.deepStrictEqual(answers, Array(of.length).fill(expected))
    }
    if (step.leaves === leased) {
      await expectAnswers(all, pending)
      // While the leases run, no process repeats attempts that may be in flight.
      await sleep(1_000)
      await expectAnswers(all, pending)
      for (const each of all) assert.deepStrictEqual(await scene.state(each), leased, each.text)

      await scene.endLeases()
      for (const each of all) {
        const answer = await scene.post(service, each)
        expectProblem(answer, 503, "provider_outcome_unknown")
        assertMatches(answer, {
          headers: { "idempotent-replayed": "true", "retry-after": /^[1-9]\d?$/ },
          json: { messageId: /^msg_/ }
        })
      }
      await eventually(async () => {
        for (const each of telegram) {
          assert.deepStrictEqual(await scene.state(each), {
            status: "unknown",
            attempting: false,
            attempts: ["unknown lease_lost"]
          })
        }
      })
      provider.acceptAll()
      await eventually(() => expectAnswers(http, sent))
      await expectAnswers(telegram, unknown)
      expectEntries(http, { calls: step.calls + 1, taken: 1 })
      expectEntries(telegram, { calls: step.calls, taken: step.taken })
    } else {
      await expectAnswers(all, sent)
      expectEntries(all, { calls: 1, taken: 1 })
      for (const each of all) assertMatches(await scene.post(service, each), sentAgain)
    }
    await expectTrue(scene, all)
  })
})

const cluster = await startCluster()

/** Failures of PostgreSQL, and how each ends. */
interface Fault {
  readonly interrupt: (scene: Scene) => Promise<unknown>
  readonly heal: () => Promise<void>
}

const faults: Readonly<Record<string, Fault>> = {
  "is killed": { interrupt: () => cluster.kill(), heal: () => cluster.start() },
  hangs: { interrupt: async () => cluster.signal("SIGSTOP"), heal: async () => cluster.signal("SIGCONT") },
  "cuts its connections": {
    interrupt: ({ query }) =>
      query(`
        SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name LIKE 'developer-api%'`),
    heal: async () => {}
  }
}

/** Waits until a repeated request gets this answer, without help. */
const becomes = (scene: Scene, service: Service, each: TestMessage, answer: string) =>
  eventually(async () => assert.strictEqual(await scene.ask(service, each), answer))

/** Whether the message is leased, and its provider not called: only then does the outcome depend on the provider. */
const isLeaseAlone = ({ calls, leaves }: Step) => leaves === leased && calls === 0

/** A provider that stops in the middle of its answer keeps the caller waiting, whatever PostgreSQL does. */
const stepsOfPostgres = Object.entries(steps).filter(([name]) => name !== "in the middle of the provider's answer")

const cases = Object.entries(faults).flatMap(([fault, { heal, interrupt }]) =>
  stepsOfPostgres.flatMap(([name, step]) =>
    (isLeaseAlone(step) ? kinds : (["http"] as const)).map((kind): readonly [string, string, Kind, Step & Fault] => [
      fault,
      name,
      kind,
      { ...step, heal, interrupt }
    ])
  )
)

describe("a PostgreSQL behind sends of messages", () => {
  // One service for all cases: it is never started again, and has recovered from each before the next.
  let proxy: WireProxy
  let service: Service
  beforeAll(async () => {
    proxy = await openProxy(cluster.url)
    service = await start(proxy.url)
  })

  it.each(cases)("that %s %s loses no message over %s", async (fault, _, kind, { heal, interrupt, ...step }) => {
    const scene = await openScene(cluster.url)
    await scene.warmUp(service)
    scene.provider.answerWith(accept)
    const one = testMessage("one", kind)
    const trapped = step.trap(scene, proxy, 1)
    const answer = scene.post(service, one)
    const { cut, reached } = await trapped
    await reached
    await interrupt(scene)
    const interruptedAt = performance.now()
    // A PostgreSQL that hangs loses no connection.
    if (fault !== "hangs") cut()
    scene.provider.acceptAll()
    const asked = await answer
    const first = resultOf(asked)
    cut()
    assert.isBelow(performance.now() - interruptedAt, 6_000)
    // If only connections are lost, the outcome can be recorded over a new one.
    assert.include(fault === "cuts its connections" && step.calls > 0 ? [unknown, sent] : [unknown], first)
    // Once the message is committed, the answer has its id.
    if (first === unknown && step.calls > 0) assertMatches(asked.json, { messageId: /^msg_/ })
    await heal()

    if (isLeaseAlone(step)) {
      await eventually(async () => assertMatches(await scene.state(one), { status: "pending", attempting: true }))
      await scene.endWaits()
      await becomes(scene, service, one, pending)
      await scene.endLeases()
    }
    const calls = isLeaseAlone(step) && kind === "telegram" ? 0 : 1
    await becomes(scene, service, one, calls === 0 ? unknown : sent)
    await eventually(async () => assertMatches(await scene.state(one), { attempting: false }))
    assertMatches(scene.entry(one), { calls, taken: calls === 0 ? [] : [/^/] })
    await expectTrue(scene, [one])
  })
})
