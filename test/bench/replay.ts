/** `bench replay`: latency of live events alone, and during a long replay to the same endpoint. */
import type { PgClient } from "@effect/sql-pg"
import { Effect, Layer, Schedule } from "effect"
import { Command } from "effect/cli"
import { SqlClient } from "effect/sql"
import { randomUUID } from "node:crypto"
import { createServer } from "node:http"
import { json } from "../../src/cli/Flags.ts"
import { answer, table } from "../../src/cli/Output.ts"
import { cancelReplay, startReplay } from "../../src/integrations/deliveries/Replays.ts"
import { Operator } from "../../src/platform/operators/Audit.ts"
import { open } from "./deliveries/Ours.ts"
import { installationId, projectId } from "./deliveries/Work.ts"
import { fixed, median, quantile, ranged, round, spread } from "./Figures.ts"
import { count, type Findings, progress } from "./Options.ts"
import { BenchFailed, connect, database, type Running, service, start } from "./Stage.ts"
import { store } from "./Stored.ts"

export interface Options {
  readonly rounds: number
  /** Stored events that are replayed. */
  readonly stored: number
  /** Live events of a round. */
  readonly events: number
  /** Maximum rate of the replay, in deliveries per second. */
  readonly pace: number
}

export const usual: Options = { rounds: 5, stored: 100_000, events: 500, pace: 50 }

/** Milliseconds from one live event to the next, and delay of the endpoint's answers. */
const every = 20
const answersAfter = 5

