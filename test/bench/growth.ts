/**
 * `bench growth`: cost of a create, a claim, a record and retention on a database with millions of deliveries and keys,
 * compared with an almost empty one; and whether a database stops growing once as much is pruned as is added.
 *
 * The service's own statements run in one session for each database. Their cost is the time that PostgreSQL counts as
 * active for the database (`pg_stat_database.active_time`), which excludes the client and vacuum. Commits do not wait for
 * the disk, so its varying speed does not matter.
 */
import type { PgClient } from "@effect/sql-pg"
import { Effect, Option, Redacted } from "effect"
import { Command, Flag } from "effect/cli"
import { randomBytes, randomUUID } from "node:crypto"
import { totalmem } from "node:os"
import { json } from "../../src/cli/Flags.ts"
import { answer, table } from "../../src/cli/Output.ts"
import { DealId } from "../../src/api/schema/Ids.ts"
import { create, type NewDeal } from "../../src/crm/Deals/Create.ts"
import type { DealReferenceNotFound } from "../../src/api/Problems.ts"
import { type Claim, claim } from "../../src/integrations/deliveries/DeliveryLoop/Claim.ts"
import { firstEvent, type LastEvent, pruneEvents } from "../../src/integrations/deliveries/DeliveryMaintenance/Prune.ts"
import { record } from "../../src/integrations/deliveries/DeliveryLoop/Record.ts"
import { prune } from "../../src/platform/background/Retention.ts"
import { pools } from "../../src/platform/Pools.ts"
import { makeGrouped } from "../../src/platform/mutations/Grouped.ts"
import { makeMutationClient } from "../../src/platform/mutations/Mutations.ts"
import { newId } from "../../src/platform/NewId.ts"
import { open } from "./deliveries/Ours.ts"
import { neverFailing, roomsOf } from "../support/Claims.ts"
import { installationId, projectId, traceparent } from "./deliveries/Work.ts"
import { fixed, median, ranged, round, spread } from "./Figures.ts"
import { count, type Findings, progress } from "./Options.ts"
import { anotherDatabase, BenchFailed, connect, database } from "./Stage.ts"
import { append } from "./Stored.ts"

export interface Options {
  /** Deliveries, each with its event, and keys of the full database. */
  readonly rows: number
  readonly rounds: number
  /** Number of days simulated in the growing database. */
  readonly days: number
  /** Directory of the cluster; filled if it is empty. */
  readonly directory: string | undefined
  /** PostgreSQL's `shared_buffers`. A create writes anywhere in the index of keys, so its cost depends on whether this fits. */
  readonly sharedBuffers: string
}

/** A quarter of the machine's memory, as PostgreSQL's documentation recommends ("Resource Consumption"). */
const quarterOfMemory = `${Math.floor(totalmem() / 4 / 2 ** 20)}MB`

export const usual: Options = {
  rows: 1_000_000,
  rounds: 10,
  days: 30,
  directory: undefined,
  sharedBuffers: quarterOfMemory
}

/** Creates per round; each makes a delivery. */
const creates = 1_000
const group = 50
/** Rounds before the first counted one. */
const warming = 2
/** Deliveries in a claim and a record. */
const batch = 100
/** Limit of deliveries in flight to one endpoint, higher than their number. */
const concurrency = 100_000
/** Rows of a day: added and pruned in each round, and on each day of the growing database, which keeps ten days. */
const day = 10_000
const kept = 10
const installations = 10
const deadEvery = 1_000

/** Rounds and simulated days pass a thousand times faster than real days, so autovacuum runs more often, too. */
const flags = { autovacuum_naptime: "1s", max_wal_size: "2GB" }

const tables = ["deliveries", "events", "idempotency_keys"]

const addKeys = Effect.fnUntraced(function* (sql: PgClient.PgClient, rows: number, days: number) {
  const some = 100_000
  for (let from = 0; from < rows; from += some) {
    yield* sql`
      INSERT INTO idempotency_keys (project_id, key, fingerprint, resource_id, changed, version, created_at)
      SELECT ${projectId}::text, gen_random_uuid()::text, sha256(n::text::bytea), 'deal_' || lpad(to_hex(n), 32, '0'), true, 1,
        now() - (${rows}::int - n) * ${days}::int * interval '1 day' / ${rows}::int
      FROM generate_series(${from}::int + 1, ${Math.min(rows, from + some)}::int) n`
  }
})

