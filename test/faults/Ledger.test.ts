/**
 * Delivery at least once (contract §10): a stream of commands, kill -9 of a process or of PostgreSQL at a given step between a
 * command and the record of its delivery, and a ledger that compares the committed events with the arrivals. `ROUNDS=2` kills
 * workers at every step twice.
 */
import { assert } from "@effect/vitest"
import { beforeAll, describe, it } from "vitest"
import { hang } from "../integrations/deliveries/Deliveries.support.ts"
import type { Gate } from "../support/WireProxy.ts"
import { type Cluster, startCluster } from "./Cluster.support.ts"
import {
  allMoments,
  beforeClaim,
  command,
  createBarrier,
  finished,
  holdStatements,
  kill,
  type Moment,
  moments,
  nextHit,
  type Part,
  record,
  retire,
  type Round,
  runAll,
  type Scene,
  start,
  stopClaims
} from "./Ledger.parts.support.ts"
import { deliveryOf, type Ledger } from "./Ledger.support.ts"
import type { Shop } from "./Shop.support.ts"
import { eventually } from "../support/Waiting.ts"

const repeats = Number(process.env["ROUNDS"] ?? 1)

let cluster: Cluster

beforeAll(async () => {
  cluster = await startCluster()
  await createBarrier(cluster.url)
})

/** Deliveries whose leases the worker has left. */
type Left = ReadonlyArray<string>

/** A moment in the work of a worker at which it is killed. */
interface Step {
  readonly at: string
  /** Whether deliveries arrive again, because their first arrival was not recorded. */
  readonly costs: "nothing" | "something" | "perhaps something"
  /** Brings the worker to the moment. The returned check of the state it leaves proves that it was there. */
  readonly reach: (ledger: Ledger, worker: Part) => Promise<(left: Left) => unknown>
}

const inClaim = (moment: Moment, check: (left: Left) => unknown): Step => ({
  at: `${moment} the claim`,
  costs: "nothing",
  reach: async (ledger, worker) => {
    await moments[moment](ledger.shop, await beforeClaim(ledger, [worker]))
    return check
  }
})

const inRecord = (
  at: string,
  costs: Step["costs"],
  reach: (shop: Shop, records: Gate) => Promise<unknown>,
  recorded: (count: number) => void
): Step => ({
  at: `${at} the record`,
  costs,
  reach: async ({ shop }, { wire }) => {
    const records = wire.gate(record)
    // From here on, only what the step lets through is recorded.
    await records.next()
    const before = await shop.inState("delivered")
    await reach(shop, records)
    return async (left) => {
      recorded((await shop.inState("delivered")) - before)
      if (costs === "something") assert.notDeepEqual(left, [])
    }
  }
})

const nothing = (count: number) => assert.strictEqual(count, 0)

const steps: ReadonlyArray<Step> = [
  inClaim("before", (left) => assert.deepStrictEqual(left, [])),
  inClaim("during", () => {}),
  inClaim("after", (left) => assert.notDeepEqual(left, [])),
  {
    at: "before the answer",
    costs: "something",
    reach: async (ledger) => {
      const hit = await nextHit(ledger)
      return (left) => assert.include(left, deliveryOf(hit))
    }
  },
  {
    at: "before the answers to as many as an endpoint gets at once",
    costs: "something",
    reach: async ({ receiver }) => {
      receiver.answerWith(hang)
      await eventually(() => assert.strictEqual(receiver.open(), 4))
      // More may be leased ahead, because the endpoint was quick until now.
      return (left) => assert.isAtLeast(left.length, 4)
    }
  },
  {
    at: "after the answer",
    costs: "something",
    reach: async (ledger, { wire }) => {
      const hit = await nextHit(ledger)
      // The record is held even if it follows at once.
      wire.gate(record)
      await new Promise<void>((resolve) => hit.response.end(resolve))
      return (left) => assert.include(left, deliveryOf(hit))
    }
  },
  inRecord("before", "something", moments.before, nothing),
  inRecord("halfway through", "something", async (_, records) => (await records.next()).tear(), nothing),
  inRecord("during", "perhaps something", moments.during, () => {}),
  inRecord("after", "perhaps something", moments.after, (count) => assert.isAbove(count, 0))
]

/** Kills one of the two workers. The other takes over, and a new one is started. */
const killWorker = async (scene: Scene, { costs, reach }: Step) => {
  const { ledger, workers } = scene
  const [victim, other] = workers
  // From here on, all leases belong to the worker that is killed.
  const claims = await retire(ledger, [other])
  const check = await reach(ledger, victim)
  await kill(ledger.shop, victim)
  ledger.answer()
  const left = await ledger.shop.endLeases()
  await check(left)
  if (costs !== "nothing") ledger.allowDuplicates(left)
  claims.open()
  const [successor] = await Promise.all([start(cluster.url, "worker"), ledger.untilProgress()])
  scene.workers = [other, successor]
}

/** Kills the API process before it has answered the caller or notified the workers. */
const killApi = async (scene: Scene, moment: Moment, retry: boolean) => {
  const { api, ledger } = scene
  ledger.retryLost(retry)
  await moments[moment](ledger.shop, api.wire.gate(command))
  await kill(ledger.shop, api)
  scene.api = await start(cluster.url, "api")
  ledger.retryLost(true)
  await ledger.untilProgress()
}

const ofWorkers = steps.map((step): Round => ({
  kills: `a worker ${step.at}`,
  run: (scene) => killWorker(scene, step)
}))

const ofApi = (retry: boolean) =>
  allMoments.map((moment): Round => ({
    kills: `the api ${moment} a command${retry ? "" : ", with callers who do not ask again"}`,
    run: (scene) => killApi(scene, moment, retry)
  }))

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
  it("balances when workers and the API are killed at every step", { timeout: 600_000 }, async () => {
    const rounds = [...Array.from({ length: repeats }, () => ofWorkers).flat(), ...ofApi(true), ...ofApi(false)]
    const { duplicates, replays, unknown } = await runAll(cluster.url, rounds)
    assert.isAtLeast(duplicates, repeats * steps.filter(({ costs }) => costs === "something").length)
    assert.isAbove(replays, 0)
    assert.isAbove(unknown, 0)
  })

  it("balances when PostgreSQL is killed at every step", { timeout: 600_000 }, async () => {
    const { duplicates, replays } = await runAll(cluster.url, [...ofPostgres, { kills: "everything", run: killAll }])
    assert.isAbove(duplicates, 0)
    assert.isAbove(replays, 0)
  })
})
