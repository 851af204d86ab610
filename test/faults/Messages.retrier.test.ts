/** Who finds what is due: after a death, in the middle of a claim, and among several (contract §8, §15). */
import { assert } from "@effect/vitest"
import { beforeAll, describe, it } from "vitest"
import { defer } from "../support/Finalizers.ts"
import { ended, inGoodOrder } from "../support/Process.ts"
import { assertMatches } from "../support/Matches.ts"
import { type Desk, type Mail, mails, openDesk, records, retrying, sent, start, unknown } from "./Messages.support.ts"
import { database } from "./Projects.support.ts"
import { accept, busy, ignore } from "./Providers.support.ts"
import { openProxy } from "../support/WireProxy.ts"
import { eventually } from "../support/Waiting.ts"

let databaseUrl: string

beforeAll(async () => {
  databaseUrl = await database()
})

/** Messages that a provider has put off, and that are due again. */
const putOff = async (desk: Desk, name: string, count = 1): Promise<ReadonlyArray<Mail>> => {
  const all = mails(name, count)
  desk.provider.answerWith(busy)
  const api = await start(databaseUrl, "api")
  for (const each of all) assert.strictEqual(await desk.ask(api, each), retrying)
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

describe("a message whose lease has ended", () => {
  it("is unknown from then on, also while that is being recorded", async () => {
    const desk = await openDesk(databaseUrl)
    const all = mails("noted")
    const first = await start(databaseUrl, "api")
    const { sprung } = desk.provider.trap(all.length, ignore)
    const cut = all.map((each) => desk.ask(first, each))
    await sprung
    first.kill("SIGKILL")
    assert.deepStrictEqual(await Promise.all(cut), ["cut", "cut"])

    await desk.endWaits()
    const api = await start(databaseUrl, "api")
    const proxy = await openProxy(databaseUrl)
    const noting = proxy.trap({ statement: records, when: "asked", count: all.length })
    const worker = await start(proxy.url, "worker")
    await desk.endLeases()
    await noting.sprung
    assert.deepStrictEqual(await Promise.all(all.map((each) => desk.ask(api, each))), [unknown, unknown])
    worker.kill("SIGKILL")
    await worker.exited
    noting.cut()
    assert.deepStrictEqual(await Promise.all(all.map((each) => desk.ask(api, each))), [unknown, unknown])
  })
})

describe("an outcome that arrives after the lease", () => {
  it("is not recorded for a later attempt", async () => {
    const desk = await openDesk(databaseUrl)
    const all = mails("late")
    const api = await start(databaseUrl, "api")
    desk.provider.answerWith(ignore)
    const answers = all.map((each) => desk.ask(api, each))
    await eventually(() => assert.lengthOf(desk.provider.calls, 2))
    const first = [...desk.provider.calls]
    await desk.endLeases()
    await start(databaseUrl, "worker")
    await eventually(() => assert.lengthOf(desk.provider.calls, 3))
    for (const call of first) busy(call)
    assert.deepStrictEqual(await Promise.all(answers), [unknown, unknown])
    assert.deepStrictEqual(await statesOf(desk, all), [
      { status: "unknown", attempting: true, attempts: ["unknown lease_lost", "pending"] },
      { status: "unknown", attempting: false, attempts: ["unknown lease_lost"] }
    ])
    desk.provider.acceptAll()
    await eventually(async () =>
      assert.deepStrictEqual((await statesOf(desk, all))[0], {
        status: "sent",
        attempting: false,
        attempts: ["unknown lease_lost", "accepted"]
      })
    )
  })
})

describe("a message worker that shuts down", () => {
  it.each(["SIGTERM", "SIGINT"] as const)("on %s during a claim leaves nothing leased", async (signal) => {
    const desk = await openDesk(databaseUrl)
    const all = await putOff(desk, `claim-${signal}`)
    desk.provider.answerWith(accept)
    await slowClaims(desk, 1.5)
    const claiming = `pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'`
    const count = async () => Number((await desk.query(`SELECT count(*) FROM ${claiming}`))[0]?.["count"])
    const worker = await start(databaseUrl, "worker")
    await eventually(async () => assert.strictEqual(await count(), 1))
    worker.kill(signal)
    assert.deepStrictEqual(await ended(worker), inGoodOrder)
    await eventually(async () => assert.strictEqual(await count(), 0))
    // Attempted, or not claimed: a lease that nobody works on would make what was surely not sent uncertain.
    for (const state of await statesOf(desk, all)) {
      assertMatches(state, { attempting: false })
      assert.include(["sent", "retrying"], state === "none" ? state : state.status)
    }
  })
})

describe("several message workers", () => {
  it("make each retry once", async () => {
    const desk = await openDesk(databaseUrl)
    const all = await putOff(desk, "several", 20)
    desk.provider.answerWith((call) => void setTimeout(call.accept, 100))
    await desk.query(`UPDATE messages SET available_at = now() + interval '1 hour' WHERE project_id = '${desk.id}'`)
    const workers = await Promise.all([1, 2, 3].map(() => start(databaseUrl, "worker")))
    await slowClaims(desk, 0.02)
    await desk.endPauses()
    await eventually(async () => {
      for (const state of await statesOf(desk, all)) assertMatches(state, { status: "sent" })
    })
    assert.deepStrictEqual(
      all.map((each) => desk.entry(each).calls),
      all.map(() => 2)
    )
    for (const worker of workers) assert.deepStrictEqual(await worker.stop(), inGoodOrder)
    const api = await start(databaseUrl, "api")
    for (const each of all) assert.strictEqual(await desk.ask(api, each), sent)
    assert.lengthOf(desk.provider.calls, 2 * all.length)
  })
})
