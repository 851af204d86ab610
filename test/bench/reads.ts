/**
 * `bench reads`: lists of deliveries at every depth and with every filter, at one installation with a million deliveries, and the
 * CPU time of reading one record of each kind.
 */
import { Effect } from "effect"
import { Command } from "effect/cli"
import { json } from "../../src/cli/Flags.ts"
import { answer, table } from "../../src/cli/Output.ts"
import { childrenMillis, cpuMillis, parentOf } from "./Cpu.ts"
import { open } from "./deliveries/Ours.ts"
import { eventType, installationId, projectId } from "./deliveries/Work.ts"
import { fixed, median, ranged, round, spread } from "./Figures.ts"
import { count, type Findings, progress } from "./Options.ts"
import { BenchFailed, connect, database, type Running, service, start } from "./Stage.ts"
import { store } from "./Stored.ts"

export interface Options {
  readonly deliveries: number
  readonly rounds: number
}

export const usual: Options = { deliveries: 1_000_000, rounds: 7 }

const pageSize = 100
/** Requests of one round, and those of them in flight at once. */
const requests = 3_000
const connections = 32

const root = "/api/v1/developer"
const list = `${root}/integrations/${installationId(0)}/outbound-webhook/deliveries`

const filters = {
  all: "",
  delivered: "&status=delivered",
  dead: "&status=dead",
  "of a type": `&eventType=${eventType}`,
  "dead, of a type": `&status=dead&eventType=${eventType}`
}

/** Reads a URL whole; returns the body, its size in bytes and the milliseconds that it took. */
const read = (server: Running, token: string) => async (path: string) => {
  const from = performance.now()
  const answered = await fetch(server.url + path, { headers: { authorization: `Bearer ${token}` } })
  const text = await answered.text()
  if (answered.status !== 200) throw new BenchFailed({ message: `${path}: ${answered.status} ${text.slice(0, 500)}` })
  return { text, bytes: Buffer.byteLength(text), millis: performance.now() - from }
}
type Read = ReturnType<typeof read>

const nextOf = (text: string): string | null => {
  const page: { readonly nextCursor: string | null } = JSON.parse(text)
  return page.nextCursor
}

/** Walks a list to its end; returns the path of its last full page and the number of its pages. */
const walk = async (get: Read, path: string) => {
  let last = path
  let pages = 0
  for (let at: string | null = path; at !== null; pages++) {
    const cursor = nextOf((await get(at)).text)
    if (cursor !== null) last = at
    at = cursor === null ? null : `${path}&cursor=${encodeURIComponent(cursor)}`
  }
  return { last, pages }
}

/** Reads a path many times at once; returns the CPU time of a request in microseconds, and the bytes of its body. */
const cost = async (get: Read, path: string, server: Running, postmaster: number) => {
  const { bytes } = await get(path)
  const own = cpuMillis(server.pid)
  const postgres = childrenMillis(postmaster)
  let left = requests
  const caller = async () => {
    while (left-- > 0) await get(path)
  }
  await Promise.all(Array.from({ length: connections }, caller))
  const micros = (from: number, to: number) => ((to - from) * 1_000) / requests
  return { bytes, own: micros(own, cpuMillis(server.pid)), postgres: micros(postgres, childrenMillis(postmaster)) }
}

