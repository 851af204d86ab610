/**
 * At least once (contract §10): a stream of commands, kill -9 of whatever has come to a certain step between a command
 * and the record of its delivery, and a ledger of every committed event against what arrived.
 */
import { setTimeout as sleep } from "node:timers/promises"
import { beforeAll, describe, expect, it } from "vitest"
import { hang } from "../integrations/Deliveries.support.ts"
import { eventually } from "../support/Process.ts"
import type { Gate } from "../support/WireProxy.ts"
import { type Cluster, startCluster } from "./Cluster.support.ts"
import {
  beforeClaim,
  buildDam,
  command,
  finished,
  holdUp,
  kill,
  type Moment,
  moments,
  nextHit,
  openScene,
  type Part,
  record,
  retire,
  type Scene,
  start,
  stopClaims
} from "./Ledger.parts.support.ts"
import { deliveryOf, type Ledger } from "./Ledger.support.ts"
import type { Shop } from "./Shop.support.ts"

let cluster: Cluster

beforeAll(async () => {
  cluster = await startCluster()
  await buildDam(cluster.url)
})

/** Deliveries that a worker has left leased. */
type Left = ReadonlyArray<string>

/** A moment in the work of a worker, to kill it in. */
interface Step {
  readonly at: string
  /** Whether something of it has arrived that nobody can know of any more, and so arrives again. */
  readonly costs: "nothing" | "something" | "perhaps something"
  /** Leads the worker there; the check of what it then leaves behind tells whether it was there. */
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
    // From the first on, all that is recorded is what the step lets through.
    await records.next()
    const before = await shop.inState("delivered")
    await reach(shop, records)
    return async (left) => {
      recorded((await shop.inState("delivered")) - before)
      if (costs === "something") expect(left).not.toEqual([])
    }
  }
})

const nothing = (count: number) => expect(count).toBe(0)

const steps: ReadonlyArray<Step> = [
  inClaim("before", (left) => expect(left).toEqual([])),
  inClaim("during", () => {}),
  inClaim("after", (left) => expect(left).not.toEqual([])),
  {
    at: "before the answer",
    costs: "something",
    reach: async (ledger) => {
      const hit = await nextHit(ledger)
      return (left) => expect(left).toContain(deliveryOf(hit))
    }
  },
  {
    at: "before the answers to as many as an endpoint gets at once",
    costs: "something",
    reach: async ({ receiver }) => {
      receiver.answerWith(hang)
      await eventually(() => expect(receiver.open()).toBe(4))
      return (left) => expect(left).toHaveLength(4)
    }
  },
  {
    at: "after the answer",
    costs: "something",
    reach: async (ledger, { wire }) => {
      const hit = await nextHit(ledger)
      // However fast it is.
      wire.gate(record)
      await new Promise<void>((resolve) => hit.response.end(resolve))
      return (left) => expect(left).toContain(deliveryOf(hit))
    }
  },
  inRecord("before", "something", moments.before, nothing),
  inRecord("half way through", "something", async (_, records) => (await records.next()).tear(), nothing),
  inRecord("during", "perhaps something", moments.during, () => {}),
  inRecord("after", "perhaps something", moments.after, (count) => expect(count).toBeGreaterThan(0))
]

/** Kills one of the two workers; the other takes over, and a new one comes to its side. */
const killWorker = async (scene: Scene, { costs, reach }: Step) => {
  const { ledger, workers } = scene
  const [victim, other] = workers
  // What is leased from here on is the victim's.
  const claims = await retire(ledger, [other])
  const check = await reach(ledger, victim)
  await kill(ledger.shop, victim)
  ledger.answer()
  const left = await ledger.shop.endLeases()
  await check(left)
  if (costs !== "nothing") ledger.excuse(left)
  claims.open()
  const [successor] = await Promise.all([start(cluster.url, "worker"), ledger.goesOn()])
  scene.workers = [other, successor]
}

/** Kills the api before it has told the caller or the workers of a command. */
const killApi = async (scene: Scene, moment: Moment, patient: boolean) => {
  const { api, ledger } = scene
  ledger.bePatient(patient)
  await moments[moment](ledger.shop, api.wire.gate(command))
  await kill(ledger.shop, api)
  scene.api = await start(cluster.url, "api")
  ledger.bePatient(true)
  await ledger.goesOn()
}

/** Every session dies with one that does, or with the server. */
const deaths = ["its backend", "the server"] as const
type Death = (typeof deaths)[number]

const ownBackend = async ({ query }: Shop) => (await query("SELECT pg_backend_pid() AS pid"))[0]?.["pid"]

/** Kills PostgreSQL at a moment of the next statement at a gate, and waits until it is there again. */
const killPostgres = async ({ shop }: Ledger, statements: Gate, moment: Moment, death: Death) => {
  const before = await ownBackend(shop)
  const { backend } = await moments[moment](shop, statements)
  if (death === "its backend") cluster.crash(backend)
  else await cluster.kill().then(cluster.start)
  await eventually(async () => expect(await ownBackend(shop)).not.toBe(before))
}

