/** Campaigns whose runner is killed repeatedly, and PostgreSQL sometimes: each recipient is sent to once (contract §9). */
import { assert } from "@effect/vitest"
import { beforeAll, describe, it } from "vitest"
import { untilNoneLeft } from "../support/UntilNoneLeft.ts"
import { openCampaigns, type Scene, launchRunner } from "./Campaigns.support.ts"
import { startCluster } from "./Cluster.support.ts"
import { accept, acceptSilently, type Answering, ignore, kinds } from "./Providers.support.ts"
import { eventually } from "../support/Waiting.ts"

const size = 250
/** A kill costs a campaign at most the calls before it, the recipients claimed ahead (0.3 s), and the calls during it. */
const sendsPerMinute = 2_400
const callsBetween = 15

/** What the provider does with the last call of a runner: ignores, accepts without an answer, or accepts it. */
const lastCalls: ReadonlyArray<Answering> = [ignore, acceptSilently, accept]
/** Both kinds of provider take turns; every fifth kill includes PostgreSQL. */
const kills = Array.from({ length: 6 }, (_, n) => ({
  kind: kinds[n % kinds.length],
  lastCall: lastCalls[n % lastCalls.length] ?? accept,
  ofPostgres: n % 3 === 2
}))

let scene: Scene

beforeAll(async () => {
  const cluster = await startCluster()
  const { url } = cluster
  scene = await openCampaigns(url, size)
  await scene.begin(sendsPerMinute)
  for (const { kind, lastCall, ofPostgres } of kills) {
    let calls = 0
    let stopped: Promise<void> | undefined
    const runner = launchRunner(url)
    scene.provider.answerWith((call) => {
      if (call.kind === kind) calls++
      if (calls < callsBetween) return accept(call)
      // Calls after the last one are not counted.
      scene.provider.answerWith(ignore)
      lastCall(call)
      if (ofPostgres) stopped = cluster.kill()
      runner.kill("SIGKILL")
    })
    await eventually(() => assert.isTrue(runner.hasExited()))
    await stopped?.then(cluster.start)
    await scene.endLeases()
  }
  scene.provider.answerWith(accept)
  launchRunner(url)
  await untilNoneLeft(scene.open)
  await eventually(async () => assert.strictEqual(await scene.running(), 0))
}, 300_000)

describe("a campaign of 250 recipients whose runner is killed six times", () => {
  it("sends each message once under one key to a provider with idempotency keys", async () => {
    const recipients = await scene.recipients("http")
    assert.deepStrictEqual(recipients.map(({ client }) => client).sort(), [...scene.clients].sort())
    assert.deepStrictEqual(
      recipients.filter(({ status }) => status !== "sent"),
      []
    )
    const entries = scene.clients.map((client) => scene.entry(client, "http"))
    assert.deepStrictEqual(
      entries.filter(({ keys, taken }) => keys.length !== 1 || taken.length !== 1),
      []
    )
    assert.strictEqual(new Set(entries.flatMap(({ keys }) => keys)).size, size)
    // Otherwise no runner was killed during a call.
    assert.isTrue(entries.some(({ calls }) => calls > 1))
  })

  it("calls a provider without idempotency keys at most once for each recipient", async () => {
    const recipients = await scene.recipients("telegram")
    assert.deepStrictEqual(recipients.map(({ client }) => client).sort(), [...scene.clients].sort())
    const entries = recipients.map(({ client, status }) => ({ status, ...scene.entry(client, "telegram") }))
    assert.deepStrictEqual(
      entries.filter(({ calls }) => calls > 1),
      []
    )
    assert.deepStrictEqual(
      entries.filter(({ status, taken }) => status === "sent" && taken.length !== 1),
      []
    )
    assert.deepStrictEqual(
      entries.filter(({ status }) => status !== "sent" && status !== "unknown"),
      []
    )
    // Unknown outcomes are left to an operator. They include the calls of killed runners.
    const unanswered = kills.filter(({ kind, lastCall }) => kind === "telegram" && lastCall !== accept)
    assert.isAtLeast(
      entries.filter(({ calls, status }) => status === "unknown" && calls === 1).length,
      unanswered.length
    )
    assert.isAbove(entries.filter(({ status }) => status === "sent").length, 0)
  })
})
