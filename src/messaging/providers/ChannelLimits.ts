/**
 * Limits of the calls to the providers of channels, in this process.
 *
 * Permits. Each attempt of `MessageLoop.ts` holds one permit of its channel until its call ends. A channel may hold `initial`
 * permits at first. With each answered call this limit grows by one, up to `perChannel`, so that it doubles while all permits are
 * used. A call without an answer resets the limit to `initial`. A channel is suspect after a call without an answer, until its next
 * answer, and while one of its calls has run for `slowAfter` or longer. Suspect channels get no new permits while together they
 * hold `suspectShare` of all permits. So a provider that hangs leaves permits for other channels.
 *
 * Circuit breakers, one for each channel:
 *
 *   closed ── five calls in a row without an answer ──▶ open ── open period over ──▶ half-open
 *      ▲                                                 ▲                             │
 *      └──────────── the probe is answered ──────────────┼─────────────────────────────┤
 *                                                        └── the probe is not answered ┘
 *
 * Any answer of the provider counts as a success, because the breaker only prevents calls to providers that hang or cannot be
 * reached. If no key of this process opens a channel's config, this counts as a call without an answer: recipients of campaigns
 * wait, and other processes may have the key. An open circuit admits a probe after 5 s. This period doubles, up to a minute,
 * when a probe fails, and when a circuit opens again after it was closed for less than its last open period.
 */
import { Clock, Effect } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import type { ChannelId, ProjectId } from "../../api/schema/Ids.ts"
import { monotonicMillis } from "../../platform/MonotonicTime.ts"

/**
 * Maximum numbers of attempts in flight, or about to start, in one process: in total, for a channel, and for a channel at first.
 */
const total = 1_024
const perChannel = 512
const initial = 4
const suspectShare = 0.25

/** Times are in milliseconds. */
const slowAfter = 1_000
const failuresInARow = 5
const firstOpenPeriod = 5_000
const longestOpenPeriod = 60_000
/** A channel without taken permits is forgotten when this time has passed since its last call and the end of its open period. */
const forgetAfter = 600_000

export interface Channel {
  readonly projectId: ProjectId
  readonly channelId: ChannelId
}

/** How a call ended. `unused` has no effect on the channel: there was no call, or the call was interrupted. */
export type End = "answered" | "unanswered" | "unused"

export interface Permit {
  /** Begins the call. Returns false if the channel's circuit admits no call now. */
  readonly begin: () => boolean
  /** Gives the permit back. The second time, this has no effect. */
  readonly end: (how: End) => void
}

export interface Limits {
  readonly free: number
  readonly channels: ReadonlyArray<Channel & { readonly free: number }>
  readonly projects: ReadonlyArray<{ readonly projectId: ProjectId; readonly held: number }>
  /** The number of free permits of a channel that is not in `channels`. */
  readonly newChannel: number
  /** Channels whose circuit admits no call now. */
  readonly blocked: ReadonlyArray<Channel>
}

export interface ChannelLimits {
  /** Takes a permit. The caller has checked in `limits` that one is free. */
  readonly take: (channel: Channel) => Permit
  /** Returns the free permits. A channel with an open circuit has none, or one for its probe. */
  readonly limits: () => Limits
}

interface Entry extends Channel {
  /** Maximum number of permits that the channel may hold at present. */
  size: number
  held: number
  /** Whether the last call was not answered. */
  failed: boolean
  endedAt: number
  /** Start times of running calls, the oldest first. */
  readonly running: Map<symbol, number>
  /** Number of calls in a row without an answer. Calls that began before the circuit last opened or closed do not count. */
  failures: number
  /** The end of the open period; null while the circuit is closed. */
  openUntil: number | null
  openPeriod: number
  /** If the circuit opens before this time, its open period doubles. If it opens later, the period is `firstOpenPeriod`. */
  steadyAt: number
  probe: symbol | null
  /**
   * Number of times that the circuit has opened or closed. A call does not affect the circuit if this number has changed since
   * the call began.
   */
  changes: number
}