/** What PostgreSQL is asked to do, to kill it over. All of the service survives, so nothing has to arrive twice. */
const works = {
  command: async ({ api, ledger, workers }: Scene, moment: Moment, death: Death) => {
    const claims = await retire(ledger, workers)
    const commands = api.wire.gate(command)
    await killPostgres(ledger, commands, moment, death)
    expect(await ledger.shop.leased()).toEqual([])
    commands.open()
    claims.open()
  },
  claim: async ({ ledger, workers }: Scene, moment: Moment, death: Death) => {
    const claims = await beforeClaim(ledger, workers)
    await killPostgres(ledger, claims, moment, death)
    // Leased to nobody who knows of it.
    const left = await ledger.shop.endLeases()
    if (moment === "after") expect(left).not.toEqual([])
    else expect(left).toEqual([])
    claims.open()
  },
  record: async ({ ledger, workers }: Scene, moment: Moment, death: Death) => {
    const { shop } = ledger
    await nextHit(ledger)
    const claims = await stopClaims(workers)
    await shop.rest()
    const sent = await shop.leased()
    claims.open()
    const records = holdUp(workers, record)
    ledger.answer()
    await killPostgres(ledger, records, moment, death)
    records.open()
    // Whoever has sent them lives, and does not rest until they are recorded.
    await finished(ledger, sent)
    await shop.resume()
  }
} as const

/** Nothing is left but what is on disk. */
const killAll = async (scene: Scene) => {
  const { api, ledger, workers } = scene
  const parts = [api, ...workers]
  const hit = await nextHit(ledger)
  for (const { service } of parts) service.kill("SIGKILL")
  await cluster.kill()
  await Promise.all(parts.map(({ service }) => service.exited))
  ledger.answer()
  await cluster.start()
  const left = await ledger.shop.endLeases()
  expect(left).toContain(deliveryOf(hit))
  ledger.excuse(left)
  const [next, ...others] = await Promise.all([
    start(cluster.url, "api"),
    start(cluster.url, "worker"),
    start(cluster.url, "worker")
  ])
  Object.assign(scene, { api: next, workers: others })
  await ledger.goesOn()
}

interface Round {
  readonly kills: string
  readonly run: (scene: Scene) => Promise<void>
}

/** Some waits have no end of their own where the service fails. */
const tooLong = async () => {
  await sleep(90_000, undefined, { ref: false })
  throw new Error("It does not come to that")
}

const runAll = async (rounds: ReadonlyArray<Round>) => {
  const scene = await openScene(cluster.url)
  for (const { kills, run } of rounds) {
    await Promise.race([run(scene), tooLong()]).catch((cause: unknown) => {
      throw new Error(`In the round that kills ${kills}`, { cause })
    })
  }
  const balance = await scene.ledger.balance()
  const { arrived, duplicates, events, replays, unknown } = balance
  console.log(
    `${rounds.length} rounds of kill -9: ${events} events committed (no caller knows of ${unknown}; ${replays} ` +
      `commands were asked again), ${arrived} arrived, ${duplicates} of them duplicates`
  )
  return balance
}

const ofWorkers = steps.map((step): Round => ({
  kills: `a worker ${step.at}`,
  run: (scene) => killWorker(scene, step)
}))

const allMoments = ["before", "during", "after"] as const

const ofApi = (patient: boolean) =>
  allMoments.map((moment): Round => ({
    kills: `the api ${moment} a command${patient ? "" : ", with callers who do not ask again"}`,
    run: (scene) => killApi(scene, moment, patient)
  }))

const ofPostgres = (["command", "claim", "record"] as const).flatMap((work, w) =>
  allMoments.map((moment, m): Round => {
    const death = deaths[(w + m) % 2] ?? "the server"
    return {
      kills: `${death} ${moment} a ${work}`,
      run: async (scene) => {
        await works[work](scene, moment, death)
        await scene.ledger.goesOn()
      }
    }
  })
)

describe("no committed event is lost, and none arrives twice without need", () => {
  it("when workers and the api are killed at every step", { timeout: 600_000 }, async () => {
    const rounds = [...ofWorkers, ...ofApi(true), ...ofWorkers, ...ofApi(false)]
    const { duplicates, replays, unknown } = await runAll(rounds)
    expect(duplicates).toBeGreaterThanOrEqual(2 * steps.filter(({ costs }) => costs === "something").length)
    expect(replays).toBeGreaterThan(0)
    expect(unknown).toBeGreaterThan(0)
  })

  it("when PostgreSQL is killed at every step, and in the end all at once", { timeout: 600_000 }, async () => {
    const { duplicates, replays } = await runAll([...ofPostgres, { kills: "everything", run: killAll }])
    expect(duplicates).toBeGreaterThan(0)
    expect(replays).toBeGreaterThan(0)
  })
})