/** Fills a database with deliveries and keys, all of them within their retention. */
const fill = Effect.fnUntraced(function* (url: Redacted.Redacted, rows: number) {
  const sql = yield* connect(url)
  const urls = Array.from({ length: installations }, () => "http://127.0.0.1:9/")
  yield* open(sql, projectId, urls, { subscribed: 1 })
  const other = yield* connect(url)
  yield* Effect.all(
    [append(sql, { projectId, count: rows, days: 28, installations, deadEvery }), addKeys(other, rows, 6)],
    { concurrency: 2 }
  )
  yield* sql`VACUUM ANALYZE`
}, Effect.scoped)

/** Opens sessions configured as the service's, and one that adds rows. `watcher` is on another database. */
const session = Effect.fnUntraced(function* (url: Redacted.Redacted, watcher: PgClient.PgClient) {
  const name = new URL(Redacted.value(url)).pathname.slice(1)
  const like = ({ session }: { readonly session: Readonly<Record<string, string>> }) =>
    connect(url, { ...session, synchronous_commit: "off" })
  const sql = yield* like(pools.claims)
  const maintenance = yield* like(pools.maintenance)
  const background = yield* like(pools.background)
  const other = yield* connect(url)
  /** Measures a run in a session: PostgreSQL's microseconds per record, for `of` records. */
  const timed = <E, R>(session: PgClient.PgClient, of: number, run: Effect.Effect<unknown, E, R>) =>
    Effect.gen(function* () {
      const active = Effect.gen(function* () {
        yield* session`SELECT pg_stat_force_next_flush()`
        const [row] = yield* watcher<{ readonly millis: number }>`
          SELECT active_time AS millis FROM pg_stat_database WHERE datname = ${name}`
        return row?.millis ?? Number.NaN
      })
      yield* other`SELECT pg_stat_force_next_flush()`
      const before = yield* active
      yield* run
      return (((yield* active) - before) * 1000) / of
    })
  const client = makeMutationClient({ sql, reads: sql, permits: 1 })
  const creating = makeGrouped<NewDeal, DealReferenceNotFound>(client, create(sql))
  // Loads the index of keys into memory, where it is while keys are added.
  yield* other`SELECT set_config('enable_seqscan', 'off', false), set_config('enable_bitmapscan', 'off', false)`
  yield* other`SELECT count(*) FROM idempotency_keys WHERE project_id = ${projectId} AND key > ''`
  yield* other`RESET ALL`
  return { sql, maintenance, background, other, timed, creating }
})
type Session = Effect.Success<ReturnType<typeof session>>

const createDeals = ({ creating }: Session, size: number, times: number) =>
  Effect.replicateEffect(
    Effect.all(
      Array.from({ length: size }, () =>
        Effect.gen(function* () {
          const command = { projectId, key: randomUUID(), fingerprint: randomBytes(32) }
          const id = DealId.make(yield* newId("deal"))
          return yield* creating(command, new Date(), { id, traceparent, title: "Analytical engine" })
        })
      ),
      { concurrency: "unbounded" }
    ),
    times,
    { discard: true }
  )

/** Leases due deliveries and records them as delivered, batch by batch. Returns the microseconds of both per delivery. */
const deliver = Effect.fnUntraced(function* ({ sql, timed }: Session, batches: number) {
  const terms = { workerId: 1n, leaseMillis: 600_000, concurrency, rooms: roomsOf(batch, batch), isPoll: true }
  const named = [{ projectId, installationId: installationId(0), width: concurrency }]
  const times = { claim: 0, record: 0 }
  for (let n = 0; n < batches; n++) {
    let claims: ReadonlyArray<Claim> = []
    times.claim += yield* timed(
      sql,
      batch * batches,
      Effect.map(claim(sql, { ...terms, named }), (found) => (claims = found.claims))
    )
    if (claims.length !== batch) return yield* new BenchFailed({ message: `${claims.length} of ${batch} were claimed` })
    const now = Date.now()
    const results = claims.map((one) => ({
      ...one,
      on: "succeeded" as const,
      statusCode: 200,
      errorCode: null,
      responseBody: null,
      startedAt: now,
      finishedAt: now,
      retryIn: 0,
      restFor: 0,
      strikes: 0,
      jitter: 1
    }))
    times.record += yield* timed(
      sql,
      batch * batches,
      record(sql, results, { concurrency, failing: neverFailing, workerId: 1n })
    )
  }
  return times
})

