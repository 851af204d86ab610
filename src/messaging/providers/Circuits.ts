/**
 * A circuit breaker for each channel.
 *
 *   closed ── five calls in a row without an answer ──▶ open ── open period over ──▶ half-open
 *      ▲                                                 ▲                             │
 *      └──────────── the probe is answered ──────────────┼─────────────────────────────┤
 *                                                        └── the probe is not answered ┘
 *
 * Any answer of the provider counts as a success, because the breaker only prevents calls to providers that hang or cannot be
 * reached. A config that no key of this process opens counts as a call without an answer: recipients of campaigns wait, and
 * other processes may have the key. An open circuit admits a probe after 5 s. Each failed probe doubles this period, up to a
 * minute. The state is local to this process.
 */
import { Context, Data, Duration, Effect, Exit, Layer, Schedule } from "effect"
import * as CircuitBreaker from "effect/persistence/CircuitBreaker"
import type { ChannelId, ProjectId } from "../../api/schema/Ids.ts"
import { byMonotonicTime } from "../../platform/MonotonicTime.ts"
import { isUnanswered, type Outcome } from "./Outcomes.ts"

const failuresInARow = 5
const firstOpenPeriod = Duration.seconds(5)
const longestOpenPeriod = Duration.minutes(1)

export interface Channel {
  readonly projectId: ProjectId
  readonly channelId: ChannelId
}

/** A channel whose circuit is not closed, and the number of calls that it admits now. */
export interface OpenCircuit extends Channel {
  readonly admits: 0 | 1
}

/** The call was not made because the channel's circuit is open. */
export class CircuitOpen extends Data.TaggedError("CircuitOpen") {}

const isProbeDue = (state: CircuitBreaker.State) =>
  state._tag === "Open" ? Duration.toMillis(state.retryAfter) <= 0 : state._tag === "HalfOpen" && !state.probing

/** The store of circuit states. It measures open periods by monotonic time. */
const monotonicStore = Layer.effect(
  CircuitBreaker.CircuitBreakerStore,
  Effect.map(CircuitBreaker.CircuitBreakerStore, (store) => ({
    admit: (...args) => byMonotonicTime(store.admit(...args)),
    record: (...args) => byMonotonicTime(store.record(...args)),
    state: (...args) => byMonotonicTime(store.state(...args))
  }))
)

export class Circuits extends Context.Service<
  Circuits,
  {
    /** Makes a call unless the channel's circuit is open, and records its outcome in the circuit. */
    readonly guard: <R>(
      channel: Channel,
      call: Effect.Effect<Outcome, never, R>
    ) => Effect.Effect<Outcome, CircuitOpen, R>
    readonly open: Effect.Effect<ReadonlyArray<OpenCircuit>>
  }
>()("developer-api/messaging/providers/Circuits") {
  static readonly layer = Layer.effect(
    Circuits,
    Effect.gen(function* () {
      const breaker = yield* CircuitBreaker.make({
        tripPolicy: CircuitBreaker.consecutive(failuresInARow),
        openDuration: Schedule.min([Schedule.exponential(firstOpenPeriod), Schedule.spaced(longestOpenPeriod)])
      })
      /** The channels whose circuit may be open or half-open. */
      const watched = new Map<string, Channel>()
      const keyOf = ({ channelId, projectId }: Channel) => JSON.stringify([projectId, channelId])

      const stateOf = Effect.fnUntraced(function* (channel: Channel) {
        const state = yield* breaker.state(keyOf(channel))
        if (state._tag === "Closed") watched.delete(keyOf(channel))
        // After the open period the state stays `Open` until a probe is admitted.
        const admits: OpenCircuit["admits"] = isProbeDue(state) ? 1 : 0
        return state._tag === "Closed" ? [] : [{ ...channel, admits }]
      })

      return {
        guard: (channel, call) =>
          call.pipe(
            breaker.execute({
              key: keyOf(channel),
              classify: (exit) => {
                if (!Exit.isSuccess(exit)) return CircuitBreaker.ignored
                if (!isUnanswered(exit.value)) return CircuitBreaker.success
                watched.set(keyOf(channel), channel)
                return CircuitBreaker.failure()
              }
            }),
            Effect.catchTag("CircuitBreakerError", () => Effect.fail(new CircuitOpen()))
          ),
        open: Effect.suspend(() =>
          Effect.map(Effect.forEach([...watched.values()], stateOf), (states) => states.flat())
        ).pipe(Effect.orDie)
      }
    })
  ).pipe(Layer.provide(Layer.provide(monotonicStore, CircuitBreaker.layerStoreMemory())))
}
