/**
 * The connection pools of a process, and the session settings of each. All of them together open at most
 * `DATABASE_MAX_CONNECTIONS` connections: most pools have a fixed size, reads and mutations share the rest.
 */
import type { PgClient } from "@effect/sql-pg"
import { Duration } from "effect"

export interface Pool {
  /** `application_name` of its sessions, and the pool's name in metrics. */
  readonly name: string
  readonly purpose: string
  /** Connections; undefined: a share of what the others leave. */
  readonly size?: number
  /** Statements that are pipelined on one connection. Undefined: one at a time. */
  readonly pipelined?: number
  readonly session?: Readonly<Record<string, string>>
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
    pipelined: 8,
    session: { ...limits, ...keyed }
  },
  mutations: {
    name: "developer-api mutations",
    purpose: "Mutations of requests. They may wait for rows, and no read waits with them.",
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
    session: {
      ...limits,
      default_transaction_read_only: "on",
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
    purpose: "Pruning of deliveries, which takes its time.",
    size: 1,
    pipelined: 4,
    session: limits
  },
  // What it is asked is answered at once; while it only listens, its silence does not count.
  listener: {
    name: "developer-api listener",
    purpose: "LISTEN for new deliveries.",
    size: 1,
    silence: Duration.seconds(2)
  },
  // Silent for no longer than a heartbeat. PostgreSQL ends the session of a lost host, and with it the lock, after about
  // five seconds.
  worker: {
    name: "developer-api worker",
    purpose: "The lock that shows that a worker lives.",
    size: 1,
    session: { ...limits, tcp_keepalives_idle: "2", tcp_keepalives_interval: "1", tcp_keepalives_count: "3" }
  },
  operator: {
    name: "developer-api operator",
    purpose: "Migrations, project files and other commands, without a limit of time.",
    size: 1,
    silence: null
  }
} as const satisfies Record<string, Pool>

const all: ReadonlyArray<Pool> = Object.values(pools)

/** Connections of the pools of a fixed size. */
const fixed = all.reduce((sum, { size = 0 }) => sum + size, 0)

/** The pools that share what the others leave. */
export type SharedPool = typeof pools.reads | typeof pools.mutations

/** Connections of a pool, of a process that may open `max`. Mutations get the larger part; each gets one at least. */
export const sizeOf = (pool: SharedPool, max: number): number => {
  const rest = Math.max(2, max - fixed)
  const reads = Math.max(1, Math.floor(rest * 0.4))
  return pool === pools.reads ? reads : rest - reads
}

/** Most connections of a process. */
export const connectionsOf = (max: number): number => fixed + sizeOf(pools.reads, max) + sizeOf(pools.mutations, max)

/** The driver's options of a pool. */
export const optionsOf = (pool: Pool, connections: number): Partial<PgClient.PgPoolConfig> => ({
  applicationName: pool.name,
  maxConnections: connections,
  ...(pool.session === undefined ? {} : { startupParameters: pool.session }),
  ...(pool.pipelined === undefined ? {} : { multiplex: true, multiplexConcurrency: pool.pipelined })
})
