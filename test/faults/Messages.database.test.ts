/**
 * PostgreSQL is killed, or its connections are cut, at every step of a send: the caller gets the answer in time that the
 * outcome is unknown, and the service recovers without help (contract §8, §15).
 */
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
  type TestMessage,
  testMessage,
  unknown
} from "./Messages.support.ts"
import { accept, acceptSilently, type Kind, kinds } from "./Providers.support.ts"
import { openProxy, type Trap, type WireProxy } from "../support/WireProxy.ts"
import { eventually } from "../support/Waiting.ts"

const cluster = await startCluster()

interface Step {
  readonly trap: (scene: Scene, proxy: WireProxy) => Pick<Trap, "reached" | "cut">
  /** What the send has at the trap: no message, a leased message without a call, or a call that the provider accepts. */
  readonly leaves: "nothing" | "a lease" | "an outcome"
}

const held =
  (statement: RegExp, when: "requested" | "answered"): Step["trap"] =>
  (_, proxy) =>
    proxy.trap({ statement, when, count: 1 })

const steps: Readonly<Record<string, Step>> = {
  "before the message is committed": { trap: held(creates, "requested"), leaves: "nothing" },
  "when the message is committed and the answer is in transit": { trap: held(creates, "answered"), leaves: "a lease" },
  "during the call": { trap: ({ provider }) => provider.trap(1, acceptSilently), leaves: "an outcome" },
  "before the outcome is recorded": { trap: held(records, "requested"), leaves: "an outcome" },
  "when the outcome is recorded and the answer is in transit": { trap: held(records, "answered"), leaves: "an outcome" }
}

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

/** Returns the kinds to test: only after a lease is left does the outcome depend on the provider. */
const kindsOf = ({ leaves }: Step): ReadonlyArray<Kind> => (leaves === "a lease" ? kinds : ["http"])

const cases = Object.entries(faults).flatMap(([fault, { heal, interrupt }]) =>
  Object.entries(steps).flatMap(([name, step]) =>
    kindsOf(step).map((kind): readonly [string, string, Kind, Step & Fault] => [
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

  it.each(cases)("that %s %s loses no message over %s", async (fault, _, kind, { heal, leaves, interrupt, trap }) => {
    const scene = await openScene(cluster.url)
    await scene.warmUp(service)
    scene.provider.answerWith(accept)
    const one = testMessage("one", kind)
    const { cut, reached } = trap(scene, proxy)
    const answer = scene.post(service, one)
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
    assert.include(fault === "cuts its connections" && leaves === "an outcome" ? [unknown, sent] : [unknown], first)
    // Once the message is committed, the answer has its id.
    if (first === unknown && leaves === "an outcome") assertMatches(asked.body, { messageId: /^msg_/ })
    await heal()
    await scene.reconnect()

    if (leaves === "a lease") {
      await eventually(async () => assertMatches(await scene.state(one), { status: "pending", attempting: true }))
      await scene.endWaits()
      await becomes(scene, service, one, pending)
      await scene.endLeases()
    }
    await becomes(scene, service, one, leaves === "a lease" && kind === "telegram" ? unknown : sent)
    const calls = leaves === "a lease" && kind === "telegram" ? 0 : 1
    await eventually(async () => assertMatches(await scene.state(one), { attempting: false }))
    assertMatches(scene.entry(one), { calls, taken: calls === 0 ? [] : [/^/] })
    await expectTrue(scene, [one])
  })
})
