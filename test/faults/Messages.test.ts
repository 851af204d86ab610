/**
 * A process that is killed at every step of a send: what can't be repeated is sent once at most, what can be converges
 * to one accepted send under one key, and no receipt lies (contract §5, §8).
 */
import { setTimeout as sleep } from "node:timers/promises"
import { assert } from "@effect/vitest"
import { beforeAll, describe, it } from "vitest"
import { checkout, runToEnd } from "../support/Process.ts"
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
  records,
  sent,
  start,
  type State,
  unknown
} from "./Messages.support.ts"
import { database, serviceEnv } from "./Projects.support.ts"
import { accept, halfway, ignore, swallow } from "./Providers.support.ts"
import { expectProblem } from "./Requests.support.ts"
import { type Catch, openProxy, type Trap, type WireProxy } from "../support/WireProxy.ts"
import { eventually } from "../support/Waiting.ts"

let databaseUrl: string

beforeAll(async () => {
  databaseUrl = await database()
})

const leased: State = { status: "pending", attempting: true, attempts: ["pending"] }
const delivered: State = { status: "sent", attempting: false, attempts: ["accepted"] }

interface Step {
  /** What is sent before each kill. */
  readonly batches: ReadonlyArray<ReadonlyArray<Mail>>
  /** Springs when so many messages are there. */
  readonly trap: (desk: Desk, proxy: WireProxy, count: number) => Promise<Pick<Trap, "sprung" | "cut">>
  /** What the dead process leaves of each message, and what the provider has seen of it. */
  readonly leaves: State | "none"
  readonly calls: 0 | 1
  readonly taken: 0 | 1
}

/** All of a batch get to the provider, and go on together from there. */
const together = [mails("together", 3)]

/** One alone: others could wait behind what is caught of it. */
const alone = mails("alone").map((each) => [each])

/** Catches a statement of each message once the provider has heard of all of them. */
const afterTheCall = async (desk: Desk, proxy: WireProxy, when: Catch["when"], count: number) => {
  await desk.provider.trap(count, ignore).sprung
  const trap = proxy.trap({ statement: records, when, count })
  desk.provider.acceptAll()
  return trap
}

const steps: Readonly<Record<string, Step>> = {
  "before the message is committed": {
    batches: alone,
    trap: async (_, proxy, count) => proxy.trap({ statement: creates, when: "asked", count }),
    leaves: "none",
    calls: 0,
    taken: 0
  },
  "when the message is committed, and it doesn't know yet": {
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
    trap: async ({ provider }, _, count) => provider.trap(count, swallow),
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
    trap: (desk, proxy, count) => afterTheCall(desk, proxy, "asked", count),
    leaves: leased,
    calls: 1,
    taken: 1
  },
  "when the outcome is recorded, and it doesn't know yet": {
    batches: together,
    trap: (desk, proxy, count) => afterTheCall(desk, proxy, "answered", count),
    leaves: delivered,
    calls: 1,
    taken: 1
  }
}

/** Kills a process at a step of each batch; tells the messages. */
const killAt = async (desk: Desk, { batches, trap }: Step) => {
  const proxy = await openProxy(databaseUrl)
  for (const batch of batches) {
    const service = await start(proxy.url, "api")
    await desk.warmUp(service)
    desk.provider.answerWith(accept)
    const trapped = trap(desk, proxy, batch.length)
    const answers = batch.map((each) => desk.ask(service, each))
    const { cut, sprung } = await trapped
    await sprung
    service.kill("SIGKILL")
    await service.exited
    cut()
    // On a machine that stood still meanwhile it may have been told that nobody knows.
    for (const answer of await Promise.all(answers)) assert.include(["cut", unknown], answer)
  }
  return batches.flat()
}

const sentAgain = { status: 200, headers: { "idempotent-replayed": "true" }, body: { deliveryStatus: "sent" } }

