/** A synchronous standby takes over from a primary that dies under load: nothing acknowledged is lost (contract §5, §10). */
import { assert } from "@effect/vitest"
import { describe, it } from "vitest"
import { settings } from "../integrations/Deliveries.support.ts"
import { startService } from "../support/Process.ts"
import { eventually } from "../support/Waiting.ts"
import { openLedger } from "./Ledger.support.ts"
import { serviceEnv } from "./Projects.support.ts"
import { createClient, expectProblem, listClients } from "./Requests.support.ts"
import { startPair } from "./Standby.support.ts"

describe("a primary that dies under load", () => {
  it("costs no acknowledged command, no effect twice, and writes answer 503 until the standby is promoted", async () => {
    const pair = await startPair()
    const start = (role: "api" | "worker") =>
      startService({ env: { ...serviceEnv(pair.url), ...settings }, args: ["--role", role] })
    const [api] = await Promise.all([start("api"), start("worker"), start("worker")])
    const ledger = await openLedger(pair.url, () => api)
    const { token } = ledger.shop
    await ledger.goesOn()

    await pair.killPrimary()
    expectProblem(await createClient(api.url, token, "without-a-primary", "Nobody"), 503, "service_unavailable")
    pair.turnToStandby()
    // The standby answers reads, and refuses writes.
    await eventually(async () => assert.strictEqual((await listClients(api.url, token)).status, 200))
    expectProblem(await createClient(api.url, token, "without-a-primary", "Nobody"), 503, "service_unavailable")

    await pair.promote()
    await eventually(async () =>
      assert.strictEqual((await createClient(api.url, token, "without-a-primary", "Nobody")).status, 201)
    )
    // Deliveries in flight when the primary failed may arrive again.
    ledger.excuse(await ledger.shop.leased())
    await ledger.goesOn()
    await ledger.balance()
  }, 120_000)
})