export const measure = Effect.fnUntraced(function* ({ deliveries, rounds }: Options) {
  yield* progress("starting PostgreSQL and the service")
  const url = yield* database({})
  const sql = yield* connect(url)
  const token = yield* open(sql, projectId, ["http://127.0.0.1:9/"], { subscribed: 0 })
  yield* progress(`storing ${deliveries} deliveries`)
  yield* store(sql, { projectId, count: deliveries, days: 28, installations: 1, deadEvery: 10 })
  const [backend] = yield* sql<{ readonly pid: number }>`SELECT pg_backend_pid() AS pid`
  const postmaster = parentOf(backend?.pid ?? 0)
  const server = yield* start(service("ours"), url)
  const get = read(server, token)

  const lists: Array<{ name: string; pages: number; first: Array<number>; last: Array<number> }> = []
  for (const [name, filter] of Object.entries(filters)) {
    const path = `${list}?limit=${pageSize}${filter}`
    const { last, pages } = yield* Effect.promise(() => walk(get, path))
    const found = { name, pages, first: new Array<number>(), last: new Array<number>() }
    // Both pages of a pair at about the same time, in turns.
    for (let pair = 0; pair < rounds * 20; pair++) {
      const order = pair % 2 === 0 ? [path, last] : [last, path]
      for (const at of order)
        (at === path ? found.first : found.last).push((yield* Effect.promise(() => get(at))).millis)
    }
    yield* progress(`reads: ${name}: ${pages} pages`)
    lists.push(found)
  }

  const created = yield* Effect.promise(() =>
    fetch(`${server.url}${root}/crm/deals`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${token}`,
        "content-type": "application/json",
        "idempotency-key": "bench-reads"
      },
      body: JSON.stringify({ title: "Analytical engine", amountMinor: 1_250_000, currency: "EUR" })
    }).then((answered) => answered.text())
  )
  const deal: { readonly resourceId: string } = JSON.parse(created)
  const [delivery] = yield* sql<{ readonly id: string }>`
    SELECT id FROM deliveries WHERE project_id = ${projectId} AND status = 'dead' ORDER BY id LIMIT 1 OFFSET 1000`
  const records = {
    getDeal: `${root}/crm/deals/${deal.resourceId}`,
    getDelivery: `${list}/${delivery?.id}`,
    getWebhook: `${root}/integrations/${installationId(0)}/outbound-webhook`,
    "listDeliveries, 50": `${list}?limit=50`
  }
  const costs = Object.keys(records).map((name) => ({
    name,
    bytes: 0,
    own: new Array<number>(),
    postgres: new Array<number>()
  }))
  for (let n = 0; n <= rounds; n++)
    for (const [i, path] of Object.values(records).entries()) {
      const measured = yield* Effect.promise(() => cost(get, path, server, postmaster))
      const found = costs[i]
      // The first round warms up.
      if (found === undefined || n === 0) continue
      found.bytes = measured.bytes
      found.own.push(measured.own)
      found.postgres.push(measured.postgres)
    }

  const ratios = ({ first, last }: (typeof lists)[number]) => last.map((millis, i) => millis / (first[i] ?? Number.NaN))
  const findings: Findings = {
    document: {
      settings: { deliveries, rounds, pageSize, connections, node: process.version },
      lists: lists.map((one) => ({
        name: one.name,
        pages: one.pages,
        first: spread(one.first),
        last: spread(one.last),
        ratio: round(median(ratios(one)))
      })),
      records: costs.map(({ bytes, name, own, postgres }) => ({
        name,
        bytes,
        own: spread(own),
        postgres: spread(postgres)
      }))
    },
    text: [
      table([
        [`DELIVERIES, ${pageSize} A PAGE`, "PAGES", "FIRST, MS", "LAST, MS", "LAST / FIRST"],
        ...lists.map((one) => [
          one.name,
          String(one.pages),
          fixed(median(one.first), 1),
          fixed(median(one.last), 1),
          fixed(median(ratios(one)), 2)
        ])
      ]),
      table([
        ["OPERATION", "BYTES", "PROCESS, µs", "POSTGRESQL, µs", "BOTH, µs/KB"],
        ...costs.map(({ bytes, name, own, postgres }) => [
          name,
          String(bytes),
          ranged(own, 0),
          ranged(postgres, 0),
          fixed(((median(own) + median(postgres)) * 1024) / bytes, 0)
        ])
      ])
    ].join("\n\n")
  }
  return findings
}, Effect.scoped)

export const command = Command.make(
  "reads",
  {
    json,
    deliveries: count("deliveries", usual.deliveries, "Deliveries of the installation"),
    rounds: count("rounds", usual.rounds, "Rounds of the measurements")
  },
  Effect.fnUntraced(function* ({ json, ...options }) {
    const { document, text } = yield* measure(options)
    yield* answer(json, document, text)
  })
).pipe(
  Command.withDescription("What lists of a million deliveries take at each depth, and what reading a record costs")
)
