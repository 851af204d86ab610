/**
 * The arithmetic of `bench capacity`: what machines hold, and what a rate of writes needs, computed from the cost of each kind
 * of work. CPU time is taken to grow in proportion with the work. What does not is named in deploy/SCALING.md.
 */
import { Duration, Record } from "effect"
import { table } from "../../../src/cli/Output.ts"
import { retentionDays } from "../../../src/integrations/deliveries/DeliveryMaintenance/Prune.ts"
import { defaultConnections } from "../../../src/platform/Pools.ts"
import { fixed, round } from "../Figures.ts"

/** What one piece of work costs. CPU times are in microseconds. */
export interface Cost {
  readonly api: number
  readonly worker: number
  readonly postgres: number
  /** Bytes of the write-ahead log without and with the pages that it contains whole after a checkpoint. */
  readonly wal: number
  readonly walAfterCheckpoint: number
  /** Transaction ids. */
  readonly xids: number
  /** Bytes on disk, indexes included, by the table that they are in. */
  readonly stored: Readonly<Record<string, number>>
}

/** The measured kinds of work. */
export const kinds = ["get", "list of 50", "write", "write with a delivery", "message", "campaign message"] as const
export type Costs = Readonly<Record<(typeof kinds)[number], Cost>>

/** How much of each kind of work comes with a write. */
export interface Mix {
  readonly gets: number
  readonly lists: number
  readonly deliveries: number
  readonly messages: number
}

/** Part of a CPU that is planned for: the rest is for peaks, vacuum and the failure of a replica. */
export const planned = 0.7
const coresOfMachines = [4, 16, 64]
const rates = [100, 1_000, 10_000]
/** Transaction ids after which PostgreSQL freezes a table whatever else happens: its default of `autovacuum_freeze_max_age`. */
const freezeAge = 200_000_000

const day = Duration.toSeconds(Duration.days(1))
/** Retentions in days by table, as the settings have them by default; records are kept. */
const keptDays: Readonly<Record<string, number>> = {
  idempotency_keys: 7,
  events: retentionDays,
  deliveries: retentionDays,
  messages: 90
}

const sum = (values: ReadonlyArray<number>) => values.reduce((total, value) => total + value, 0)

/** The cost of what is in `whole` and not in `part`. */
const beyond = (whole: Cost, part: Cost): Cost => ({
  api: whole.api - part.api,
  worker: whole.worker - part.worker,
  postgres: whole.postgres - part.postgres,
  wal: whole.wal - part.wal,
  walAfterCheckpoint: whole.walAfterCheckpoint - part.walAfterCheckpoint,
  xids: whole.xids - part.xids,
  stored: Record.map(whole.stored, (bytes, name) => bytes - (part.stored[name] ?? 0))
})

/** The work that comes with one write, and how much of it. */
const workOf = (costs: Costs, { deliveries, gets, lists, messages }: Mix): ReadonlyArray<readonly [Cost, number]> => [
  [costs.write, 1],
  [costs.get, gets],
  [costs["list of 50"], lists],
  [beyond(costs["write with a delivery"], costs.write), deliveries],
  [costs.message, messages]
]

/** What one write costs with all that comes with it. */
export const together = (costs: Costs, mix: Mix): Cost => {
  const work = workOf(costs, mix)
  const total = (of: (cost: Cost) => number) => sum(work.map(([cost, times]) => of(cost) * times))
  const tables = new Set(work.flatMap(([{ stored }]) => Object.keys(stored)))
  return {
    api: total(({ api }) => api),
    worker: total(({ worker }) => worker),
    postgres: total(({ postgres }) => postgres),
    wal: total(({ wal }) => wal),
    walAfterCheckpoint: total(({ walAfterCheckpoint }) => walAfterCheckpoint),
    xids: total(({ xids }) => xids),
    stored: Object.fromEntries([...tables].map((name) => [name, total(({ stored }) => stored[name] ?? 0)]))
  }
}

/** Number of cores, or of processes with one thread, that a rate of work needs. */
const coresFor = (rate: number, micros: number) => (rate * micros) / 1_000_000 / planned

export interface Need {
  readonly writesPerSecond: number
  readonly requestsPerSecond: number
  readonly postgresCores: number
  readonly apis: number
  readonly workers: number
  readonly connections: number
  readonly walMegabytesPerSecond: number
  /** Hours until a table is frozen by its age. */
  readonly hoursToFreeze: number
  /** Gigabytes that are added a day to what is kept for ever, and gigabytes of what is removed after its retention. */
  readonly recordsPerDay: number
  readonly retained: Readonly<Record<string, number>>
}