/** Adds the rows of one day. */
const addDay = ({ other }: Session) =>
  Effect.all([
    append(other, { projectId, count: day, days: 1, installations, deadEvery, before: Date.now() }),
    addKeys(other, day, 1)
  ])

/** Returns the time before which there are the rows of one day. */
const horizonOf = Effect.fnUntraced(function* ({ other: sql }: Session, name: "deliveries" | "idempotency_keys") {
  const at = sql.literal(name === "deliveries" ? "finished_at" : "created_at")
  const [row] = yield* sql<{ readonly at: Date }>`
    SELECT ${at} AS at FROM ${sql(name)} WHERE project_id = ${projectId} AND ${at} IS NOT NULL
    ORDER BY ${at} OFFSET ${day} LIMIT 1`
  return row?.at ?? new Date(0)
})

/** Deletes all expired records, batch by batch. */
const pruneAll = (...records: Parameters<typeof prune>) => Effect.repeat(prune(...records), { while: (more) => more })

const pruneDay = {
  deliveries: Effect.fnUntraced(function* ({ maintenance }: Session, horizon: Date) {
    yield* pruneAll(maintenance, { table: "deliveries", age: "finished_at", horizon })
    let last: LastEvent | undefined = firstEvent
    while (last !== undefined) [last] = yield* pruneEvents(maintenance, horizon, last)
  }),
  keys: ({ background }: Session, horizon: Date) =>
    pruneAll(background, { table: "idempotency_keys", age: "created_at", horizon })
}

const measures = {
  single: "create alone",
  create: `create in a group of ${group}`,
  claim: "claim of a delivery",
  record: "record of a delivery",
  deliveries: "retention of a delivery and its event",
  keys: "retention of a key"
}
type Measure = keyof typeof measures

/** Returns PostgreSQL's microseconds for one of each measure. */
const measureRound = Effect.fnUntraced(function* (own: Session) {
  const { background, maintenance, sql, timed } = own
  yield* addDay(own)
  const [deliveries, keys] = [yield* horizonOf(own, "deliveries"), yield* horizonOf(own, "idempotency_keys")]
  const single = yield* timed(sql, 100, createDeals(own, 1, 100))
  const created = yield* timed(sql, creates, createDeals(own, group, creates / group))
  const { claim, record } = yield* deliver(own, (creates + 100) / batch)
  const figures: Record<Measure, number> = {
    single,
    create: created,
    claim,
    record,
    deliveries: yield* timed(maintenance, day, pruneDay.deliveries(own, deliveries)),
    keys: yield* timed(background, day, pruneDay.keys(own, keys))
  }
  return figures
})

const sizesOf = (sql: PgClient.PgClient) =>
  Effect.map(
    sql<{ readonly name: string; readonly size: number }>`
      SELECT relname AS name, pg_total_relation_size(oid)::float8 AS size FROM pg_class
      WHERE relname = ANY(${tables}) ORDER BY 1`,
    (rows) => Object.fromEntries(rows.map(({ name, size }) => [name, size / 1_048_576]))
  )

/** Simulates days, each of which adds as much as it prunes. Returns the sizes in MiB after each. */
const grow = Effect.fnUntraced(function* (url: Redacted.Redacted, watcher: PgClient.PgClient, days: number) {
  const own = yield* session(url, watcher)
  const sizes: Array<Readonly<Record<string, number>>> = []
  for (let n = 0; n < days; n++) {
    yield* addDay(own)
    yield* pruneDay.deliveries(own, yield* horizonOf(own, "deliveries"))
    yield* pruneDay.keys(own, yield* horizonOf(own, "idempotency_keys"))
    yield* Effect.sleep("1500 millis")
    sizes.push(yield* sizesOf(own.other))
  }
  return sizes
}, Effect.scoped)

