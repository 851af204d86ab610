/** The metrics of deliveries (contract §10, §15). */
import { assert } from "@effect/vitest"
import { describe, it } from "vitest"
import {
  type Answering,
  inTurn,
  ok,
  reset,
  settings,
  slowly,
  status
} from "../integrations/deliveries/Deliveries.support.ts"
import { freePort, inGoodOrder, startService } from "../support/Process.ts"
import { database, serviceEnv, startHere } from "./Projects.support.ts"
import { expectProblem, send } from "./Requests.support.ts"
import { listen, openShop } from "./Shop.support.ts"
import { eventually } from "../support/Waiting.ts"

const databaseUrl = await database()

type Role = "all" | "api" | "worker"

const start = (env: Readonly<Record<string, string>>, role: Role) =>
  startService({ env: { ...serviceEnv(databaseUrl), ...settings, ...env }, args: ["--role", role] })

/** Returns the lines of Prometheus text whose names begin with a prefix. */
const seriesOf = (text: string, prefix: string) =>
  text.split("\n").flatMap((line) => {
    const [, name = "", labels = "", value = ""] = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? []
    const pairs = [...labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, key = "", value = ""]) => [key, value])
    return name.startsWith(prefix) ? [{ name, labels: Object.fromEntries(pairs), value: Number(value) }] : []
  })

const startMeasured = async (role: Role, url = databaseUrl) => {
  const admin = await freePort()
  const service = await start({ ADMIN_PORT: String(admin), DATABASE_URL: url }, role)
  const metrics = async () => {
    const { status, text } = await send(`http://127.0.0.1:${admin}/metrics`)
    assert.strictEqual(status, 200)
    return text
  }
  /** Returns the value of the line with a name and labels. */
  const value = async (name: string, labels: object = {}) => {
    const found = seriesOf(await metrics(), name).filter((each) => each.name === name)
    return found.find((each) => JSON.stringify(each.labels) === JSON.stringify(labels))?.value
  }
  /** Returns the number of attempts by outcome. */
  const outcomes = async () =>
    Object.fromEntries(
      seriesOf(await metrics(), "webhook_deliveries_total").map(({ labels, value }) => [labels["outcome"], value])
    )
  return { service, metrics, value, outcomes }
}

describe("the metrics of deliveries", () => {
  it("count deliveries by outcome and measure their duration, on ADMIN_PORT alone", async () => {
    const { metrics, outcomes, service, value } = await startMeasured("all")
    const open = async (...answers: ReadonlyArray<Answering>) => {
      const receiver = await listen(inTurn(...answers))
      return { receiver, shop: await openShop(databaseUrl, service, receiver.url) }
    }
    const good = await open(slowly(400))
    await good.shop.create("deal-good")
    await eventually(async () => assert.deepStrictEqual(await outcomes(), { succeeded: 1 }))
    const flaky = await open(status(500), ok)
    await flaky.shop.create("deal-flaky")
    await eventually(async () => assert.deepStrictEqual(await outcomes(), { succeeded: 2, failed: 1 }))
    const dead = await open(status(500), reset, status(302))
    await dead.shop.create("deal-dead")
    await eventually(async () => assert.deepStrictEqual(await outcomes(), { succeeded: 2, failed: 3, exhausted: 1 }))

    const text = await metrics()
    const took = "webhook_attempt_duration_seconds"
    assert.match(text, /^# TYPE webhook_deliveries_total counter$/m)
    assert.match(text, /^# TYPE webhook_attempt_duration_seconds histogram$/m)
    assert.strictEqual(await value(`${took}_count`), 6)
    assert.strictEqual(await value(`${took}_bucket`, { le: "+Inf" }), 6)
    // One of them took 400 ms.
    assert.isBelow(Number(await value(`${took}_bucket`, { le: "0.25" })), 6)
    assert.isAbove(Number(await value(`${took}_sum`)), 0.3)

    const series = seriesOf(text, "webhook_")
    assert.deepStrictEqual(new Set(series.flatMap(({ labels }) => Object.keys(labels))), new Set(["outcome", "le"]))
    for (const { receiver, shop } of [good, flaky, dead]) {
      const ids = receiver.hits.map(({ headers }) => String(headers["webhook-id"]))
      for (const id of [shop.id, String(receiver.port), ...ids]) assert.notInclude(text, id)
    }
    const main = await send(`${service.url}/metrics`)
    expectProblem(main, 404, "route_not_found")
    assert.notInclude(main.text, "webhook_")
  })

  it("show the queue's length and the age of the oldest due delivery", async () => {
    const url = await database()
    const api = await startHere(url, settings)
    const shop = await openShop(url, api, "http://127.0.0.1:9/")
    await shop.query("UPDATE endpoint_health SET parked_until = now() + interval '1 day'")
    for (const key of ["deal-one", "deal-two", "deal-three", "deal-four"]) await shop.create(key)
    const rows = await shop.query("SELECT id FROM deliveries ORDER BY id")
    const set = (n: number, change: string) =>
      shop.query(`UPDATE deliveries SET ${change} WHERE id = '${String(rows[n]?.["id"])}'`)
    await set(0, "available_at = NULL, finished_at = now(), status = 'delivered'")
    await set(1, "available_at = now() - interval '2 hours'")
    await set(2, "available_at = now() - interval '5 minutes'")
    await set(3, "available_at = now() + interval '2 hours'")

    // A replay that waits for its parked endpoint has two deliveries left.
    await shop.query(`
      INSERT INTO replays (project_id, id, installation_id, since, until, event_types, statuses, pace, state, matched, queued,
        position, paced_at, created_at)
      SELECT project_id, 'rpl_1', installation_id, now(), now(), '{}', '{dead}', 1, 'running', 5, 3, '', now(),
        now() - interval '1 hour' FROM webhooks`)

    // Deliveries to a parked endpoint do not count as late.
    const parked = await startMeasured("worker", url)
    await eventually(async () => assert.strictEqual(await parked.value("webhook_queue_depth"), 3))
    await eventually(async () => assert.strictEqual(await parked.value("webhook_replay_queue_depth"), 2))
    assert.isAtLeast(Number(await parked.value("webhook_replay_oldest_seconds")), 3_600)
    assert.strictEqual(await parked.value("webhook_oldest_due_seconds"), 0)
    assert.deepStrictEqual(await parked.service.stop(), inGoodOrder)

    // The locked rows keep workers from claiming, so the deliveries stay due.
    await shop.query("UPDATE endpoint_health SET parked_until = NULL")
    await shop.query("BEGIN")
    await shop.query("SELECT FROM endpoint_health FOR UPDATE")
    const late = await startMeasured("worker", url)
    await eventually(async () => assert.isAtLeast(Number(await late.value("webhook_oldest_due_seconds")), 7_200))
    assert.isBelow(Number(await late.value("webhook_oldest_due_seconds")), 10_800)
    assert.strictEqual(await late.value("webhook_queue_depth"), 3)
    await shop.query("ROLLBACK")
  })
})
