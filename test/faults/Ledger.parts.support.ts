/**
 * An api and two workers whose database statements can be held by a proxy, and rounds in which one of the processes or
 * PostgreSQL is killed.
 */
import { setTimeout as sleep } from "node:timers/promises"
import { assert } from "@effect/vitest"
import { type Hit, settings } from "../integrations/deliveries/Deliveries.support.ts"
import { isRunning, type Service, startService } from "../support/Process.ts"
import { type Gate, type Held, openProxy, type WireProxy } from "../support/WireProxy.ts"
import { type Ledger, openLedger } from "./Ledger.support.ts"
import { serviceEnv, session } from "./Projects.support.ts"
import type { Shop } from "./Shop.support.ts"
import { eventually } from "../support/Waiting.ts"

/** The statements of a delivery, each by text that only it has: messages and campaigns have their own claims. */
export const command = /INSERT INTO deals|UPDATE deals SET/
export const claim = /WITH RECURSIVE\s+named AS MATERIALIZED \(/
export const record = /UPDATE deliveries SET\s+status = to_state/

/** A process of the service, and the proxy between it and the database. */
export interface Part {
  readonly service: Service
  readonly wire: WireProxy
}

export const start = async (databaseUrl: string, role: "api" | "worker"): Promise<Part> => {
  const wire = await openProxy(databaseUrl)
  // Longer than any step takes: leases end only when the test ends them.
  const env = { ...serviceEnv(wire.url), ...settings, WEBHOOK_TIMEOUT: "60s" }
  return { wire, service: await startService({ env, args: ["--role", role] }) }
}

/** While a session of the test holds this lock, every change of a delivery is stopped halfway. */
const barrier = 1

/** Installs a trigger that stops changes of deliveries while the lock is held, at most for the statement timeout. */
export const createBarrier = async (databaseUrl: string) => {
  const query = await session(databaseUrl)
  await query(`
    CREATE FUNCTION stop_at_barrier() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      WHILE NOT pg_try_advisory_xact_lock_shared(${barrier}) LOOP PERFORM pg_sleep(0.005); END LOOP;
      RETURN NEW;
    END $$`)
  await query(`
    CREATE TRIGGER barrier BEFORE INSERT OR UPDATE ON deliveries FOR EACH ROW EXECUTE FUNCTION stop_at_barrier()`)
}

const isAtBarrier = async ({ query }: Shop, { backend }: Held) =>
  (await query(`SELECT FROM pg_stat_activity WHERE pid = ${backend} AND wait_event = 'PgSleep'`)).length > 0

/** Holds the next statement at a gate before, during or after its execution by the database. */
export const moments = {
  before: (_: Shop, statements: Gate) => statements.next(),
  during: async (shop: Shop, statements: Gate) => {
    await shop.query(`SELECT pg_advisory_lock(${barrier})`)
    const held = await statements.next()
    void held.pass()
    await eventually(async () => assert.isTrue(await isAtBarrier(shop, held)))
    return held
  },
  after: async (_: Shop, statements: Gate) => {
    const held = await statements.next()
    await held.pass()
    return held
  }
} as const satisfies Readonly<Record<string, (shop: Shop, statements: Gate) => Promise<Held>>>
export type Moment = keyof typeof moments
export const allMoments = ["before", "during", "after"] as const satisfies ReadonlyArray<Moment>

/** Kills a process, and waits until the database has finished its statements. */
export const kill = async ({ query }: Shop, { service, wire }: Part) => {
  const backends = wire.backends()
  service.kill("SIGKILL")
  await service.exited
  await query("SELECT pg_advisory_unlock_all()")
  await eventually(() => assert.deepStrictEqual(backends.filter(isRunning), []))
}

/** The running processes. A killed one is replaced. */
interface Parts {
  api: Part
  workers: readonly [Part, Part]
}

/** The running processes, and the ledger of their work. */
export interface Scene extends Parts {
  readonly ledger: Ledger
}

export const openScene = async (databaseUrl: string): Promise<Scene> => {
  const api = await start(databaseUrl, "api")
  const workers = [await start(databaseUrl, "worker"), await start(databaseUrl, "worker")] as const
  const parts: Parts = { api, workers }
  const ledger = await openLedger(databaseUrl, () => parts.api.service)
  await ledger.untilProgress()
  return Object.assign(parts, { ledger })
}

/** Opens one gate on the connections of several processes. It is waiting once all of them are. */
export const holdStatements = (parts: ReadonlyArray<Part>, pattern: RegExp): Gate => {
  const gates = parts.map(({ wire }) => wire.gate(pattern))
  return {
    isWaiting: () => gates.every((gate) => gate.isWaiting()),
    next: () => Promise.race(gates.map((gate) => gate.next())),
    open: () => gates.forEach((gate) => gate.open())
  }
}

/** Stops the claims of workers. Each worker makes one claim at a time, so none is in flight once all are held. */
export const stopClaims = async (workers: ReadonlyArray<Part>): Promise<Gate> => {
  const claims = holdStatements(workers, claim)
  await eventually(() => assert.isTrue(claims.isWaiting()))
  return claims
}

/** Waits until leases have ended for any reason. */
export const finished = ({ shop }: Ledger, ids: ReadonlyArray<string>) =>
  eventually(async () => {
    const leased = new Set(await shop.leased())
    assert.deepStrictEqual(
      ids.filter((id) => leased.has(id)),
      []
    )
  })

/**
 * Waits until nothing is in flight, and stops the claims of these workers. The endpoint rests meanwhile, as a record
 * would wait behind a claim that is held on its connection.
 */
export const retire = async ({ shop }: Ledger, workers: ReadonlyArray<Part>): Promise<Gate> => {
  await shop.rest()
  await eventually(async () => assert.deepStrictEqual(await shop.leased(), []))
  const claims = await stopClaims(workers)
  assert.deepStrictEqual(await shop.leased(), [])
  await shop.resume()
  return claims
}

/** Does the same, and waits until the held claims would find deliveries. */
export const beforeClaim = async (ledger: Ledger, workers: ReadonlyArray<Part>): Promise<Gate> => {
  const claims = await retire(ledger, workers)
  await eventually(async () => assert.isAbove(await ledger.shop.inState("pending"), 0))
  await ledger.shop.age()
  return claims
}

/** Waits for the next delivery that arrives. Neither it nor any later one is answered. */
export const nextHit = ({ receiver }: Ledger) => new Promise<Hit>((resolve) => receiver.answerWith(resolve))

export interface Round {
  /** The process that is killed, and the moment. */
  readonly kills: string
  readonly run: (scene: Scene) => Promise<void>
}

/** Fails after 90 s, because some waits have no limit of their own. */
const tooLong = async () => {
  await sleep(90_000, undefined, { ref: false })
  throw new Error("The round took longer than 90 s")
}

/** Runs all rounds over one ledger, and returns its totals. */
export const runAll = async (databaseUrl: string, rounds: ReadonlyArray<Round>) => {
  const scene = await openScene(databaseUrl)
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