export const measure = Effect.fnUntraced(function* ({ days, directory, rounds, rows, sharedBuffers }: Options) {
  yield* progress("starting PostgreSQL")
  const url = yield* database({ ...flags, shared_buffers: sharedBuffers }, directory)
  const admin = yield* connect(url)
  const isThere = (name: string) =>
    Effect.map(admin`SELECT FROM pg_database WHERE datname = ${name}`, (found) => found.length > 0)
  const another = Effect.fnUntraced(function* (name: string, size: number) {
    const there = new URL(Redacted.value(url))
    there.pathname = `/${name}`
    if (yield* isThere(name)) return Redacted.make(there.href)
    const made = yield* anotherDatabase(url, name)
    const from = Date.now()
    yield* fill(made, size)
    yield* progress(`${name}: filled with ${size} rows in ${fixed((Date.now() - from) / 1000, 0)} s`)
    return made
  })
  const fullUrl = yield* another(`full_${rows}`, rows)
  for (const name of ["small", "growing"]) yield* admin`DROP DATABASE IF EXISTS ${admin(name)}`
  const small = yield* session(yield* another("small", day), admin)
  const full = yield* session(fullUrl, admin)

  const figures: Array<readonly [small: Record<Measure, number>, full: Record<Measure, number>]> = []
  for (let n = -warming; n < rounds; n++) {
    const one = n % 2 === 0 ? [small, full] : [full, small]
    const found = new Map<Session, Record<Measure, number>>()
    for (const own of one) found.set(own, yield* measureRound(own))
    const pair = [found.get(small), found.get(full)] as const
    if (n >= 0 && pair[0] !== undefined && pair[1] !== undefined) figures.push([pair[0], pair[1]])
    yield* progress(
      `round ${n + 1}: ${Object.keys(measures)
        .map(
          (name) =>
            `${name} ${pair.map((side) => fixed(Object.entries(side ?? {}).find(([key]) => key === name)?.[1] ?? NaN, 0)).join("/")}`
        )
        .join(", ")}`
    )
  }
  const fullSizes = yield* sizesOf(full.other)

  const sizes = days === 0 ? [] : yield* grow(yield* another("growing", kept * day), admin, days)
  const totals = sizes.map((size) => Object.values(size).reduce((sum, one) => sum + one, 0))
  const last = totals.slice(Math.floor(totals.length / 2))
  const growth = (last.at(-1) ?? Number.NaN) / (last[0] ?? Number.NaN)

  const rowsOf = Object.entries(measures).map(([name, what]) => {
    const of = (side: 0 | 1) =>
      figures.map((pair) => Object.entries(pair[side]).find(([key]) => key === name)?.[1] ?? Number.NaN)
    const ratios = of(1).map((value, i) => value / (of(0)[i] ?? Number.NaN))
    return { name, what, small: of(0), full: of(1), ratios }
  })
  const findings: Findings = {
    document: {
      settings: { rows, rounds, days, sharedBuffers, creates, group, batch, day, kept, node: process.version },
      microseconds: Object.fromEntries(
        rowsOf.map(({ full, name, ratios, small }) => [
          name,
          { small: spread(small), full: spread(full), ratio: spread(ratios) }
        ])
      ),
      mebibytes: { full: fullSizes, days: sizes },
      growthOfSecondHalf: round(growth)
    },
    text: `${table([
      ["MICROSECONDS OF POSTGRESQL", "EMPTY", `${rows} ROWS`, "RATIO"],
      ...rowsOf.map(({ full, ratios, small, what }) => [what, ranged(small, 0), ranged(full, 0), ranged(ratios, 2)])
    ])}\n\nMiB with ${rows} rows: ${JSON.stringify(fullSizes)}\nMiB by day of ${day} rows, ${kept} days kept: ${totals
      .map((total) => fixed(total, 0))
      .join(
        " "
      )}\nratio of the medians: ${rowsOf.map(({ full, name, small }) => `${name} ${fixed(median(full) / median(small), 2)}`).join(", ")}`
  }
  return findings
}, Effect.scoped)

export const command = Command.make(
  "growth",
  {
    json,
    rows: count("rows", usual.rows, "Deliveries and keys of the full database"),
    rounds: count("rounds", usual.rounds, "Rounds, each on both databases"),
    days: count("days", usual.days, "Days that pass in the growing database"),
    directory: Flag.String("directory").pipe(
      Flag.optional,
      Flag.withDescription("Keep the cluster there, and use the full database that is there")
    ),
    sharedBuffers: Flag.String("shared-buffers").pipe(
      Flag.withDefault(usual.sharedBuffers),
      Flag.withDescription("PostgreSQL's shared_buffers; a quarter of the machine's memory if not given")
    )
  },
  Effect.fnUntraced(function* ({ directory, json, ...options }) {
    const { document, text } = yield* measure({ ...options, directory: Option.getOrUndefined(directory) })
    yield* answer(json, document, text)
  })
).pipe(
  Command.withDescription("What commands, deliveries and retention cost with millions of rows, and whether it grows on")
)
