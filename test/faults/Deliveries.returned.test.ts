/** What a worker has claimed ahead and gives back, when nobody knows whether that was recorded (contract §10, §15). */
import { setTimeout as sleep } from "node:timers/promises"
import { expect, it } from "vitest"
import { hang, ok, settings } from "../integrations/Deliveries.support.ts"
import { eventually, startService } from "../support/Process.ts"
import { database, serviceEnv } from "./Projects.support.ts"
import { listen, openShop } from "./Shop.support.ts"
import { startTrapProxy } from "./TrapProxy.support.ts"

const inAll = 40
const answered = 20
/** What is sent to the endpoint at a time: by the first worker, and in all while there is a second one. */
const width = 4
const wider = 8

const givesBack = /^\s*WITH result AS \(/

it("is not given back again: by then another worker may have it, under the number of the same attempt", async () => {
  const databaseUrl = await database()
  const start = (url: string, role: "api" | "worker", env: Readonly<Record<string, string>> = {}) =>
    startService({
      env: { ...serviceEnv(url), ...settings, WEBHOOK_TIMEOUT: "60s", ...env },
      args: ["--role", role]
    })
  const api = await start(databaseUrl, "api")
  const receiver = await listen((hit, n) => (n < answered ? ok : hang)(hit, n))
  const shop = await openShop(databaseUrl, api, receiver.url)
  await shop.rest()
  for (let n = 0; n < inAll; n++) await shop.create(`deal-returned-${n}`)
  await shop.resume()

  const proxy = await startTrapProxy(databaseUrl)
  await start(proxy.url, "worker")
  await eventually(async () => {
    expect(receiver.hits).toHaveLength(answered + width)
    expect(await shop.inFlight()).toBe(inAll - answered)
  })

  // A change of the webhook: what waits for it is given back, but the worker does not learn that this was done.
  const givingBack = proxy.trap({ statement: givesBack, when: "answered", count: 1 })
  const changed = await shop.call(api, "PUT", "integrations/shop/outbound-webhook", "configure-2", {
    endpointUrl: `${receiver.url}?changed`,
    eventTypes: ["crm.deal.created.v1"],
    expectedVersion: 1
  })
  expect(changed.status).toBe(200)
  await givingBack.sprung
  await eventually(async () => expect(await shop.inFlight()).toBe(width))
  await start(databaseUrl, "worker", { WEBHOOK_ENDPOINT_CONCURRENCY: String(wider) })
  await eventually(() => expect(receiver.hits).toHaveLength(answered + wider))

  givingBack.cut()
  // Time enough for the first worker to connect anew and record again.
  await sleep(2_000)
  expect(await shop.inFlight()).toBe(wider)
  receiver.answerWith(ok)
  await eventually(async () => expect(await shop.inState("delivered")).toBe(inAll))
  expect(receiver.hits).toHaveLength(inAll)
  const attempts = await shop.query(`SELECT DISTINCT attempts, jsonb_array_length(attempt_log) AS log FROM deliveries`)
  expect(attempts).toEqual([{ attempts: 1, log: 1 }])
})
