/** All processes of a deployment, each of which can be killed and started again. */
import { assert } from "@effect/vitest"
import { readFile } from "node:fs/promises"
import { setTimeout as sleep } from "node:timers/promises"
import { settings } from "../webhooks/delivery/Deliveries.support.ts"
import { type Service, startService } from "../support/Process.ts"
import { eventually } from "../support/Waiting.ts"
import { startCluster } from "./Cluster.support.ts"
import { serviceEnv } from "./Projects.support.ts"
import { makeRedis } from "./Redis.support.ts"
import { send } from "./Requests.support.ts"
import { headerValue } from "./Mix.project.support.ts"
import { secrets as ofProviders } from "./Providers.support.ts"

const processes = { "api-1": "api", "api-2": "api", "worker-1": "worker", "worker-2": "worker" } as const
type Process = keyof typeof processes
const processNames = ["api-1", "api-2", "worker-1", "worker-2"] as const satisfies ReadonlyArray<Process>

export const partNames = [...processNames, "postgres", "redis"] as const
export type PartName = (typeof partNames)[number]

interface Part {
  readonly kill: () => Promise<unknown>
  readonly start: () => Promise<unknown>
}

/** A round: the parts that are killed, each with the milliseconds from the start of the round. */
export type Round = ReadonlyArray<readonly [part: PartName, millis: number]>

/** Starts two APIs and two workers on a new PostgreSQL and a new Redis. */
export const startParts = async (
  settingsOfTest: Readonly<Record<string, string>> = {},
  names: ReadonlyArray<Process> = processNames
) => {
  const cluster = await startCluster()
  const redis = await makeRedis()
  await redis.start()
  const env = {
    ...serviceEnv(cluster.url),
    ...settings,
    REDIS_URL: redis.url,
    DATABASE_MAX_CONNECTIONS: "12",
    // Limits a call whose caller is gone.
    PROVIDER_TIMEOUT: "2s",
    ...settingsOfTest
  }
  const running = new Map<Process, Service>()
  const ended: Array<Service> = []
  const start = async (name: Process) => {
    // A process that finds no database exits, and is started again, as by any supervisor.
    running.set(name, await eventually(() => startService({ env, args: ["--role", processes[name]] })))
  }
  const partOf = (name: Process): Part => ({
    kill: async () => {
      const service = running.get(name) ?? assert.fail(`${name} does not run`)
      service.kill("SIGKILL")
      ended.push(service)
      await service.exited
    },
    start: () => start(name)
  })
  const parts: Readonly<Record<PartName, Part>> = {
    "api-1": partOf("api-1"),
    "api-2": partOf("api-2"),
    "worker-1": partOf("worker-1"),
    "worker-2": partOf("worker-2"),
    postgres: cluster,
    redis
  }
  await Promise.all(names.map(start))
  const apis = names.filter((name) => processes[name] === "api")
  const services = () => [...running.values()]
  let turn = 0
  return {
    databaseUrl: cluster.url,
    env,
    /** Returns the APIs in turn, whether they run or not. */
    api: () => running.get(apis[turn++ % apis.length] ?? "api-1") ?? assert.fail("No API has started"),
    /** Returns the output of all processes, including killed ones, and the log of PostgreSQL. */
    printed: async () => {
      const texts = [...ended, ...services()].map((service) => service.stdout() + service.stderr())
      return [...texts, await readFile(cluster.log, "utf8")].join("\n")
    },
    /** Kills the parts of a round, each at its time, then starts all of them again. */
    run: async (round: Round) => {
      await Promise.all(round.map(([name, millis]) => sleep(millis).then(parts[name].kill)))
      await Promise.all(round.map(([name]) => parts[name].start()))
    },
    areReady: () =>
      eventually(async () => {
        for (const { url } of services()) assert.strictEqual((await send(`${url}/readyz`)).status, 200)
      })
  }
}

/** Returns the secrets that every service of a test has. */
export const givenSecrets = (databaseUrl: string): ReadonlyArray<readonly [string, string]> => [
  ["SECRET_KEY", serviceEnv(databaseUrl).SECRET_KEY],
  ["the password of the database", decodeURIComponent(new URL(databaseUrl).password)],
  ["the signing secret of a channel", ofProviders.signingSecret],
  ["the token of a bot", ofProviders.token],
  ["the value of a header", headerValue]
]

/** Returns every row of every table as text; binary columns are in hex. */
export const dump = async (query: (text: string) => Promise<ReadonlyArray<Record<string, unknown>>>) => {
  const tables = await query(`
    SELECT c.oid::regclass::text AS name FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
    WHERE relkind IN ('r', 'm') AND nspname NOT LIKE 'pg\\_%' AND nspname <> 'information_schema' ORDER BY 1`)
  const texts = new Map<string, string>()
  for (const { name } of tables) {
    const [row] = await query(`SELECT coalesce(string_agg(t::text, E'\\n'), '') AS text FROM ${String(name)} AS t`)
    texts.set(String(name), String(row?.["text"]))
  }
  return texts
}
