/**
 * The connection pools of a process. `sql/Connections.ts` makes their clients. The table has the size of each pool, and in parentheses its
 * minimum. All together open at most `DATABASE_MAX_CONNECTIONS` connections, in every role of the process (`--role`).
 *
 *   pool        size    mode             timeout   used by
 *   reads       3 (1)   pipelined by 8   3.5 s     reads of requests: records, pages, credentials
 *   mutations   4 (1)   pipelined by 2   3.5 s     mutations of requests, so that no read waits behind one that waits for a row
 *   workers     6 (2)   plain            3.5 s     background work: deliveries, messages, campaigns, replays, pruning
 *   reports     4 (2)   plain            29 s      import previews, counts of clients, the console, mutations that take seconds
 *   direct      3 (3)   plain            none      sessions: LISTEN, the lock of a worker, and migrations or a command
 */
import type { PgClient } from "@effect/sql-pg"
import { Duration, Record } from "effect"

/**
 * How a connection runs statements:
 *
 * - `plain`: one at a time.
 * - `pipelined`: several at a time. Each is written before the answers to those before it have arrived.
 * - `pooled`: one at a time, as a transaction at a pooler (`DATABASE_DIRECT_URL` is set). It is then the mode of all pools but `direct`,
 *   whose sessions a pooler would not keep.
 */
export type Mode = "plain" | "pipelined" | "pooled"

export interface Pool {
  /** The `application_name` of the pool's sessions, and the name of the pool in metrics. */
  readonly name: string
  /** Number of connections if `DATABASE_MAX_CONNECTIONS` has its default. */
  readonly size: number
  /** Number of connections at the minimum of `DATABASE_MAX_CONNECTIONS`. */
  readonly least: number
  /** Maximum number of statements in flight on a pipelined connection. Undefined: the mode is `plain`. */
  readonly pipelined?: number
  readonly session: Readonly<Record<string, string>>
  /** A connection counts as dead after this time without an answer. Default: 5 s. */
  readonly deadAfter?: Duration.Duration
}

/**
 * Timeouts of PostgreSQL. They are shorter than the time that callers wait, so that no statement runs on after its caller has an
 * answer. A statement that has waited for a row for `lock_timeout` fails, and is sent again behind the statements that followed
 * it on the connection.
 */
const limits = { lock_timeout: "200ms", statement_timeout: "3500ms" }

/**
 * PostgreSQL keeps a plan until the statistics of a table change. A table that was small when the plan was made may have grown
 * since, so a plan must not read a whole table. It must not use a bitmap either: a bitmap scan reads and sorts all records of
 * a project for one page, while an index returns the page in order.
 */
const indexed = { enable_seqscan: "off", enable_bitmapscan: "off" }

/** Settings for statements that find their rows by keys: each join looks up rows by an index. */
export const keyed = { ...indexed, enable_hashjoin: "off", enable_mergejoin: "off", enable_material: "off" }

/**
 * Settings for statements that read the queue of an endpoint. Only the index of the queue has its order, so without sorts the
 * statements read this index. The planner may expect few deliveries of the endpoint, because the statistics do not contain them
 * yet. It would then read them all by another index, and sort them.
 */
const queued = { ...keyed, enable_sort: "off", enable_incremental_sort: "off" }

/**
 * Settings that end the session of a lost host, and release the locks of the session, after about five seconds. TCP sends no
 * keepalives while an answer is not acknowledged; `tcp_user_timeout` covers this case.
 */
const keepalives = {
  tcp_keepalives_idle: "2",
  tcp_keepalives_interval: "1",
  tcp_keepalives_count: "3",
  tcp_user_timeout: "5s"
}

/**
 * Settings that a session relies on, whatever the role or the database sets (`ALTER ROLE … SET`): no limits but its own, and the
 * isolation for which the statements are written.
 */
const relied = {
  default_transaction_isolation: "read committed",
  idle_in_transaction_session_timeout: "0",
  idle_session_timeout: "0",
  lock_timeout: "0",
  statement_timeout: "0"
}

/**
 * Settings that another client of a pooler may leave in a session, and on which statements depend. Each transaction at a pooler
 * sets them to the values with which the session began.
 */
export const clearedSettings = ["search_path", "role", "synchronous_commit"]

