/**
 * `bench capacity`: what each kind of work costs the processes and PostgreSQL, and what machines hold by these costs
 * (`capacity/Plan.ts`).
 *
 * Costs are CPU times, bytes and counts, so they hardly depend on other work of the machine. Each kind of work is done alone,
 * by callers that wait for each answer; a rate that no caller waits for groups more commands into a commit and costs less.
 */
import type { PgClient } from "@effect/sql-pg"
import { Effect, Record, type Redacted } from "effect"
import { ChildProcess } from "effect/process"
import type { SqlError } from "effect/sql"
import { Command, Flag } from "effect/cli"
import { randomUUID } from "node:crypto"
import { json } from "../../src/cli/Flags.ts"
import { answer } from "../../src/cli/Output.ts"
import { ProjectId } from "../../src/api/schema/Ids.ts"
import { freePort } from "../support/Process.ts"
import { makeProvider, runCampaign, signingSecret } from "./campaigns.ts"
import { type Cost, type Costs, type Mix, reportOf } from "./capacity/Plan.ts"
import { childrenMillis, cpuMillis, parentOf } from "./Cpu.ts"
import { make as makeEndpoints, until } from "./deliveries/Endpoints.ts"
import { open } from "./deliveries/Ours.ts"
import { fixed, median } from "./Figures.ts"
import { count, type Findings, progress } from "./Options.ts"
import { dealId, business, dealCount, projectFile } from "./requests/Seed.ts"
import { BenchFailed, connect, database, openProject, service, start } from "./Stage.ts"

export interface Options extends Mix {
  readonly rounds: number
  /** Pieces of work in a round. */
  readonly work: number
}

export const usual: Options = { rounds: 3, work: 3_000, gets: 4, lists: 1, deliveries: 1, messages: 0.1 }

/** Requests in flight. */
const callers = 64
/** Maximum rate of a campaign: the contract has none higher. */
const sendsPerMinute = 60_000
const plenty = { limit: 1_000_000_000, windowSeconds: 60 }
/** No checkpoint but those of the measurement. */
const flags = { checkpoint_timeout: "1h", max_wal_size: "16GB" }

const conversationId = "019f86b3-c000-7c2a-8f1d-4e5b6a798081"
const root = "/api/v1/developer"

/** Sends requests, `callers` at a time; `request` returns the path and the body, if any, of the nth one. */
const send = (
  url: string,
  token: string,
  work: number,
  request: (n: number) => { readonly path: string; readonly body?: object }
) =>
  Effect.tryPromise({
    try: async () => {
      let sent = 0
      const caller = async () => {
        while (sent < work) {
          const { body, path } = request(sent++)
          const answered = await fetch(url + root + path, {
            method: body === undefined ? "GET" : "POST",
            headers: {
              authorization: `Bearer ${token}`,
              ...(body === undefined
                ? {}
                : { "content-type": "application/json", "idempotency-key": `bench-${randomUUID()}` })
            },
            ...(body === undefined ? {} : { body: JSON.stringify(body) })
          })
          const text = await answered.text()
          if (!answered.ok) throw new Error(`${path}: ${answered.status} ${text.slice(0, 500)}`)
        }
      }
      await Promise.all(Array.from({ length: callers }, caller))
    },
    catch: (cause) => new BenchFailed({ message: String(cause) })
  })

/** What is read before and after the work. */
const readings = Effect.fnUntraced(function* (sql: PgClient.PgClient, postmaster: number, api: number, worker: number) {
  const tables = yield* sql<{ readonly name: string; readonly bytes: number }>`
    SELECT relname AS name, pg_total_relation_size(oid)::float8 AS bytes FROM pg_class
    WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace`
  const [state] = yield* sql<{ readonly wal: number; readonly xids: number }>`
    SELECT (pg_current_wal_insert_lsn() - '0/0')::float8 AS wal,
      pg_snapshot_xmax(pg_current_snapshot())::text::float8 AS xids`
  return {
    api: cpuMillis(api) * 1_000,
    worker: cpuMillis(worker) * 1_000,
    postgres: childrenMillis(postmaster) * 1_000,
    wal: state?.wal ?? Number.NaN,
    xids: state?.xids ?? Number.NaN,
    stored: Object.fromEntries(tables.map(({ bytes, name }) => [name, bytes]))
  }
})

