/** Delivery of every committed event, although workers are killed or shut down (contract §10, §15). */
import { setTimeout as sleep } from "node:timers/promises"
import { assert } from "@effect/vitest"
import { describe, it } from "vitest"
import { type Answering, hang, ok, settings } from "../webhooks/delivery/Deliveries.support.ts"
import { eventually, untilNoneLeft } from "../support/Waiting.ts"
import { defer } from "../support/Finalizers.ts"
import { ended, inGoodOrder, startService } from "../support/Process.ts"
import { load, request } from "./Load.support.ts"
import { database, serviceEnv, startHere } from "./Projects.support.ts"
import { send } from "./Requests.support.ts"
import { listen, openShop, type Shop } from "./Shop.support.ts"

const databaseUrl = await database()

/** Sends no deliveries. */
const api = await startHere(databaseUrl, settings)

const start = (role: "worker", env: Readonly<Record<string, string>> = {}) =>
  startService({ env: { ...serviceEnv(databaseUrl), ...settings, ...env }, args: ["--role", role] })

/** Opens a project with a receiver, and a process that sends no deliveries. */
const open = async (answer: Answering) => {
  const receiver = await listen(answer)
  return { receiver, shop: await openShop(databaseUrl, api, receiver.url) }
}

/** Asserts that every committed event has been delivered, and that no delivery is open. */
const expectAllDelivered = async (shop: Shop, seen: () => ReadonlyMap<string, unknown>) => {
  await untilNoneLeft(() => shop.inState("pending", "delivering"))
  const events = await shop.events()
  assert.lengthOf(events, await shop.deals())
  assert.strictEqual(await shop.inState("delivered"), events.length)
  assert.deepStrictEqual([...seen().keys()].sort(), events.sort())
  assert.strictEqual(await shop.inFlight(), 0)
}

const numbers = (count: number) => Array.from({ length: count }, (_, n) => n)

describe("a delivery worker that is killed", () => {
  it("loses no delivery, which another worker takes over long before the leases end", async () => {
    const { receiver, shop } = await open(hang)
    const first = await start("worker", { WEBHOOK_TIMEOUT: "60s" })
    await Promise.all(numbers(12).map((n) => shop.create(`deal-killed-${n}`)))
    await eventually(() => assert.lengthOf(receiver.hits, 4))
    await startHere(databaseUrl, { ...settings, WEBHOOK_TIMEOUT: "60s" }, "worker")
    first.kill("SIGKILL")
    const [killed] = await shop.query("SELECT clock_timestamp()::text AS at")
    await first.exited
    assert.strictEqual(await shop.inState("delivering"), 4)
    assert.strictEqual(await shop.inFlight(), 4)

    receiver.answerWith(ok)
    // Leases last for 75 s, longer than the test waits.
    await expectAllDelivered(shop, receiver.seen)
    assert.deepStrictEqual([...receiver.seen().values()].map(({ length }) => length).sort(), [
      ...numbers(8).map(() => 1),
      ...numbers(4).map(() => 2)
    ])
    const logs = await shop.query(`
      SELECT attempt_log #>> '{0,errorCode}' AS code,
        (attempt_log #>> '{0,finishedAt}')::timestamptz - '${String(killed?.["at"])}' <= interval '3 seconds' AS soon
      FROM deliveries WHERE project_id = '${shop.id}' AND attempts = 2 AND status = 'delivered'`)
    assert.deepStrictEqual(
      logs,
      numbers(4).map(() => ({ code: "lease_lost", soon: true }))
    )
  })
})