export const make: Effect.Effect<ChannelLimits> = Effect.map(Clock.Clock, (clock) => {
  const entries = new Map<string, Entry>()
  const now = () => monotonicMillis(clock)
  let held = 0

  const entryOf = ({ channelId, projectId }: Channel) => {
    const name = JSON.stringify([projectId, channelId])
    const known = entries.get(name)
    if (known !== undefined) return known
    const permits = { size: initial, held: 0, failed: false, endedAt: now(), running: new Map() }
    const circuit = { failures: 0, openUntil: null, openPeriod: 0, steadyAt: 0, probe: null, changes: 0 }
    const entry = { projectId, channelId, ...permits, ...circuit }
    entries.set(name, entry)
    return entry
  }

  const isSuspect = ({ failed, running }: Entry, at: number) => {
    const [oldest] = running.values()
    return failed || (oldest !== undefined && at - oldest >= slowAfter)
  }

  const admitted = ({ openUntil, probe }: Entry, at: number) => {
    if (openUntil === null) return total
    return probe === null && at >= openUntil ? 1 : 0
  }

  const open = (entry: Entry, at: number) => {
    entry.openPeriod = at < entry.steadyAt ? Math.min(2 * entry.openPeriod, longestOpenPeriod) : firstOpenPeriod
    entry.openUntil = at + entry.openPeriod
    entry.steadyAt = Infinity
    entry.changes++
  }

  const close = (entry: Entry, at: number) => {
    entry.openUntil = null
    entry.steadyAt = at + entry.openPeriod
    entry.changes++
  }

  const ended = (entry: Entry, isAnswered: boolean, changes: number) => {
    const at = now()
    entry.size = isAnswered ? Math.min(perChannel, entry.size + 1) : initial
    entry.failed = !isAnswered
    entry.endedAt = at
    if (changes !== entry.changes) return
    entry.failures = isAnswered ? 0 : entry.failures + 1
    if (isAnswered && entry.openUntil !== null) close(entry, at)
    else if (entry.failures >= failuresInARow) open(entry, at)
  }

  return {
    take: (channel) => {
      const entry = entryOf(channel)
      const call = Symbol()
      let changes = 0
      let taken = true
      entry.held++
      held++
      return {
        begin: () => {
          const at = now()
          if (admitted(entry, at) === 0) return false
          if (entry.openUntil !== null) entry.probe = call
          entry.running.set(call, at)
          changes = entry.changes
          return true
        },
        end: (how) => {
          if (!taken) return
          taken = false
          entry.running.delete(call)
          if (entry.probe === call) entry.probe = null
          if (how !== "unused") ended(entry, how === "answered", changes)
          entry.held--
          held--
        }
      }
    },
    limits: () => {
      const at = now()
      const byProject = new Map<ProjectId, number>()
      let suspects = 0
      for (const [name, entry] of entries) {
        const { endedAt, openUntil, projectId } = entry
        if (entry.held === 0 && at - Math.max(endedAt, openUntil ?? 0) >= forgetAfter) entries.delete(name)
        byProject.set(projectId, (byProject.get(projectId) ?? 0) + entry.held)
        if (isSuspect(entry, at)) suspects += entry.held
      }
      const forSuspects = Math.max(0, Math.floor(total * suspectShare) - suspects)
      const freeOf = (entry: Entry) => {
        const most = Math.min(isSuspect(entry, at) ? forSuspects : total, entry.size - entry.held)
        return Math.max(0, Math.min(most, admitted(entry, at)))
      }
      const known = [...entries.values()]
      return {
        free: Math.max(0, total - held),
        channels: known
          .map((entry) => ({ projectId: entry.projectId, channelId: entry.channelId, free: freeOf(entry) }))
          .filter(({ free }) => free !== initial),
        projects: Array.from(byProject, ([projectId, held]) => ({ projectId, held })).filter(({ held }) => held > 0),
        newChannel: initial,
        blocked: known.filter((entry) => admitted(entry, at) === 0)
      }
    }
  }
})

export const limitTables = (sql: SqlClient.SqlClient, { channels, projects }: Limits): Statement.Fragment => sql`
  channel_limit (project_id, channel_id, free) AS MATERIALIZED (
    SELECT * FROM unnest(${channels.map(({ projectId }) => projectId)}::text[],
      ${channels.map(({ channelId }) => channelId)}::text[], ${channels.map(({ free }) => free)}::int[])
  ),
  project_share (project_id, held) AS MATERIALIZED (
    SELECT * FROM unnest(${projects.map(({ projectId }) => projectId)}::text[], ${projects.map(({ held }) => held)}::int[])
  )`

/**
 * SQL by which rows are ordered to share permits fairly: the project with the fewest attempts in flight comes first. A single
 * project may take all permits. If another project waits, it gets each freed permit until both hold the same number. `rank` is
 * the position of a row within its project.
 */
export const shareOf = (sql: SqlClient.SqlClient, rank: string): Statement.Fragment =>
  sql.literal(`${rank} + coalesce(project_share.held, 0)`)
