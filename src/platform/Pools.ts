/**
 * The connection pools of a process, and the session settings of each. Together they open at most
 * `DATABASE_MAX_CONNECTIONS` connections, in any role. The layers, the metrics and `doctor` derive from this table.
 */
import type { PgClient } from "@effect/sql-pg"
import { Duration, Record } from "effect"

export interface Pool {
  /** `application_name` of its sessions, and the pool's name in metrics. */
  readonly name: string
  readonly purpose: string
  /** Connections of a process that keeps the default of `DATABASE_MAX_CONNECTIONS`. */
  readonly size: number
  /** Maximum number of pipelined statements on a connection. Undefined: one. */
  readonly pipelined?: number
  readonly session?: Readonly<Record<string, string>>
  /** Whether its transactions are read-only. */
  readonly readOnly?: boolean
  /** Whether it needs sessions. It then connects to `DATABASE_DIRECT_URL` if that is set, not to the pooler. */
  readonly direct?: boolean
  /** Time without an answer after which a connection counts as dead; null: no limit. Default: 5 s. */
  readonly deadAfter?: Duration.Duration | null
}

/**
 * Timeouts of PostgreSQL. Callers wait longer, so that no statement runs on after its caller has got an answer. A
 * statement that waits for a row for `lock_timeout` is sent again, behind the statements that followed it.
 */
const limits = { lock_timeout: "200ms", statement_timeout: "3500ms" }

/**
 * A plan is kept until a table's statistics change, and a table that was empty or never analyzed when the plan was made may
 * have grown since. So plans that read whole tables are never right; nor are bitmaps, which read all records of a project for
 * one page and sort them, where an index has them in order.
 */
const indexed = { enable_seqscan: "off", enable_bitmapscan: "off" }

/** For statements that find their rows by keys: each join looks them up. */
export const keyed = { ...indexed, enable_hashjoin: "off", enable_mergejoin: "off", enable_material: "off" }

/**
 * They end the session of a lost host, and with it its locks, after about five seconds. No keepalives are sent while an answer is
 * not acknowledged, hence `tcp_user_timeout`.
 */
const keepalives = {
  tcp_keepalives_idle: "2",
  tcp_keepalives_interval: "1",
  tcp_keepalives_count: "3",
  tcp_user_timeout: "5s"
}

export const pools = {
  reads: {
    name: "developer-api",
    purpose: "Reads of requests: records, pages, credentials.",
    size: 2,
    pipelined: 8,
    session: { ...limits, ...keyed }
  },
  mutations: {
    name: "developer-api mutations",
    purpose: "Mutations of requests. They may wait for rows, and no read waits with them.",
    size: 4,
    pipelined: 2,
    session: { ...limits, ...keyed, plan_cache_mode: "force_generic_plan", jit: "off" }
  },
  longRunning: {
    name: "developer-api long-running",
    purpose: "Mutations that take seconds, one at a time on a connection. They sort and count in memory.",
    size: 2,
    session: { ...limits, ...indexed, statement_timeout: "29s", work_mem: "64MB", jit: "off" },
    deadAfter: Duration.seconds(31)
  },
  // For a project that is not in the statistics yet the planner expects one row, and a nested loop of two tables would read
  // every pair of their rows. No parallel workers, which would take CPU from requests.
  reports: {
    name: "developer-api reports",
    purpose: "Reads of many rows, such as the import preview.",
    size: 2,
    readOnly: true,
    session: {
      ...limits,
      ...indexed,
      enable_nestloop: "off",
      jit: "off",
      max_parallel_workers_per_gather: "0"
    }
  },
  background: {
    name: "developer-api background",
    purpose: "Loops other than the delivery loop: messages, campaigns, pruners.",
    size: 2,
    pipelined: 4,
    session: { ...limits, ...keyed }
  },
  deliveries: {
    name: "developer-api deliveries",
    purpose: "Records and takeovers of the delivery loop.",
    size: 2,
    pipelined: 4,
    session: { ...limits, ...keyed, plan_cache_mode: "force_generic_plan", jit: "off" }
  },
  // A claim that is lost in a crash of PostgreSQL does no harm: its delivery is pending again, and the fence refuses the
  // result of its attempt. Recording a result flushes its claim as well. So a delivery does not wait for a flush before it is
  // sent.
  claims: {
    name: "developer-api delivery claims",
    purpose: "Claims of the delivery loop, which do not wait until they are on disk.",
    size: 1,
    session: {
      ...limits,
      ...keyed,
      plan_cache_mode: "force_generic_plan",
      jit: "off",
      synchronous_commit: "off"
    }
  },
  // Not pipelined, so that no statement waits behind a long one while the other connection is free.
  maintenance: {
    name: "developer-api maintenance",
    purpose: "The sweep, dead-lettering, replays and pruning, whose batches take longer than a claim may wait.",
    size: 2,
    session: { ...limits, ...keyed, plan_cache_mode: "force_generic_plan", jit: "off" }
  },
  // The statements of the listener are answered at once. While it only listens, no answer is due.
  listener: {
    name: "developer-api listener",
    purpose: "LISTEN for new deliveries.",
    size: 1,
    direct: true,
    deadAfter: Duration.seconds(2)
  },
  worker: {
    name: "developer-api worker",
    purpose: "The lock of a live worker.",
    size: 1,
    direct: true,
    session: { ...limits, ...keepalives }
  },
  // A statement may take long. A process that leaves its transaction idle for a minute has stopped, and holds the locks of a
  // project. An export, which waits for its reader and holds no such lock, has no limit.
  operator: {
    name: "developer-api operator",
    purpose: "Migrations, project files, moves and other commands, without a timeout for statements.",
    size: 1,
    direct: true,
    session: { ...indexed, ...keepalives, idle_in_transaction_session_timeout: "60s" },
    deadAfter: null
  }
} as const satisfies Record<string, Pool>

export type PoolId = keyof typeof pools

const defaults: Readonly<Record<PoolId, number>> = Record.map(pools, ({ size }) => size)
const ids = Record.keys(defaults)

/** The default of `DATABASE_MAX_CONNECTIONS`. */
export const defaultConnections = Object.values(defaults).reduce((sum, size) => sum + size, 0)

/** The minimum of `DATABASE_MAX_CONNECTIONS` (contract §14): one connection for each pool, two for maintenance. */
export const leastConnections = 12

/**
 * Returns the connections of each pool for a process that may open `max`. Connections beyond the default go to reads and
 * mutations, two to three; missing ones are taken from the largest pools, one after the other.
 */
export const sizesOf = (max: number): Readonly<Record<PoolId, number>> => {
  const shared = max - defaultConnections + defaults.reads + defaults.mutations
  if (max >= defaultConnections) {
    const reads = Math.floor(shared * 0.4)
    return { ...defaults, reads, mutations: shared - reads }
  }
  const sizes = { ...defaults }
  for (let excess = defaultConnections - Math.max(max, leastConnections); excess > 0; excess--) {
    sizes[ids.reduce((largest, id) => (sizes[id] > sizes[largest] ? id : largest))] -= 1
  }
  return sizes
}

/** Returns the driver's options for a pool that connects to PostgreSQL itself. */
export const optionsOf = (pool: Pool, connections: number): Partial<PgClient.PgPoolConfig> => ({
  applicationName: pool.name,
  maxConnections: connections,
  startupParameters: {
    ...pool.session,
    ...(pool.readOnly === true ? { default_transaction_read_only: "on" } : {})
  },
  ...(pool.pipelined === undefined ? {} : { multiplex: true, multiplexConcurrency: pool.pipelined })
})