describe("a delivery worker that shuts down", () => {
  it.each([
    ["SIGTERM, and no answer comes within SHUTDOWN_GRACE", "SIGTERM"],
    ["SIGINT", "SIGINT"]
  ] as const)("on %s returns its leases", async (_, signal) => {
    const { receiver, shop } = await open(hang)
    const first = await start("worker", { WEBHOOK_TIMEOUT: "60s", SHUTDOWN_GRACE: "1s" })
    await Promise.all(numbers(6).map((n) => shop.create(`deal-ended-${n}`)))
    await eventually(() => assert.lengthOf(receiver.hits, 4))
    const signalled = Date.now()
    first.kill(signal)
    assert.deepStrictEqual(await ended(first), inGoodOrder)
    assert.strictEqual(await shop.inState("pending"), 6)
    // The shutdown is recorded as the end of the attempts.
    const attempts = await shop.query(`
      SELECT attempt_log #>> '{0,startedAt}' AS started, attempt_log #>> '{0,finishedAt}' AS finished
      FROM deliveries WHERE project_id = '${shop.id}' AND attempts = 1`)
    assert.lengthOf(attempts, 4)
    for (const { finished, started } of attempts) {
      assert.isAtMost(Date.parse(String(started)), signalled)
      assert.isAtLeast(Date.parse(String(finished)), signalled)
    }
    assert.strictEqual(await shop.inFlight(), 0)
    receiver.answerWith(ok)
    await startHere(databaseUrl, settings, "worker")
    await expectAllDelivered(shop, receiver.seen)
  })

  it("on SIGTERM records answers within SHUTDOWN_GRACE and claims nothing more", async () => {
    const { receiver, shop } = await open(hang)
    const first = await start("worker", { WEBHOOK_TIMEOUT: "60s", SHUTDOWN_GRACE: "60s" })
    await Promise.all(numbers(6).map((n) => shop.create(`deal-graceful-${n}`)))
    await eventually(() => assert.lengthOf(receiver.hits, 4))
    first.kill("SIGTERM")
    await eventually(async () => assert.strictEqual((await send(`${first.url}/readyz`)).status, 503))
    receiver.answerWith(ok)
    assert.deepStrictEqual(await ended(first), inGoodOrder)
    assert.lengthOf(receiver.hits, 4)
    assert.strictEqual(await shop.inState("delivered"), 4)
    assert.strictEqual(await shop.inState("pending"), 2)
    assert.strictEqual(await shop.inFlight(), 0)
    await startHere(databaseUrl, settings, "worker")
    await expectAllDelivered(shop, receiver.seen)
    assert.lengthOf(receiver.hits, 6)
  })

  it("returns a delivery that it holds twice because a first attempt outlived its lease", async () => {
    const { receiver, shop } = await open(hang)
    const worker = await start("worker", { WEBHOOK_TIMEOUT: "60s" })
    await shop.create("deal-had-twice")
    await eventually(() => assert.lengthOf(receiver.hits, 1))
    await shop.endLeases()
    await eventually(() => assert.lengthOf(receiver.hits, 2))
    receiver.hits[0]?.response.writeHead(200).end()
    await sleep(1_000)
    assert.strictEqual(await shop.inState("delivering"), 1)
    worker.kill("SIGINT")
    assert.deepStrictEqual(await ended(worker), inGoodOrder)
    assert.strictEqual(await shop.inState("delivering"), 0)
    assert.strictEqual(await shop.inFlight(), 0)
  })

  it.each(["SIGTERM", "SIGINT"] as const)("on %s during a claim leaves nothing leased", async (signal) => {
    const { shop } = await open(ok)
    await shop.query(`
      CREATE OR REPLACE FUNCTION take_time() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN PERFORM pg_sleep(2); RETURN NEW; END $$`)
    await shop.query(`
      CREATE TRIGGER slow_claim BEFORE UPDATE ON deliveries
      FOR EACH ROW WHEN (NEW.status = 'delivering') EXECUTE FUNCTION take_time()`)
    defer(() => shop.query("DROP TRIGGER slow_claim ON deliveries"))
    await shop.create("deal-in-a-claim")
    const worker = await start("worker")
    const claiming = `pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'`
    const count = async () => Number((await shop.query(`SELECT count(*) FROM ${claiming}`))[0]?.["count"])
    await eventually(async () => assert.strictEqual(await count(), 1))
    worker.kill(signal)
    assert.deepStrictEqual(await ended(worker), inGoodOrder)
    await eventually(async () => assert.strictEqual(await count(), 0))
    assert.strictEqual(await shop.inState("delivering"), 0)
    assert.strictEqual(await shop.inFlight(), 0)
  })
})

describe("a process whose callers send as fast as they can", () => {
  it("delivers most events while it takes the next, and refuses none", async () => {
    const receiver = await listen(ok)
    const service = await startService({ env: { ...serviceEnv(databaseUrl), ...settings } })
    const shop = await openShop(databaseUrl, service, receiver.url)
    const path = "/api/v1/developer/crm/deals"
    const nextRequest = (n: number) => ({
      name: "create",
      bytes: request("POST", path, shop.token, `flood-key-${n}`, { title: "Deal" })
    })
    const { answers, lost } = await load({ url: service.url, nextRequest, seconds: 5, connections: 48 })
    const arrived = receiver.hits.length
    assert.deepStrictEqual([...answers.keys(), lost], ["create 201", 0])
    assert.isAtLeast(arrived, 0.8 * (await shop.deals()))
    await expectAllDelivered(shop, receiver.seen)
  })
})
