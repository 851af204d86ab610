/**
 * PostgreSQL that is killed, or whose connections are cut, at every step of a send: the caller is told in time that
 * nobody knows, and all is well by itself afterwards (contract §8, §15).
 */
import { assert } from "@effect/vitest"
import { beforeAll, describe, it } from "vitest"
import { type Service } from "../support/Process.ts"
import { assertMatches } from "../support/Matches.ts"
import { type Cluster, startCluster } from "./Cluster.support.ts"
import {
  creates,
  type Desk,
  expectTrue,
  type Mail,
  mail,
  openDesk,
  pending,
  records,
  sent,
  start,
  told,
  unknown
} from "./Messages.support.ts"
import { accept, type Kind, kinds, swallow } from "./Providers.support.ts"

import { openProxy, type Trap, type WireProxy } from "../support/WireProxy.ts"
import { eventually } from "../support/Waiting.ts"

let cluster: Cluster

beforeAll(async () => {
  cluster = await startCluster()
})

interface Step {
  readonly trap: (desk: Desk, proxy: WireProxy) => Pick<Trap, "sprung" | "cut">
  /** Where the message is made, the provider has taken it, or nobody will ever call. */
  readonly leaves: "nothing" | "a lease" | "an outcome"
}

const steps: Readonly<Record<string, Step>> = {
  "before the message is committed": {
    trap: (_, proxy) => proxy.trap({ statement: creates, when: "asked", count: 1 }),
    leaves: "nothing"
  },
  "when the message is committed, and nobody knows yet": {
    trap: (_, proxy) => proxy.trap({ statement: creates, when: "answered", count: 1 }),
    leaves: "a lease"
  },
  "during the call": {
    trap: ({ provider }) => provider.trap(1, swallow),
    leaves: "an outcome"
  },
  "before the outcome is recorded": {
    trap: (_, proxy) => proxy.trap({ statement: records, when: "asked", count: 1 }),
    leaves: "an outcome"
  },
  "when the outcome is recorded, and nobody knows yet": {
    trap: (_, proxy) => proxy.trap({ statement: records, when: "answered", count: 1 }),
    leaves: "an outcome"
  }
}

/** What happens to PostgreSQL, and how it ends. */
interface Fault {
  readonly strike: (desk: Desk) => Promise<unknown>
  readonly heal: () => Promise<void>
}

const faults: Readonly<Record<string, Fault>> = {
  "is killed": {
    strike: () => cluster.kill(),
    heal: () => cluster.start()
  },
  hangs: {
    strike: async () => cluster.signal("SIGSTOP"),
    heal: async () => cluster.signal("SIGCONT")
  },
  "cuts its connections": {
    strike: ({ query }) =>
      query(`
        SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name LIKE 'developer-api%'`),
    heal: async () => {}
  }
}

/** Asks until the answer is the one, which it is by itself. */
const becomes = (desk: Desk, service: Service, each: Mail, answer: string) =>
  eventually(async () => assert.strictEqual(await desk.ask(service, each), answer))

/** What a lease leaves to do depends on the provider, and nothing else does. */
const kindsOf = ({ leaves }: Step): ReadonlyArray<Kind> => (leaves === "a lease" ? kinds : ["http"])

const cases = Object.entries(faults).flatMap(([fault, { heal, strike }]) =>
  Object.entries(steps).flatMap(([name, step]) =>
    kindsOf(step).map((kind): readonly [string, string, Kind, Step & Fault] => [
      fault,
      name,
      kind,
      { ...step, heal, strike }
    ])
  )
)

describe("a PostgreSQL behind sends of messages", () => {
  it.each(cases)("that %s %s loses no message over %s", async (fault, _, kind, { heal, leaves, strike, trap }) => {
    const desk = await openDesk(cluster.url)
    const proxy = await openProxy(cluster.url)
    const service = await start(proxy.url)
    await desk.warmUp(service)
    desk.provider.answerWith(accept)
    const one = mail("one", kind)
    const { cut, sprung } = trap(desk, proxy)
    const answer = desk.post(service, one)
    await sprung
    await strike(desk)
    const struck = performance.now()
    // What hangs loses no connection.
    if (fault !== "hangs") cut()
    desk.provider.acceptAll()
    const first = told(await answer)
    cut()
    assert.isBelow(performance.now() - struck, 6_000)
    // Where only connections are lost, a new one may do.
    assert.include(fault === "cuts its connections" && leaves === "an outcome" ? [unknown, sent] : [unknown], first)
    await heal()
    await desk.reconnect()

    if (leaves === "a lease") {
      await eventually(async () => assertMatches(await desk.state(one), { status: "pending", attempting: true }))
      await desk.endWaits()
      await becomes(desk, service, one, pending)
      await desk.endLeases()
    }
    await becomes(desk, service, one, leaves === "a lease" && kind === "telegram" ? unknown : sent)
    const calls = leaves === "a lease" && kind === "telegram" ? 0 : 1
    await eventually(async () => assertMatches(await desk.state(one), { attempting: false }))
    assertMatches(desk.entry(one), { calls, taken: calls === 0 ? [] : [/^/] })
    await expectTrue(desk, [one])
  })
})
