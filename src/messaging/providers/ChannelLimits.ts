/**
 * Limits of the calls to the providers of channels, in this process.
 *
 * Permits. Each attempt of `MessageLoop.ts` holds one permit of its channel until its call ends. A channel may hold `initial`
 * permits at first. With each answered call this limit grows by one, up to `perChannel`, so that it doubles while all permits are
 * used. A call without an answer resets the limit to `initial`. A channel is suspect after a call without an answer, until its next
 * answer, and while one of its calls has run for `slowAfter` or longer. Suspect channels get no new permits while together they
 * hold `suspectShare` of all permits. So a provider that hangs leaves permits for other channels.
 *
 * Circuit breakers, one for each channel. A circuit opens after five calls in a row without an answer. Any answer of the provider
 * counts as a success, because the breaker only prevents calls to providers that hang or cannot be reached. If no key of this
 * process opens a channel's config, this counts as a call without an answer: recipients of campaigns wait, and other processes
 * may have the key. An open circuit admits a probe after 5 s. This period doubles, up to a minute, when a probe fails, and when a
 * circuit opens again after it was closed for less than its last open period.
 */
import { Clock, Context, Duration, Effect, Exit, Schedule } from "effect"
import { CircuitBreaker } from "effect/persistence"
import type { ChannelId, ProjectId } from "../../api/schema/Ids.ts"
import { monotonicClock, monotonicMillis } from "../../platform/MonotonicTime.ts"
import { isUnanswered, type CallOutcome } from "./Connector.ts"
import { outcomes } from "./Connectors.ts"

/**
 * Maximum numbers of attempts in flight, or about to start, in one process: in total, for a channel, and for a channel at first.
 */
const total = 1_024
const perChannel = 512
const initial = 4
const suspectShare = 0.25

/** Times are in milliseconds. */
const slowAfter = 1_000
/** A channel without taken permits is forgotten when this time has passed since its last call. */
const forgetAfter = 600_000

const circuits = CircuitBreaker.make({
  tripPolicy: CircuitBreaker.consecutive(5),
  openDuration: Schedule.min([Schedule.exponential("5 seconds"), Schedule.spaced("1 minute")])
}).pipe(Effect.provide(CircuitBreaker.layerStoreMemory({ idleTimeToLive: forgetAfter })))

/** An interrupted call says nothing about its provider. */
const classify = (exit: Exit.Exit<CallOutcome>) => {
  if (Exit.isFailure(exit)) return CircuitBreaker.ignored
  return isUnanswered(exit.value) ? CircuitBreaker.failure() : CircuitBreaker.success
}

export interface Channel {
  readonly projectId: ProjectId
  readonly channelId: ChannelId
}

export interface Permit {
  /** Makes a call, unless the channel's circuit admits none now. An interrupted call has no effect on the channel. */
  readonly use: (call: Effect.Effect<CallOutcome>) => Effect.Effect<CallOutcome>
  /** Gives the permit back. The second time, this has no effect. */
  readonly end: () => void
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

interface Entry extends Channel {
  /** Maximum number of permits that the channel may hold at present. */
  size: number
  held: number
  /** Whether the last call was not answered. */
  failed: boolean
  endedAt: number
  /** Start times of running calls, the oldest first. */
  readonly running: Map<symbol, number>
}

const nameOf = ({ channelId, projectId }: Channel) => JSON.stringify([projectId, channelId])

export const make = Effect.gen(function* () {
  const clock = yield* Clock.Clock
  const breaker = yield* circuits
  const durations = monotonicClock(clock)
  const runSync = Effect.runSyncWith(Context.make(Clock.Clock, durations))
  const entries = new Map<string, Entry>()
  const now = () => monotonicMillis(clock)
  let held = 0

  const entryOf = (channel: Channel) => {
    const name = nameOf(channel)
    const known = entries.get(name)
    if (known !== undefined) return known
    const { channelId, projectId } = channel
    const entry = { projectId, channelId, size: initial, held: 0, failed: false, endedAt: now(), running: new Map() }
    entries.set(name, entry)
    return entry
  }

  const isSuspect = ({ failed, running }: Entry, at: number) => {
    const [oldest] = running.values()
    return failed || (oldest !== undefined && at - oldest >= slowAfter)
  }

  /** Returns the number of calls that the circuit of a channel admits. */
  const admitted = (channel: Channel) => {
    const state = runSync(breaker.state(nameOf(channel)))
    if (state._tag === "Closed") return total
    return (state._tag === "Open" ? Duration.toMillis(state.retryAfter) > 0 : state.probing) ? 0 : 1
  }

  const ended = (entry: Entry, isAnswered: boolean) => {
    entry.size = isAnswered ? Math.min(perChannel, entry.size + 1) : initial
    entry.failed = !isAnswered
    entry.endedAt = now()
  }

  return {
    /** Takes a permit. The caller has checked in `limits` that one is free. */
    take: (channel: Channel): Permit => {
      const entry = entryOf(channel)
      const id = Symbol()
      let taken = true
      entry.held++
      held++
      return {
        use: (call) =>
          Effect.suspend(() => {
            entry.running.set(id, now())
            return call
          }).pipe(
            Effect.tap((outcome) => Effect.sync(() => ended(entry, !isUnanswered(outcome)))),
            Effect.ensuring(Effect.sync(() => entry.running.delete(id))),
            Effect.provideService(Clock.Clock, clock),
            breaker.execute({ key: nameOf(channel), classify }),
            Effect.provideService(Clock.Clock, durations),
            Effect.catchTag("CircuitBreakerError", () => Effect.succeed<CallOutcome>(outcomes.circuitOpen))
          ),
        end: () => {
          if (!taken) return
          taken = false
          entry.held--
          held--
        }
      }
    },
    /** Returns the free permits. A channel with an open circuit has none, or one for its probe. */
    limits: (): Limits => {
      const at = now()
      const byProject = new Map<ProjectId, number>()
      let suspects = 0
      for (const [name, entry] of entries) {
        const { endedAt, projectId } = entry
        if (entry.held === 0 && at - endedAt >= forgetAfter) entries.delete(name)
        byProject.set(projectId, (byProject.get(projectId) ?? 0) + entry.held)
        if (isSuspect(entry, at)) suspects += entry.held
      }
      const forSuspects = Math.max(0, Math.floor(total * suspectShare) - suspects)
      const freeOf = (entry: Entry) => {
        const most = Math.min(isSuspect(entry, at) ? forSuspects : total, entry.size - entry.held)
        return Math.max(0, Math.min(most, admitted(entry)))
      }
      const known = [...entries.values()]
      return {
        free: Math.max(0, total - held),
        channels: known
          .map((entry) => ({ projectId: entry.projectId, channelId: entry.channelId, free: freeOf(entry) }))
          .filter(({ free }) => free !== initial),
        projects: Array.from(byProject, ([projectId, held]) => ({ projectId, held })).filter(({ held }) => held > 0),
        newChannel: initial,
        blocked: known.filter((entry) => admitted(entry) === 0)
      }
    }
  }
})
