/** Who finds what is due: after a death, in the middle of a claim, and among several (contract §8, §15). */
import { setTimeout as sleep } from "node:timers/promises"
import { beforeAll, describe, expect, it } from "vitest"
import { defer } from "../support/Finalizers.ts"
import { ended, eventually, inGoodOrder } from "../support/Process.ts"
import { type Desk, type Mail, mails, openDesk, retrying, sent, start, unknown } from "./Messages.support.ts"
import { database } from "./Projects.support.ts"
import { accept, busy, ignore, swallow } from "./Providers.support.ts"
import { records, startTrapProxy } from "./TrapProxy.support.ts"

let databaseUrl: string

beforeAll(async () => {
  databaseUrl = await database()
})

/** Messages that a provider has put off, and that are due again. */
const putOff = async (desk: Desk, name: string, count = 1): Promise<ReadonlyArray<Mail>> => {
  const all = mails(name, count)
  desk.provider.answerWith(busy)
  const api = await start(databaseUrl, "api")
  for (const each of all) expect(await desk.ask(api, each)).toBe(retrying)
  await api.stop()
  await desk.endPauses()
  return all
}

/** Makes each message take a while to be claimed, so that those who look at the same time are sure to meet. */
const slowClaims = async ({ query }: Desk, seconds: number) => {
  await query(`
    CREATE OR REPLACE FUNCTION take_time() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_sleep(${seconds}); RETURN NEW; END $$`)
  await query(`
    CREATE TRIGGER slow_claim BEFORE UPDATE ON messages
    FOR EACH ROW WHEN (NEW.attempting AND NOT OLD.attempting) EXECUTE FUNCTION take_time()`)
  defer(() => query("DROP TRIGGER slow_claim ON messages"))
}

const statesOf = (desk: Desk, all: ReadonlyArray<Mail>) => Promise.all(all.map(desk.state))

describe("a worker that is killed", () => {
  it("while it tries again, leaves what may be repeated to others, and what may not be alone", async () => {
    const desk = await openDesk(databaseUrl)
    const { provider } = desk
    const all = mails("again")
    provider.answerWith(busy)
    const api = await start(databaseUrl, "api")
    expect(await Promise.all(all.map((each) => desk.ask(api, each)))).toEqual([retrying, retrying])
    const trap = provider.trap(all.length, swallow)
    await desk.endPauses()
    const first = await start(databaseUrl, "worker")
    await trap.sprung
    first.kill("SIGKILL")
    await first.exited
    await desk.endLeases()
    provider.answerWith(accept)
    await start(databaseUrl, "worker")
    await eventually(async () => {
      const [http, telegram] = await Promise.all(all.map(desk.state))
      const before = ["retrying http_503", "unknown lease_lost"]
      expect(http).toEqual({ status: "sent", attempting: false, attempts: [...before, "accepted"] })
      expect(telegram).toEqual({ status: "unknown", attempting: false, attempts: before })
    })
    await sleep(1_500)
    expect(all.map((each) => desk.entry(each))).toMatchObject([
      { calls: 3, taken: [expect.any(String)] },
      { calls: 2, taken: [expect.any(String)] }
    ])
  })
})

describe("a message whose lease has ended", () => {
  it("counts as unknown from then on, also while somebody takes note of it", async () => {
    const desk = await openDesk(databaseUrl)
    const all = mails("noted")
    const first = await start(databaseUrl, "api")
    const { sprung } = desk.provider.trap(all.length, ignore)
    const cut = all.map((each) => desk.ask(first, each))
    await sprung
    first.kill("SIGKILL")
    expect(await Promise.all(cut)).toEqual(["cut", "cut"])

    await desk.endWaits()
    const api = await start(databaseUrl, "api")
    const proxy = await startTrapProxy(databaseUrl)
    const noting = proxy.trap({ statement: records, when: "asked", count: all.length })
    const worker = await start(proxy.url, "worker")
    await desk.endLeases()
    await noting.sprung
    expect(await Promise.all(all.map((each) => desk.ask(api, each)))).toEqual([unknown, unknown])
    worker.kill("SIGKILL")
    await worker.exited
    noting.cut()
    expect(await Promise.all(all.map((each) => desk.ask(api, each)))).toEqual([unknown, unknown])
  })
})

describe("an outcome that comes when the lease is over", () => {
  it("is not taken for that of a later attempt", async () => {
    const desk = await openDesk(databaseUrl)
    const all = mails("late")
    const api = await start(databaseUrl, "api")
    desk.provider.answerWith(ignore)
    const answers = all.map((each) => desk.ask(api, each))
    await eventually(() => expect(desk.provider.calls).toHaveLength(2))
    const first = [...desk.provider.calls]
    await desk.endLeases()
    await start(databaseUrl, "worker")
    await eventually(() => expect(desk.provider.calls).toHaveLength(3))
    for (const call of first) busy(call)
    expect(await Promise.all(answers)).toEqual([unknown, unknown])
    expect(await statesOf(desk, all)).toEqual([
      { status: "unknown", attempting: true, attempts: ["unknown lease_lost", "pending"] },
      { status: "unknown", attempting: false, attempts: ["unknown lease_lost"] }
    ])
    desk.provider.acceptAll()
    await eventually(async () =>
      expect((await statesOf(desk, all))[0]).toEqual({
        status: "sent",
        attempting: false,
        attempts: ["unknown lease_lost", "accepted"]
      })
    )
  })
})

describe("a worker that ends", () => {
  it.each(["SIGTERM", "SIGINT"] as const)("by %s in the middle of a claim, leaves nothing leased", async (signal) => {
    const desk = await openDesk(databaseUrl)
    const all = await putOff(desk, `claim-${signal}`)
    desk.provider.answerWith(accept)
    await slowClaims(desk, 1.5)
    const claiming = `pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'`
    const count = async () => Number((await desk.query(`SELECT count(*) FROM ${claiming}`))[0]?.["count"])
    const worker = await start(databaseUrl, "worker")
    await eventually(async () => expect(await count()).toBe(1))
    worker.kill(signal)
    expect(await ended(worker)).toEqual(inGoodOrder)
    await eventually(async () => expect(await count()).toBe(0))
    // Attempted, or not claimed: a lease that nobody works on would make what was surely not sent uncertain.
    for (const state of await statesOf(desk, all)) {
      expect(state).toMatchObject({ attempting: false })
      expect(["sent", "retrying"]).toContain(state === "none" ? state : state.status)
    }
  })
})

describe("several workers", () => {
  it("try again once each time, whoever of them it is", async () => {
    const desk = await openDesk(databaseUrl)
    const all = await putOff(desk, "several", 20)
    desk.provider.answerWith((call) => void setTimeout(call.accept, 100))
    await desk.query(`UPDATE messages SET available_at = now() + interval '1 hour' WHERE project_id = '${desk.id}'`)
    const workers = await Promise.all([1, 2, 3].map(() => start(databaseUrl, "worker")))
    await slowClaims(desk, 0.02)
    await desk.endPauses()
    await eventually(async () => {
      for (const state of await statesOf(desk, all)) expect(state).toMatchObject({ status: "sent" })
    })
    expect(all.map((each) => desk.entry(each).calls)).toEqual(all.map(() => 2))
    for (const worker of workers) expect(await worker.stop()).toEqual(inGoodOrder)
    const api = await start(databaseUrl, "api")
    for (const each of all) expect(await desk.ask(api, each)).toBe(sent)
    expect(desk.provider.calls).toHaveLength(2 * all.length)
  })
})
