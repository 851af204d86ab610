/** Delivery at least once (contract §10) when PostgreSQL is killed at any step of a delivery. */
import { assert } from "@effect/vitest"
import { beforeAll, describe, it } from "vitest"
import type { Gate } from "../support/WireProxy.ts"
import { type Cluster, startCluster } from "./Cluster.support.ts"
import {
  allMoments,
  beforeClaim,
  command,
  createBarrier,
  finished,
  holdStatements,
  type Moment,
  moments,
  nextHit,
  record,
  retire,
  type Round,
  runAll,
  type Scene,
  start,
  stopClaims
} from "./Ledger.parts.support.ts"
import type { Ledger } from "./Ledger.support.ts"
import type { Shop } from "./Shop.support.ts"
import { eventually } from "../support/Waiting.ts"

let cluster: Cluster

beforeAll(async () => {
  cluster = await startCluster()
  await createBarrier(cluster.url)
})

/** What is killed. When a backend is killed, PostgreSQL ends every other session, too. */
const targets = ["its backend", "the server"] as const
type Target = (typeof targets)[number]

const ownBackend = async ({ query }: Shop) => (await query("SELECT pg_backend_pid() AS pid"))[0]?.["pid"]

/** Kills PostgreSQL at a moment of the next statement at a gate, and waits until it accepts sessions again. */
const killPostgres = async ({ shop }: Ledger, statements: Gate, moment: Moment, target: Target) => {
  const before = await ownBackend(shop)
  const { backend } = await moments[moment](shop, statements)
  if (target === "its backend") cluster.crash(backend)
  else await cluster.kill().then(cluster.start)
  await eventually(async () => assert.notStrictEqual(await ownBackend(shop), before))
}

/** The statements during which PostgreSQL is killed. The service's processes survive, so no delivery has to arrive twice. */
const works = {
  command: async ({ api, ledger, workers }: Scene, moment: Moment, target: Target) => {
    const claims = await retire(ledger, workers)
    const commands = api.wire.gate(command)
    await killPostgres(ledger, commands, moment, target)
    assert.deepStrictEqual(await ledger.shop.leased(), [])
    commands.open()
    claims.open()
  },
  claim: async ({ ledger, workers }: Scene, moment: Moment, target: Target) => {
    const claims = await beforeClaim(ledger, workers)
    await killPostgres(ledger, claims, moment, target)
    // No worker holds the remaining leases. A claim may be lost after its answer, as it does not wait for the disk.
    const left = await ledger.shop.endLeases()
    if (moment !== "after") assert.deepStrictEqual(left, [])
    claims.open()
  },
  record: async ({ ledger, workers }: Scene, moment: Moment, target: Target) => {
    const { shop } = ledger
    await nextHit(ledger)
    const claims = await stopClaims(workers)
    await shop.rest()
    const sent = await shop.leased()
    claims.open()
    const records = holdStatements(workers, record)
    ledger.answer()
    await killPostgres(ledger, records, moment, target)
    records.open()
    // The worker that sent the deliveries is alive, and retries until they are recorded.
    await finished(ledger, sent)
    await shop.resume()
  }
} as const

/** Kills all processes, so that only the data on disk survives. */
const killAll = async (scene: Scene) => {
  const { api, ledger, workers } = scene
  const parts = [api, ...workers]
  await nextHit(ledger)
  for (const { service } of parts) service.kill("SIGKILL")
  await cluster.kill()
  await Promise.all(parts.map(({ service }) => service.exited))
  ledger.answer()
  await cluster.start()
  await ledger.shop.endLeases()
  await ledger.allowUnrecorded()
  const [next, ...others] = await Promise.all([
    start(cluster.url, "api"),
    start(cluster.url, "worker"),
    start(cluster.url, "worker")
  ])
  Object.assign(scene, { api: next, workers: others })
  await ledger.untilProgress()
}

const ofPostgres = (["command", "claim", "record"] as const).flatMap((work, w) =>
  allMoments.map((moment, m): Round => {
    const target = targets[(w + m) % 2] ?? "the server"
    return {
      kills: `${target} ${moment} a ${work}`,
      run: async (scene) => {
        await works[work](scene, moment, target)
        await scene.ledger.untilProgress()
      }
    }
  })
)

describe("the ledger of committed and received events", () => {
  it("balances when PostgreSQL is killed at every step", { timeout: 600_000 }, async () => {
    const { duplicates, replays } = await runAll(cluster.url, [...ofPostgres, { kills: "everything", run: killAll }])
    assert.isAbove(duplicates, 0)
    assert.isAbove(replays, 0)
  })
})