type Readings = Effect.Success<ReturnType<typeof readings>>

/** Returns the cost of each piece of the work between two readings. */
const perPiece = (from: Readings, to: Readings, work: number) => ({
  api: (to.api - from.api) / work,
  worker: (to.worker - from.worker) / work,
  postgres: (to.postgres - from.postgres) / work,
  wal: (to.wal - from.wal) / work,
  walAfterCheckpoint: Number.NaN,
  xids: (to.xids - from.xids) / work,
  stored: Record.map(to.stored, (bytes, table) => (bytes - (from.stored[table] ?? 0)) / work)
})

const mediansOf = (costs: ReadonlyArray<Cost>, walAfterCheckpoint: number): Cost => {
  const middle = (of: (cost: Cost) => number) => median(costs.map(of))
  return {
    api: middle(({ api }) => api),
    worker: middle(({ worker }) => worker),
    postgres: middle(({ postgres }) => postgres),
    wal: middle(({ wal }) => wal),
    walAfterCheckpoint,
    xids: middle(({ xids }) => xids),
    stored: Record.map(costs[0]?.stored ?? {}, (_, table) => middle(({ stored }) => stored[table] ?? 0))
  }
}

/** Measures the median time of a commit that waits for the disk, without anything to execute. */
const flush = Effect.fnUntraced(function* (sql: PgClient.PgClient) {
  const times: Array<number> = []
  for (let n = 0; n < 200; n++) {
    const from = performance.now()
    yield* sql`SELECT pg_logical_emit_message(true, 'bench', 'x')::text`
    times.push(performance.now() - from)
  }
  return median(times)
})