export const needOf = (costs: Costs, mix: Mix, writesPerSecond: number): Need => {
  const cost = together(costs, mix)
  const apis = Math.ceil(coresFor(writesPerSecond, cost.api))
  const workers = Math.ceil(coresFor(writesPerSecond, cost.worker))
  const gigabytesPerDay = Record.map(cost.stored, (bytes) => (bytes * writesPerSecond * day) / 1e9)
  const [records, retained] = [
    Object.entries(gigabytesPerDay).filter(([name]) => keptDays[name] === undefined),
    Object.entries(gigabytesPerDay).flatMap(([name, gigabytes]) => {
      const days = keptDays[name]
      return days === undefined ? [] : [[name, gigabytes * days] as const]
    })
  ]
  return {
    writesPerSecond,
    requestsPerSecond: writesPerSecond * (1 + mix.gets + mix.lists + mix.messages),
    postgresCores: coresFor(writesPerSecond, cost.postgres),
    apis,
    workers,
    connections: (apis + workers) * defaultConnections,
    walMegabytesPerSecond: (writesPerSecond * cost.wal) / 1e6,
    hoursToFreeze: freezeAge / (writesPerSecond * cost.xids) / 3_600,
    recordsPerDay: sum(records.map(([, gigabytes]) => gigabytes)),
    retained: Object.fromEntries(retained)
  }
}

/** The writes a second that the cores of a PostgreSQL hold. */
export const writesOf = (costs: Costs, mix: Mix, cores: number) =>
  (cores * planned * 1_000_000) / together(costs, mix).postgres

const amount = (value: number) => fixed(value, value < 10 ? 1 : 0)

const needRows = (needs: ReadonlyArray<Need>): ReadonlyArray<ReadonlyArray<string>> => {
  const row = (title: string, of: (need: Need) => number) => [title, ...needs.map((need) => amount(of(need)))]
  return [
    row("writes a second", (need) => need.writesPerSecond),
    row("requests a second", (need) => need.requestsPerSecond),
    row("cores of PostgreSQL", (need) => need.postgresCores),
    row("api processes", (need) => need.apis),
    row("workers", (need) => need.workers),
    row("connections", (need) => need.connections),
    row("WAL, MB/s", (need) => need.walMegabytesPerSecond),
    row("hours to freeze", (need) => need.hoursToFreeze),
    row("records, GB a day", (need) => need.recordsPerDay),
    ...Object.keys(needs[0]?.retained ?? {}).map((name) =>
      row(`${name}, GB kept`, (need) => need.retained[name] ?? Number.NaN)
    )
  ]
}

/** What is measured besides. */
interface Others {
  /** Time of a commit that waits for the disk. */
  readonly flushMillis: number
  /** CPU time of Redis for a request. */
  readonly limitMicros: number
}

/** The report as JSON and as text. */
export const reportOf = (costs: Costs, mix: Mix, { flushMillis, limitMicros }: Others) => {
  const machines = coresOfMachines.map((cores) => ({ cores, need: needOf(costs, mix, writesOf(costs, mix, cores)) }))
  const needs = rates.map((rate) => needOf(costs, mix, rate))
  const storedBytes = ({ stored }: Cost) => sum(Object.values(stored))
  return {
    document: {
      costs: Record.map(costs, ({ stored, ...cost }) => ({
        ...Record.map(cost, round),
        stored: Record.map(stored, round)
      })),
      mix,
      planned,
      flushMillis: round(flushMillis),
      limitMicros: round(limitMicros),
      machines,
      needs
    },
    text: [
      table([
        ["COST OF A", "API, µs", "WORKER, µs", "POSTGRESQL, µs", "WAL, B", "AFTER CHECKPOINT", "STORED, B", "XIDS"],
        ...kinds.map((kind) => {
          const cost = costs[kind]
          return [
            kind,
            fixed(cost.api, 0),
            fixed(cost.worker, 0),
            fixed(cost.postgres, 0),
            fixed(cost.wal, 0),
            fixed(cost.walAfterCheckpoint, 0),
            fixed(storedBytes(cost), 0),
            fixed(cost.xids, 2)
          ]
        })
      ]),
      `a commit that waits for the disk: ${fixed(flushMillis, 1)} ms; the limit of a request in Redis: ${fixed(limitMicros, 0)} µs`,
      table([
        ["CORES OF POSTGRESQL", ...machines.map(({ cores }) => String(cores))],
        ...needRows(machines.map(({ need }) => need)).filter(([title]) => title !== "cores of PostgreSQL")
      ]),
      table([["NEEDS", ...rates.map((rate) => `${rate}/s`)], ...needRows(needs)])
    ].join("\n\n")
  }
}
