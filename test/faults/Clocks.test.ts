/** A replica whose clock is ahead: leases and due times use the database's clock, which all replicas share. */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { describe, it } from "vitest"
import { run } from "../cli/Cli.support.ts"
import { settings, slowly, status } from "../webhooks/delivery/Deliveries.support.ts"
import { eventually, untilNoneLeft } from "../support/Waiting.ts"
import { startService } from "../support/Process.ts"
import { database, serviceEnv, startHere } from "./Projects.support.ts"
import { expectSent, openScene, testMessage } from "./Messages.support.ts"
import { ignore } from "./Providers.support.ts"
import { listen, openShop } from "./Shop.support.ts"

const databaseUrl = await database()

/** Milliseconds, longer than the leases below. */
const ahead = 30_000

const shifted = `data:text/javascript,${encodeURIComponent(`
  const { now } = Date
  const Real = Date
  globalThis.Date = class extends Real {
    constructor(...args) { args.length === 0 ? super(now() + ${ahead}) : super(...args) }
    static now() { return now() + ${ahead} }
  }
`)}`

const start = (role: "all" | "api" | "worker", env: Readonly<Record<string, string>>) =>
  startHere(databaseUrl, { ...settings, ...env }, role)

const startAhead = (role: "all" | "api" | "worker", env: Readonly<Record<string, string>>) =>
  startService({
    env: { ...serviceEnv(databaseUrl), ...settings, ...env, NODE_OPTIONS: `--import=${shifted}` },
    args: ["--role", role]
  })

describe("a replica whose clock is 30 s ahead", () => {
  it("takes over no delivery that another worker is sending, and each arrives once", async () => {
    const env = { WEBHOOK_TIMEOUT: "5s" }
    const [api] = await Promise.all([start("api", env), start("worker", env), startAhead("worker", env)])
    const receiver = await listen(slowly(2_000))
    const shop = await openShop(databaseUrl, api, receiver.url)
    for (let n = 0; n < 20; n++) await shop.create(`a-replica-is-ahead-${n}`)
    await untilNoneLeft(() => shop.inState("pending", "delivering"))
    assert.deepStrictEqual(
      [...receiver.seen().values()].filter(({ length }) => length !== 1),
      []
    )
    assert.strictEqual(await shop.inState("delivered"), 20)
  })

  it("is named by doctor with what its clock is ahead, as it signs webhooks by it", async () => {
    await startAhead("worker", {})
    await eventually(async () => {
      const { stdout } = await Effect.runPromise(run(["doctor"], { env: serviceEnv(databaseUrl) }))
      assert.match(
        stdout,
        /^warning  workers .*; the clock of worker [0-9a-f]{16} is 30 seconds ahead of the database's; .*\n +Synchronize/m
      )
    })
  })

  it("lets a replaced secret sign for the overlap by the database's clock", async () => {
    const api = await startAhead("api", { WEBHOOK_SECRET_OVERLAP: "1h" })
    const receiver = await listen(status(200))
    const shop = await openShop(databaseUrl, api, receiver.url)
    const path = "integrations/shop/outbound-webhook/rotate-secret"
    assert.strictEqual((await shop.call(api, "POST", path, "rotate-while-ahead", { expectedVersion: 1 })).status, 200)
    assert.deepStrictEqual(
      await shop.query(`
        SELECT retires_at BETWEEN now() + interval '59 minutes' AND now() + interval '1 hour' AS "lasts an hour"
        FROM webhook_secrets WHERE retires_at <> 'infinity'`),
      [{ "lasts an hour": true }]
    )
  })

  it("takes over no send, and waits for its outcome where a request is repeated", async () => {
    const { post, provider } = await openScene(databaseUrl)
    provider.answerWith(ignore)
    const env = { PROVIDER_TIMEOUT: "10s" }
    const [own, replica] = await Promise.all([start("api", env), startAhead("all", env)])
    const once = testMessage("sent-once", "telegram")
    const first = post(own, once)
    await eventually(() => assert.lengthOf(provider.calls, 1))
    const repeated = post(replica, once)
    // The message loop of the replica looks for expired leases several times meanwhile.
    await new Promise((resolve) => setTimeout(resolve, 3_000))
    provider.acceptAll()
    expectSent(await first)
    expectSent(await repeated, true)
    assert.lengthOf(provider.calls, 1)
  })
})
