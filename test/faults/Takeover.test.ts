/** Takeover of a killed worker's messages and recipients long before their leases end (contract §8, §9). */
import { assert } from "@effect/vitest"
import { it, describe } from "vitest"
import { assertMatches } from "../support/Matches.ts"
import { launchRunner, openCampaigns } from "./Campaigns.support.ts"
import { openScene, retrying, start, testMessages } from "./Messages.support.ts"
import { database, startHere } from "./Projects.support.ts"
import { accept, acceptSilently, busy } from "./Providers.support.ts"
import { eventually } from "../support/Waiting.ts"

/** With a provider's timeout of 60 s a lease lasts 65 s. */
describe("a worker that is killed with -9", () => {
  it("loses no message, which another worker takes over without a second send", async () => {
    const databaseUrl = await database()
    const scene = await openScene(databaseUrl)
    const { provider } = scene
    const all = testMessages("held")
    provider.answerWith(busy)
    const api = await startHere(databaseUrl)
    assert.deepStrictEqual(await Promise.all(all.map((each) => scene.ask(api, each))), [retrying, retrying])
    const trap = provider.trap(all.length, acceptSilently)
    await scene.endPauses()
    const first = await start(databaseUrl, "worker")
    await trap.reached
    await startHere(databaseUrl, { PROVIDER_TIMEOUT: "60s" }, "worker")
    provider.answerWith(accept)
    first.kill("SIGKILL")
    await eventually(async () => {
      const [http, telegram] = await Promise.all(all.map(scene.state))
      const before = ["retrying http_503", "unknown lease_lost"]
      assert.deepStrictEqual(http, { status: "sent", attempting: false, attempts: [...before, "accepted"] })
      assert.deepStrictEqual(telegram, { status: "unknown", attempting: false, attempts: before })
    })
    assertMatches(
      all.map((each) => scene.entry(each)),
      [
        { calls: 3, taken: [/^/] },
        { calls: 2, taken: [/^/] }
      ]
    )
  })

  it("loses no recipient, which another worker takes over long before their leases end without a second send", async () => {
    const databaseUrl = await database()
    const { begin, clients, entry, open, provider, recipients } = await openCampaigns(databaseUrl, 3)
    const trap = provider.trap(2 * clients.length, acceptSilently)
    const first = launchRunner(databaseUrl)
    await begin(60_000)
    await trap.reached
    const second = launchRunner(databaseUrl)
    await second.prints(/^listening on/m)
    provider.answerWith(accept)
    first.kill("SIGKILL")
    const killedAt = performance.now()
    await eventually(async () => assert.isAtMost(await open(), clients.length))
    assert.isBelow(performance.now() - killedAt, 20_000)
    await eventually(async () => assert.strictEqual(await open(), 0))
    for (const kind of ["http", "telegram"] as const) {
      const resultOf = await recipients(kind)
      assert.deepStrictEqual(
        resultOf.map(({ status }) => status),
        clients.map(() => (kind === "http" ? "sent" : "unknown"))
      )
      for (const client of clients) assert.lengthOf(entry(client, kind).taken, 1)
    }
  })
})