/** Measures the CPU time of Redis for the rate limit of a request, in microseconds; NaN where Redis is not installed. */
const costOfLimit = Effect.fnUntraced(
  function* (url: Redacted.Redacted, token: string, work: number) {
    const port = yield* Effect.promise(freePort)
    const flags = ["--port", String(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    const redis = yield* ChildProcess.make("redis-server", flags, { stdin: "ignore", stdout: "ignore" })
    yield* Effect.sleep("1 second")
    const api = yield* start(service("api with Redis", { role: "api" }), url, {
      REDIS_URL: `redis://127.0.0.1:${port}`
    })
    const get = send(api.url, token, work, (n) => ({ path: `/crm/deals/${dealId(n % dealCount)}` }))
    yield* get
    const before = cpuMillis(redis.pid)
    yield* get
    return ((cpuMillis(redis.pid) - before) * 1_000) / work
  },
  Effect.scoped,
  Effect.catchTag("PlatformError", () => Effect.succeed(Number.NaN))
)

export const measure = Effect.fnUntraced(function* ({ rounds, work, ...mix }: Options) {
  yield* progress("starting PostgreSQL and the service")
  const url = yield* database(flags)
  const sql = yield* connect(url)
  const [backend] = yield* sql<{ readonly pid: number }>`SELECT pg_backend_pid() AS pid`
  const postmaster = parentOf(backend?.pid ?? 0)
  const { url: providerUrl } = yield* makeProvider(false)
  const endpoints = yield* makeEndpoints(url, 20)

  const token = yield* openProject(sql, projectFile())
  const subscribed = yield* open(sql, ProjectId.make("subscribed"), endpoints.urls.slice(0, 1), { subscribed: 1 })
  const messages = yield* openProject(sql, {
    project: { id: "messages", name: "Messages", rateLimits: { read: plenty, write: plenty, messages: plenty } },
    channels: [{ id: "chat", providerType: "http", displayName: "Chat", config: { url: providerUrl, signingSecret } }],
    conversations: [{ id: conversationId, channelId: "chat", address: "ada" }]
  })
  yield* sql`VACUUM ANALYZE`
  const env = { WEBHOOK_ALLOWED_NETWORKS: "127.0.0.0/8", WEBHOOK_ENDPOINT_CONCURRENCY: "32" }
  const api = yield* start(service("api", { role: "api" }), url, env)
  const worker = yield* start(service("worker", { role: "worker" }), url, env)

  const none = (question: Effect.Effect<ReadonlyArray<unknown>, unknown>) =>
    until("work is left", Effect.orDie(question), (rows) => rows.length === 0)
  const delivered = none(sql`
    SELECT FROM deliveries WHERE project_id = 'subscribed' AND finished_at IS NULL
    ORDER BY installation_id, available_at, id LIMIT 1`)
  const message = {
    path: `/messaging/conversations/${conversationId}/messages`,
    body: { text: "Your order has left our house today." }
  }
  const write = send(api.url, token, work, (n) => ({ path: "/crm/deals", body: business(n) }))
  const writeDelivered = Effect.andThen(
    send(api.url, subscribed, work, (n) => ({ path: "/crm/deals", body: { title: business(n).title } })),
    delivered
  )
  let campaigns = 0
  const makeCampaign = Effect.suspend(() =>
    runCampaign(sql, `campaign_${campaigns++}`, { url: providerUrl, sends: work, sendsPerMinute, status: "paused" })
  )
  const runCampaigns = Effect.andThen(
    sql`UPDATE campaigns SET status = 'running', paused_from = NULL WHERE status = 'paused'`,
    none(sql`SELECT FROM campaigns WHERE status = 'running'`)
  )

  /** Measures one kind of work. */
  const costOf = Effect.fnUntraced(function* <E, F>(
    name: string,
    run: Effect.Effect<unknown, E>,
    prepare: Effect.Effect<unknown, F> = Effect.void
  ) {
    const round = Effect.fnUntraced(function* (before: Effect.Effect<unknown, SqlError.SqlError>) {
      yield* prepare
      yield* before
      const from = yield* readings(sql, postmaster, api.pid, worker.pid)
      yield* run
      return perPiece(from, yield* readings(sql, postmaster, api.pid, worker.pid), work)
    })
    // The first round warms up.
    yield* round(Effect.void)
    const costs: Array<Cost> = []
    for (let n = 0; n < rounds; n++) costs.push(yield* round(Effect.void))
    const { wal } = yield* round(sql`CHECKPOINT`)
    const cost = mediansOf(costs, wal)
    yield* progress(
      `capacity: ${name}: ${fixed(cost.api + cost.worker, 0)} µs of processes, ${fixed(cost.postgres, 0)} of PostgreSQL`
    )
    return cost
  })

  const costs: Costs = {
    get: yield* costOf(
      "get",
      send(api.url, token, work, (n) => ({ path: `/crm/deals/${dealId(n % dealCount)}` }))
    ),
    "list of 50": yield* costOf(
      "list of 50",
      send(api.url, token, work, () => ({ path: "/crm/deals?limit=50" }))
    ),
    write: yield* costOf("write", write),
    "write with a delivery": yield* costOf("write with a delivery", writeDelivered),
    message: yield* costOf(
      "message",
      send(api.url, messages, work, () => message)
    ),
    "campaign message": yield* costOf("campaign message", runCampaigns, makeCampaign)
  }
  const report = reportOf(costs, mix, {
    flushMillis: yield* flush(sql),
    limitMicros: yield* costOfLimit(url, token, work)
  })
  const findings: Findings = {
    document: { settings: { rounds, work, callers, node: process.version }, ...report.document },
    text: report.text
  }
  return findings
}, Effect.scoped)

const times = (name: string, usual: number, what: string) =>
  Flag.Finite(name).pipe(
    Flag.filter(
      (value) => value >= 0,
      (value) => `${value} is below 0`
    ),
    Flag.withDefault(usual),
    Flag.withDescription(`${what} for each write; ${usual} if not given`)
  )

export const command = Command.make(
  "capacity",
  {
    json,
    rounds: count("rounds", usual.rounds, "Rounds of each kind of work"),
    work: count("work", usual.work, "Pieces of work in a round"),
    gets: times("gets", usual.gets, "Reads of one record"),
    lists: times("lists", usual.lists, "Lists of 50"),
    deliveries: times("deliveries", usual.deliveries, "Deliveries"),
    messages: times("messages", usual.messages, "Messages")
  },
  Effect.fnUntraced(function* ({ json, ...options }) {
    const { document, text } = yield* measure(options)
    yield* answer(json, document, text)
  })
).pipe(Command.withDescription("What each kind of work costs, and what machines of 4, 16 and 64 cores hold"))