/** Starts an endpoint that records the time of each arrival and the time of its event. */
const endpoint = Effect.acquireRelease(
  Effect.callback<{
    readonly url: string
    readonly hits: Array<readonly [number, number]>
    readonly close: () => void
  }>((resume) => {
    const hits: Array<readonly [number, number]> = []
    const server = createServer((request, response) => {
      let body = ""
      const at = Date.now()
      request.setEncoding("utf8").on("data", (chunk: string) => (body += chunk))
      request.on("end", () => {
        hits.push([at, Date.parse(/"timestamp":"([^"]+)"/.exec(body)?.[1] ?? "")])
        setTimeout(() => response.end(), answersAfter)
      })
    }).listen(0, "127.0.0.1", () => {
      const address = server.address()
      const port = typeof address === "object" && address !== null ? address.port : 0
      resume(Effect.succeed({ url: `http://127.0.0.1:${port}/`, hits, close: () => void server.close() }))
    })
  }),
  ({ close }) => Effect.sync(close)
)
type Endpoint = Effect.Success<typeof endpoint>

const createDeal = ({ url }: Running, token: string) =>
  Effect.promise(async () => {
    const headers = {
      authorization: `Bearer ${token}`,
      "content-type": "application/json",
      "idempotency-key": randomUUID()
    }
    const made = await fetch(`${url}/api/v1/developer/crm/deals`, { method: "POST", headers, body: '{"title":"Live"}' })
    await made.arrayBuffer()
  })

/** Creates deals at a fixed rate; returns quantiles of the milliseconds from a live event to its arrival. */
const flow = Effect.fnUntraced(function* (server: Running, token: string, { hits }: Endpoint, events: number) {
  const from = Date.now()
  for (let n = 0; n < events; n++) {
    yield* Effect.forkChild(createDeal(server, token))
    yield* Effect.sleep(every)
  }
  yield* Effect.sleep("1 second")
  const delays = hits.filter(([, happened]) => happened >= from).map(([at, happened]) => at - happened)
  if (delays.length !== events) return yield* new BenchFailed({ message: `${delays.length} of ${events} came` })
  return { p50: quantile(delays, 0.5), p95: quantile(delays, 0.95) }
})

/** Returns the age of the oldest transaction of the service, in milliseconds. */
const oldest = (sql: PgClient.PgClient) => sql<{ readonly millis: number }>`
  SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start) * 1000), 0)::float8 AS millis
  FROM pg_stat_activity WHERE application_name LIKE 'developer-api%' AND state <> 'idle'`

export const measure = Effect.fnUntraced(function* ({ events, pace, rounds, stored }: Options) {
  yield* progress("starting PostgreSQL and the service")
  const url = yield* database({})
  const sql = yield* connect(url)
  const watcher = yield* connect(url)
  const to = yield* endpoint
  const token = yield* open(sql, projectId, [to.url], { subscribed: 1 })
  yield* store(sql, { projectId, count: stored, days: 28, installations: 1, deadEvery: 2 })
  const server = yield* start(service("ours"), url, { WEBHOOK_ALLOWED_NETWORKS: "127.0.0.0/8" })
  const operate = Effect.provide(
    Layer.merge(Layer.succeed(SqlClient.SqlClient, sql), Layer.succeed(Operator, { actor: "bench" }))
  )
  const live = flow(server, token, to, events)
  yield* live

  let longest = 0
  const alone: Array<{ readonly p50: number; readonly p95: number }> = []
  const beside: Array<{ readonly p50: number; readonly p95: number }> = []
  const speeds: Array<number> = []
  // Sampled in the rounds without a replay, too, so that its cost is the same in both.
  yield* oldest(watcher).pipe(
    Effect.map(([row]) => (longest = Math.max(longest, row?.millis ?? 0))),
    Effect.repeat(Schedule.spaced("50 millis")),
    Effect.forkScoped
  )
  for (let n = 0; n < rounds; n++) {
    alone.push(yield* live)
    const now = Date.now()
    const { matched, replayId } = yield* startReplay({
      projectId,
      installationId: installationId(0),
      since: new Date(now - 40 * 86_400_000),
      until: new Date(now),
      eventTypes: [],
      filter: "all",
      pace,
      dryRun: false
    }).pipe(operate)
    yield* Effect.sleep("1500 millis")
    const before = { at: Date.now(), hits: to.hits.length }
    beside.push(yield* live)
    speeds.push(((to.hits.length - before.hits - events) * 1000) / (Date.now() - before.at))
    yield* cancelReplay(projectId, replayId ?? "").pipe(operate)
    yield* Effect.sleep("1 second")
    yield* progress(`replay: ${matched} matched, p95 ${beside[n]?.p95} ms beside, ${alone[n]?.p95} ms alone`)
  }
  const of = (flows: typeof alone, q: "p50" | "p95") => flows.map((one) => one[q])
  const ratios = beside.map(({ p95 }, n) => p95 / (alone[n]?.p95 ?? Number.NaN))
  const head = ["LIVE EVENTS", "P50 MS", "P95 MS"]
  const lines = [
    ["alone", ranged(of(alone, "p50"), 1), ranged(of(alone, "p95"), 1)],
    ["beside a replay", ranged(of(beside, "p50"), 1), ranged(of(beside, "p95"), 1)]
  ]
  const findings: Findings = {
    document: {
      settings: { events, pace, rounds, stored, node: process.version },
      alone: { p50: spread(of(alone, "p50")), p95: spread(of(alone, "p95")) },
      beside: { p50: spread(of(beside, "p50")), p95: spread(of(beside, "p95")) },
      ratio: spread(ratios),
      replayedPerSecond: spread(speeds),
      longestTransactionMillis: round(longest)
    },
    text: `${table([head, ...lines])}\n\np95 ${ranged(ratios, 2)} times, ${fixed(median(speeds), 0)} replayed a second, longest transaction ${fixed(longest, 0)} ms`
  }
  return findings
}, Effect.scoped)

export const command = Command.make(
  "replay",
  {
    json,
    rounds: count("rounds", usual.rounds, "Rounds, each with a replay and without"),
    stored: count("stored", usual.stored, "Stored events that are replayed"),
    events: count("events", usual.events, "Live events of a round"),
    pace: count("pace", usual.pace, "Deliveries of the replay per second")
  },
  Effect.fnUntraced(function* ({ json, ...options }) {
    const { document, text } = yield* measure(options)
    yield* answer(json, document, text)
  })
).pipe(Command.withDescription("How soon live events come while 100,000 stored ones are replayed to the same endpoint"))
