/**
 * The connection pools of a process, and the session settings of each. All of them together open at most
 * `DATABASE_MAX_CONNECTIONS` connections, in any role. The layers, the metrics and `doctor` read this table.
 */
import type { PgClient } from "@effect/sql-pg"
import { Duration, Record } from "effect"

export interface Pool {
  /** `application_name` of its sessions, and the pool's name in metrics. */
  readonly name: string
  readonly purpose: string
  /** Connections of a process that keeps the default of `DATABASE_MAX_CONNECTIONS`. */
  readonly size: number
  /** Statements that are pipelined on one connection. Undefined: one at a time. */
  readonly pipelined?: number
  readonly session?: Readonly<Record<string, string>>
  /** Whether its transactions change nothing. */
  readonly readOnly?: boolean
  /** Whether it needs a session of its own: with `DATABASE_DIRECT_URL` it connects there, past the pooler. */
  readonly direct?: boolean
  /** Time after which a connection that answers nothing counts as dead; null: it may be silent. */
  readonly silence?: Duration.Duration | null
}

/**
 * What PostgreSQL cuts, so that no statement goes on for a caller who has been told to come again. A statement that waits
 * for a row for `lock_timeout` is sent again: the statements behind it on its connection go first.
 */
const limits = { lock_timeout: "200ms", statement_timeout: "3500ms" }

/**
 * For statements that find all they want by a key. A plan is kept as long as its connection, and a table that was empty
 * when it was made may be large by then: scans and joins that read whole tables are never right here.
 */
const keyed = { enable_seqscan: "off", enable_hashjoin: "off", enable_mergejoin: "off" }

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
  bulk: {
    name: "developer-api bulk",
    purpose: "Mutations that take seconds, one at a time on a connection. They sort and count in memory.",
    size: 2,
    session: { ...limits, statement_timeout: "29s", work_mem: "64MB", jit: "off" },
    silence: Duration.seconds(31)
  },
  // The planner guesses how many rows there are; where it guesses one (of a project that is new to the statistics) a
  // nested loop of two tables would look at every pair of their rows. One core, as others want the rest.
  reports: {
    name: "developer-api reports",
    purpose: "Reads of many rows, such as the import preview.",
    size: 2,
    readOnly: true,
    session: {
      ...limits,
      enable_nestloop: "off",
      jit: "off",
      max_parallel_workers_per_gather: "0"
    }
  },
  background: {
    name: "developer-api background",
    purpose: "Loops other than the delivery loop: retrier, campaign runner, pruners.",
    size: 2,
    pipelined: 4,
    session: limits
  },
  deliveries: {
    name: "developer-api deliveries",
    purpose: "Records and takeovers of the delivery loop.",
    size: 2,
    pipelined: 4,
    session: { ...limits, ...keyed, plan_cache_mode: "force_generic_plan", jit: "off" }
  },
  // A claim that a crash of PostgreSQL takes back is a lease that never was: its delivery is pending again, and the fence
  // refuses the result of its attempt. A result that is recorded flushes the claim with it. So no delivery waits for a flush
  // before it is sent.
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
  deadLettering: {
    name: "developer-api dead-lettering",
    purpose: "The sweep and dead-lettering, whose batches take longer than a claim may wait.",
    size: 1,
    pipelined: 4,
    session: { ...limits, ...keyed, plan_cache_mode: "force_generic_plan", jit: "off" }
  },
  maintenance: {
    name: "developer-api maintenance",
    purpose: "Pruning, which takes its time.",
    size: 1,
    pipelined: 4,
    session: { ...limits, ...keyed, plan_cache_mode: "force_generic_plan", jit: "off" }
  },
  // What it is asked is answered at once; while it only listens, its silence does not count.
  listener: {
    name: "developer-api listener",
    purpose: "LISTEN for new deliveries.",
    size: 1,
    direct: true,
    silence: Duration.seconds(2)
  },
  // Silent for no longer than a heartbeat. PostgreSQL ends the session of a lost host, and with it the lock, after about
  // five seconds.
  worker: {
    name: "developer-api worker",
    purpose: "The lock that shows that a worker lives.",
    size: 1,
    direct: true,
    session: { ...limits, tcp_keepalives_idle: "2", tcp_keepalives_interval: "1", tcp_keepalives_count: "3" }
  },
  operator: {
    name: "developer-api operator",
    purpose: "Migrations, project files and other commands, without a limit of time.",
    size: 1,
    direct: true,
    silence: null
  }
} as const satisfies Record<string, Pool>

export type PoolId = keyof typeof pools

const defaults: Readonly<Record<PoolId, number>> = Record.map(pools, ({ size }) => size)
const ids = Record.keys(defaults)

/** Connections that a process may open unless `DATABASE_MAX_CONNECTIONS` says otherwise. */
export const defaultConnections = Object.values(defaults).reduce((sum, size) => sum + size, 0)

/** Least value of `DATABASE_MAX_CONNECTIONS`: a connection for each pool. */
export const leastConnections = ids.length

/**
 * Connections of each pool, of a process that may open `max`. What is more than the default goes to reads and mutations,
 * two to three; what is less is taken from the largest pools, one after the other.
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

/** The driver's options of a pool that connects to PostgreSQL itself. */
export const optionsOf = (pool: Pool, connections: number): Partial<PgClient.PgPoolConfig> => ({
  applicationName: pool.name,
  maxConnections: connections,
  startupParameters: {
    ...pool.session,
    ...(pool.readOnly === true ? { default_transaction_read_only: "on" } : {})
  },
  ...(pool.pipelined === undefined ? {} : { multiplex: true, multiplexConcurrency: pool.pipelined })
})