export const pools = {
  reads: {
    name: "developer-api",
    size: 3,
    least: 1,
    pipelined: 8,
    session: { ...limits, ...keyed }
  },
  mutations: {
    name: "developer-api mutations",
    size: 4,
    least: 1,
    // Few, because a mutation that waits for a row holds up those behind it on its connection.
    pipelined: 2,
    session: { ...limits, ...keyed, plan_cache_mode: "force_generic_plan", jit: "off" }
  },
  // Not pipelined, so that no statement waits behind a long one while another connection is free.
  workers: {
    name: "developer-api workers",
    size: 6,
    least: 2,
    session: { ...limits, ...queued, plan_cache_mode: "force_generic_plan", jit: "off" }
  },
  // If the statistics do not contain a project yet, the planner expects one row of the project in each table. A nested loop of
  // two tables would then read every pair of rows. Parallel workers are off because they would take CPU time from requests.
  reports: {
    name: "developer-api reports",
    size: 4,
    least: 2,
    session: {
      ...limits,
      ...indexed,
      statement_timeout: "29s",
      enable_nestloop: "off",
      work_mem: "64MB",
      jit: "off",
      max_parallel_workers_per_gather: "0"
    },
    deadAfter: Duration.seconds(31)
  },
  // Statements may take long, so they have no timeout. PostgreSQL ends a session whose transaction is idle for a minute: the
  // command probably hangs, and may hold the locks of a project. An export turns this limit off, because it waits for the reader
  // of its output.
  direct: {
    name: "developer-api direct",
    size: 3,
    least: 3,
    session: { ...indexed, ...keepalives, idle_in_transaction_session_timeout: "60s" }
  }
} as const satisfies Record<string, Pool>

export type PoolId = keyof typeof pools

const defaults: Readonly<Record<PoolId, number>> = Record.map(pools, ({ size }) => size)
const ids = Record.keys(defaults)

const sumOf = (numbers: ReadonlyArray<number>) => numbers.reduce((sum, number) => sum + number, 0)

export const defaultConnections = sumOf(Object.values(pools).map(({ size }) => size))

/** The minimum of `DATABASE_MAX_CONNECTIONS` (contract §14). */
export const leastConnections = sumOf(Object.values(pools).map(({ least }) => least))

/**
 * Returns the number of connections of each pool for a process that may open `max`. If `max` exceeds the default, reads get two
 * fifths and mutations three fifths of the excess. If `max` is less, the pool that is farthest above its minimum
 * loses one connection at a time until the sum is `max`.
 */
export const sizesOf = (max: number): Readonly<Record<PoolId, number>> => {
  const more = max - defaultConnections
  if (more >= 0) {
    const reads = Math.floor(more * 0.4)
    return { ...defaults, reads: defaults.reads + reads, mutations: defaults.mutations + more - reads }
  }
  const sizes = { ...defaults }
  const spare = (id: PoolId) => sizes[id] - pools[id].least
  for (let excess = defaultConnections - Math.max(max, leastConnections); excess > 0; excess--) {
    sizes[ids.reduce((largest, id) => (spare(id) > spare(largest) ? id : largest))] -= 1
  }
  return sizes
}

/**
 * The size in bytes of a row that the driver reads, which PostgreSQL never exceeds: it fails the statement of a larger row. With the
 * driver's default of 16 MiB, a larger row would close the connection, with the statements of other requests on it.
 */
const maxMessageSize = 2 ** 30

export const modeOf = (pool: Pool, hasPooler: boolean): Mode =>
  hasPooler ? "pooled" : pool.pipelined === undefined ? "plain" : "pipelined"

/** Returns the maximum number of statements in flight on a connection. */
export const inFlightOf = (pool: Pool, mode: Mode): number => (mode === "pipelined" ? (pool.pipelined ?? 1) : 1)

/**
 * Returns the driver's options for a pool. At a pooler, all pools have the same application name. Otherwise the pooler would set the name
 * each time it gives a session to a client of another pool.
 */
export const optionsOf = (pool: Pool, connections: number, mode: Mode): Partial<PgClient.PgPoolConfig> => ({
  maxConnections: connections,
  maxMessageSize,
  ...(mode === "pooled"
    ? { applicationName: "developer-api", idleTimeout: Duration.minutes(1) }
    : { applicationName: pool.name, startupParameters: { ...relied, ...pool.session } }),
  // Without `multiplex`, the driver would wait for each answer before it writes the next statement, or the next part of a transaction.
  ...(mode === "plain" ? {} : { multiplex: true, multiplexConcurrency: inFlightOf(pool, mode) })
})