describe.each(Object.entries(steps))("a process that is killed %s", { timeout: 180_000 }, (_, step) => {
  it("sends nothing twice and answers repeated keys truthfully", async () => {
    const desk = await openDesk(databaseUrl)
    const { provider } = desk
    const all = await killAt(desk, step)
    await desk.burial()
    const entries = (of: ReadonlyArray<Mail>) =>
      of.map((each) => ({ calls: desk.entry(each).calls, taken: desk.entry(each).taken.length }))
    for (const each of all) assert.deepStrictEqual(await desk.state(each), step.leaves, each.text)
    assert.deepStrictEqual(
      entries(all),
      all.map(() => ({ calls: step.calls, taken: step.taken }))
    )

    provider.answerWith(step.leaves === "none" ? accept : ignore)
    await desk.endWaits()
    const service = await start(databaseUrl)
    const http = all.filter(({ kind }) => kind === "http")
    const telegram = all.filter(({ kind }) => kind === "telegram")
    const ask = (of: ReadonlyArray<Mail>) => Promise.all(of.map((each) => desk.ask(service, each)))
    if (step.leaves === leased) {
      assert.deepStrictEqual(
        await ask(all),
        all.map(() => pending)
      )
      // As long as the leases run, nobody touches what may be under way.
      await sleep(1_000)
      assert.deepStrictEqual(
        await ask(all),
        all.map(() => pending)
      )
      for (const each of all) assert.deepStrictEqual(await desk.state(each), leased, each.text)

      await desk.endLeases()
      for (const each of all) {
        const answer = await desk.post(service, each)
        expectProblem(answer, 503, "provider_outcome_unknown")
        assertMatches(answer, {
          headers: { "idempotent-replayed": "true", "retry-after": /^[1-9]\d?$/ },
          body: { messageId: /^msg_/ }
        })
      }
      await eventually(async () => {
        for (const each of telegram) {
          assert.deepStrictEqual(await desk.state(each), {
            status: "unknown",
            attempting: false,
            attempts: ["unknown lease_lost"]
          })
        }
      })
      provider.acceptAll()
      await eventually(async () =>
        assert.deepStrictEqual(
          await ask(http),
          http.map(() => sent)
        )
      )
      assert.deepStrictEqual(
        await ask(telegram),
        telegram.map(() => unknown)
      )
      assert.deepStrictEqual(
        entries(http),
        http.map(() => ({ calls: step.calls + 1, taken: 1 }))
      )
      assert.deepStrictEqual(
        entries(telegram),
        telegram.map(() => ({ calls: step.calls, taken: step.taken }))
      )
    } else {
      assert.deepStrictEqual(
        await ask(all),
        all.map(() => sent)
      )
      assert.deepStrictEqual(
        entries(all),
        all.map(() => ({ calls: 1, taken: 1 }))
      )
      for (const each of all) assertMatches(await desk.post(service, each), sentAgain)
    }
    await expectTrue(desk, all)
  })
})

describe("an unknown message that must not be repeated", () => {
  it.each(["sent", "failed"] as const)("is unknown until an operator settles it as %s", async (as) => {
    const desk = await openDesk(databaseUrl)
    const only = mail(`settled-${as}`, "telegram")
    const trap = desk.provider.trap(1, as === "sent" ? swallow : ignore)
    const first = await start(databaseUrl, "api")
    const asked = desk.ask(first, only)
    await trap.sprung
    first.kill("SIGKILL")
    assert.strictEqual(await asked, "cut")
    await desk.burial()
    await desk.endWaits()
    await desk.endLeases()
    const service = await start(databaseUrl)
    await eventually(async () => assertMatches(await desk.state(only), { status: "unknown" }))
    // Longer than the first pause.
    await sleep(1_500)
    const answer = await desk.post(service, only)
    expectProblem(answer, 503, "provider_outcome_unknown")
    const cli = (...args: ReadonlyArray<string>) =>
      runToEnd(process.execPath, [`${checkout}/src/cli.ts`, "messages", ...args, "--json"], serviceEnv(databaseUrl))
    const listed = await cli("list", "--project", desk.id, "--status", "unknown")
    const messageId = /msg_\w+/.exec(listed.stdout)?.[0] ?? ""
    assertMatches(answer.body, { messageId })
    const settled = await cli("settle", "--project", desk.id, "--message", messageId, "--as", as)
    assert.deepStrictEqual(JSON.parse(settled.stdout), { messageId, deliveryStatus: as })
    assert.strictEqual(await desk.ask(service, only), as === "sent" ? sent : "409 provider_conflict")
    assert.strictEqual(desk.entry(only).calls, 1)
  })
})
