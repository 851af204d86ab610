/** Deliveries that a worker has claimed ahead and returns, while the database's answer is lost (contract §10, §15). */
import { assert } from "@effect/vitest"
import { it } from "vitest"
import { hang, ok, settings } from "../integrations/deliveries/Deliveries.support.ts"
import { database, startHere } from "./Projects.support.ts"
import { listen, openShop } from "./Shop.support.ts"
import { openProxy } from "../support/WireProxy.ts"
import { eventually } from "../support/Waiting.ts"

const inAll = 40
const answered = 20
/** Number of deliveries that are sent to the endpoint at once. */
const width = 4

const returns = /^\s*WITH endpoint AS MATERIALIZED \(\s*SELECT \* FROM unnest\(/

it("a returned delivery that is recorded twice changes nothing the second time", async () => {
  const databaseUrl = await database()
  const api = await startHere(databaseUrl, settings)
  const receiver = await listen((hit, n) => (n < answered ? ok : hang)(hit, n))
  const shop = await openShop(databaseUrl, api, receiver.url)
  await shop.rest()
  for (let n = 0; n < inAll; n++) await shop.create(`deal-returned-${n}`)
  await shop.resume()

  const proxy = await openProxy(databaseUrl)
  await startHere(proxy.url, { ...settings, WEBHOOK_TIMEOUT: "60s" }, "worker")
  await eventually(async () => {
    assert.lengthOf(receiver.hits, answered + width)
    assert.strictEqual(await shop.inFlight(), inAll - answered)
  })

  // A changed webhook makes the worker return its waiting deliveries; the answer to that statement is lost.
  const returning = proxy.trap({ statement: returns, when: "answered", count: 1 })
  const changed = await shop.call(api, "PUT", "integrations/shop/outbound-webhook", "configure-2", {
    endpointUrl: `${receiver.url}?changed`,
    eventTypes: ["crm.deal.created.v1"],
    expectedVersion: 1
  })
  assert.strictEqual(changed.status, 200)
  await returning.reached
  await eventually(async () => assert.strictEqual(await shop.inFlight(), width))
  returning.cut()
  receiver.answerWith(ok)
  await eventually(async () => assert.strictEqual(await shop.inState("delivered"), inAll))
  assert.lengthOf(receiver.hits, inAll)
  const attempts = await shop.query(`SELECT DISTINCT attempts, jsonb_array_length(attempt_log) AS log FROM deliveries`)
  assert.deepStrictEqual(attempts, [{ attempts: 1, log: 1 }])
})
