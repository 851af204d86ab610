/**
 * Fair permits for calls in flight. A call belongs to a key (a channel, an endpoint) of a tenant (a project).
 *
 * - The limit of a key is `initial` permits at first. If a call succeeds while all permits of the key are taken, the limit grows
 *   by one, up to `perKey`. A failure sets the limit back to `initial`.
 * - A key is suspect from a failure until its next success, and while one of its calls has run for `slowAfter` or longer.
 *   Suspect keys get no new permits while together they hold `failingShare` of all permits.
 *
 * So if a provider hangs, its key takes at most the permits of its limit. From then on, all suspect keys share `failingShare` of
 * the permits, and other keys still find permits. The limits apply to one process. A statement that claims work gets `limits`,
 * and the caller takes a permit for each row that the statement returns.
 */
import { Clock, Duration, Effect } from "effect"

export interface Options {
  readonly total: number
  /** Upper bound for the limit of a key. */
  readonly perKey: number
  /** Limit of a new key, and of a key after a failure. */
  readonly initial: number
  /** Share of `total` that all suspect keys may hold together, from 0 to 1. */
  readonly failingShare: number
  /** Run time from which a call makes its key suspect. */
  readonly slowAfter: Duration.Duration
}

/** How a call ended. `unused`: there was no call, so the limit of the key does not change, and a suspect key stays suspect. */
export type End = "succeeded" | "failed" | "unused"

export interface Permit {
  /** Starts the run time of the call. */
  readonly begin: () => void
  /** Gives the permit back. A second call has no effect. */
  readonly end: (how: End) => void
}

interface KeyLimit {
  readonly tenant: string
  readonly key: string
  readonly free: number
}

/** The numbers of free permits, and of the permits that tenants hold. A key that is not listed has `newKey` free permits. */
export interface Limits {
  readonly free: number
  readonly keys: ReadonlyArray<KeyLimit>
  readonly tenants: ReadonlyArray<{ readonly tenant: string; readonly held: number }>
  readonly newKey: number
}

export interface Slots {
  /** Takes a permit. The caller has checked in `limits` that one is free. */
  readonly take: (tenant: string, key: string) => Permit
  readonly limits: () => Limits
}

/** A key is forgotten this long after the end of its last call, if none of its permits is taken. */
const forgetAfter = Duration.minutes(10)

interface Entry {
  readonly tenant: string
  readonly key: string
  /** The current limit of the key. */
  size: number
  held: number
  failed: boolean
  endedAt: bigint
  /** Start times of running calls, the oldest first. */
  readonly running: Map<symbol, bigint>
}

export const make = (options: Options): Effect.Effect<Slots> =>
  Effect.map(Clock.Clock, (clock) => {
    const { failingShare, initial, perKey, total } = options
    const entries = new Map<string, Entry>()
    const now = () => clock.monotonicTimeNanosUnsafe()
    const nanos = (duration: Duration.Duration) => BigInt(Math.ceil(Duration.toMillis(duration))) * 1_000_000n
    const [slowAfter, forgotten] = [nanos(options.slowAfter), nanos(forgetAfter)]
    let held = 0

    const entryOf = (tenant: string, key: string) => {
      const name = JSON.stringify([tenant, key])
      const known = entries.get(name)
      if (known !== undefined) return known
      const entry = { tenant, key, size: initial, held: 0, failed: false, endedAt: now(), running: new Map() }
      entries.set(name, entry)
      return entry
    }

    const isSuspect = ({ failed, running }: Entry, at: bigint) => {
      const [oldest] = running.values()
      return failed || (oldest !== undefined && at - oldest >= slowAfter)
    }

    const ended = (entry: Entry, how: End) => {
      const wasFull = entry.held >= entry.size
      entry.held--
      held--
      if (how === "unused") return
      entry.failed = how === "failed"
      entry.endedAt = now()
      if (entry.failed) entry.size = initial
      else if (wasFull) entry.size = Math.min(perKey, entry.size + 1)
    }

    return {
      take: (tenant, key) => {
        const entry = entryOf(tenant, key)
        const call = Symbol()
        let taken = true
        entry.held++
        held++
        return {
          begin: () => void entry.running.set(call, now()),
          end: (how) => {
            if (!taken) return
            taken = false
            entry.running.delete(call)
            ended(entry, how)
          }
        }
      },
      limits: () => {
        const at = now()
        const byTenant = new Map<string, number>()
        let suspects = 0
        for (const [name, entry] of entries) {
          if (entry.held === 0 && at - entry.endedAt >= forgotten) entries.delete(name)
          byTenant.set(entry.tenant, (byTenant.get(entry.tenant) ?? 0) + entry.held)
          if (isSuspect(entry, at)) suspects += entry.held
        }
        const forSuspects = Math.max(0, Math.floor(total * failingShare) - suspects)
        const freeOf = (entry: Entry) =>
          Math.max(0, Math.min(isSuspect(entry, at) ? forSuspects : total, entry.size - entry.held))
        return {
          free: Math.max(0, total - held),
          keys: [...entries.values()]
            .map((entry) => ({ tenant: entry.tenant, key: entry.key, free: freeOf(entry) }))
            .filter(({ free }) => free !== initial),
          tenants: Array.from(byTenant, ([tenant, held]) => ({ tenant, held })).filter(({ held }) => held > 0),
          newKey: initial
        }
      }
    }
  })
