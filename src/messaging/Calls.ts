/**
 * Provider calls. An attempt calls its provider once. The outcome is recorded even if the caller is interrupted. The metrics of attempts
 * include the messages of campaigns; the metrics of the queue do not.
 */
import {
  Clock,
  Context,
  Duration,
  Effect,
  Fiber,
  FiberSet,
  identity,
  Layer,
  Metric,
  Option,
  Record,
  Schedule
} from "effect"
import { SqlClient, type Statement } from "effect/sql"
import type { ServiceUnavailable } from "../api/Problems.ts"
import { coalesce } from "../sql/Batches.ts"
import { Contended, retryContended, unavailable, withOwnTime } from "../sql/Database.ts"
import { databaseNow } from "../sql/Times.ts"
import { monotonicMillis } from "../platform/MonotonicTime.ts"
import { Settings } from "../platform/Settings.ts"
import type { Outcome } from "./providers/Connectors/Connector.ts"
import { type Attempt, type AttemptResult, record } from "./Attempts.ts"
import { type Message, messages, resultOf } from "./Messages/Record.ts"
import { makeCall, outcomes } from "./providers/Connectors.ts"
import { type ProviderType, providerTypes } from "../api/messaging/Messaging.ts"
import { isAwake } from "../platform/MoveState.ts"
import { atZero, counter, gauge, increment, spanOf } from "../telemetry/Telemetry.ts"

/** The message after the attempt; none if another process or an operator has already ended the attempt. */
type Recorded = Option.Option<Message>

/** Wraps a call, for example with a circuit breaker. */
export type Guard = (call: Effect.Effect<Outcome>) => Effect.Effect<Outcome>

/** Maximum number of results in one statement, and maximum number of these statements at a time. */
const batch = { size: 500, inFlight: 4 }

/** How often a result whose message is locked is recorded again before its caller gets an error: for 2 s. */
const lockedRetries = { schedule: Schedule.spaced(Duration.millis(100)), times: 20 }

const isLocked = (error: Contended | ServiceUnavailable) => error._tag === "Contended"

export class Calls extends Context.Service<
  Calls,
  {
    /** Duration of an attempt's lease: the deadline of a call plus time to record its outcome (contract §8). */
    readonly lease: Duration.Duration
    /**
     * Makes a leased attempt, with its call wrapped by `guard`. If the caller is interrupted, the call continues, and its
     * outcome is recorded.
     */
    readonly make: (attempt: Attempt, guard?: Guard) => Effect.Effect<Recorded, ServiceUnavailable>
    /** Records as unknown an attempt whose lease has ended without a result. */
    readonly lose: (attempt: Attempt) => Effect.Effect<Recorded, ServiceUnavailable>
    /** Records a leased attempt as postponed, without a call. */
    readonly postpone: (attempt: Attempt) => Effect.Effect<Recorded, ServiceUnavailable>
    /** Waits until all calls have ended and the recording of their outcomes has ended. */
    readonly drain: Effect.Effect<void>
  }
>()("developer-api-service/messaging/Calls") {
  static readonly layer = Layer.effect(
    Calls,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const send = yield* makeCall
      const { providerTimeout } = yield* Settings
      const now = yield* databaseNow(sql)
      const lease = Duration.sum(providerTimeout, Duration.seconds(5))
      const clock = yield* Clock.Clock
      const fibers = yield* FiberSet.make<unknown, Contended | ServiceUnavailable>()

      const recording = coalesce(
        batch.size,
        (attempted: ReadonlyArray<AttemptResult>) =>
          Effect.gen(function* () {
            const rows = yield* retryContended(record(sql, yield* now, attempted))
            const found = new Map(rows.map((row) => [nameOf(row.project, row.id), row]))
            return attempted.map(({ attempt: { messageId, projectId } }): Recorded | "locked" => {
              const row = found.get(nameOf(projectId, messageId))
              if (row === undefined) return Option.none()
              return row.messageId === null ? "locked" : Option.some(row)
            })
          }),
        { maxInFlight: batch.inFlight }
      )

      /** Records a result. Fails with `Contended` if another transaction has locked the message. */
      const recordOnce = (attempted: AttemptResult) =>
        Effect.flatMap(recording(attempted), (found) =>
          found === "locked" ? Effect.fail(new Contended()) : Effect.succeed(found)
        )

      const recorded = Effect.fnUntraced(function* (
        attempt: Attempt,
        outcome: Outcome
      ): Effect.fn.Return<Recorded, ServiceUnavailable> {
        const result = resultOf(attempt, outcome)
        yield* count(attempt.providerType, result.on)
        const once = recordOnce({ attempt, result })
        return yield* once.pipe(
          Effect.retry({ while: isLocked, ...lockedRetries }),
          Effect.catchTag("Contended", () => Effect.fail(unavailable())),
          // If the recording fails, the caller gets the error. In the background, the recording is repeated until it succeeds,
          // for as long as the message is locked, and otherwise for at most the duration of a lease.
          Effect.tapError(() => {
            const end = monotonicMillis(clock) + Duration.toMillis(lease)
            return Effect.retry(once, {
              schedule: Schedule.spaced(Duration.millis(500)),
              while: (error) => isLocked(error) || monotonicMillis(clock) < end
            }).pipe(FiberSet.run(fibers))
          })
        )
      })

      const attempt = (leased: Attempt, guard: Guard) =>
        Effect.suspend(() => {
          const { address, conversationId, messageId, text } = leased
          let isCalled = false
          const call = Effect.suspend(() => {
            isCalled = true
            return send(leased, { messageId, conversationId, recipient: address, text })
          })
          return Effect.uninterruptibleMask((restore) =>
            restore(guard(call)).pipe(
              // Only the end of the process interrupts an attempt. If its call has begun, the outcome is unknown, because the
              // provider may have accepted the message.
              Effect.onInterrupt(() =>
                recorded(leased, isCalled ? outcomes.interrupted : outcomes.notCalled).pipe(
                  Effect.timeoutOption(Duration.seconds(2)),
                  Effect.ignore
                )
              ),
              Effect.flatMap((outcome) => recorded(leased, outcome))
            )
          )
        }).pipe(
          Effect.withSpan("Calls.make", {
            parent: spanOf(leased.traceparent),
            attributes: {
              "project.id": leased.projectId,
              "message.id": leased.messageId,
              "message.attempt": leased.number,
              ...(leased.campaignId === null ? {} : { "campaign.id": leased.campaignId })
            }
          })
        )

      return {
        lease,
        // The attempt runs in its own fiber, so that it outlives an interrupted caller.
        make: (leased, guard = identity) =>
          Effect.uninterruptible(
            Effect.flatMap(FiberSet.run(fibers, withOwnTime(Effect.interruptible(attempt(leased, guard)))), (fiber) =>
              Effect.interruptible(Fiber.join(fiber))
            )
          ),
        lose: (leased) => recorded(leased, outcomes.leaseLost),
        postpone: (leased) => recorded(leased, outcomes.notCalled),
        drain: FiberSet.awaitEmpty(fibers)
      }
    })
  )
}

const nameOf = (projectId: string, messageId: string) => JSON.stringify([projectId, messageId])

const attempts = counter("message_attempts_total", "Attempts to send messages, by outcome")

const counted = Record.keys(messages.moves).filter((move) => !move.startsWith("settled"))

/** Creates every series of the counter. */
export const metrics = Layer.effectDiscard(
  atZero(
    providerTypes.flatMap((provider) =>
      counted.map((outcome) => Metric.withAttributes(attempts, { provider, outcome }))
    )
  )
)

const count = (provider: ProviderType, outcome: string) =>
  increment(Metric.withAttributes(attempts, { provider, outcome }))

const depth = gauge("message_queue_depth", "Messages of conversations that wait for another attempt, due or not")
const oldest = gauge("message_oldest_due_seconds", "For how long the oldest due message has waited")

/** Measures the messages of conversations that wait. */
export const measureQueue = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, now: Statement.Fragment) {
  const [queue] = yield* sql<{ readonly depth: number; readonly seconds: number }>`
    SELECT count(*)::int AS depth,
      greatest(0, coalesce(extract(epoch FROM ${now} - min(available_at)), 0))::float8 AS seconds
    FROM messages WHERE available_at IS NOT NULL AND NOT attempting AND ${isAwake(sql, "project_id")}`
  yield* Metric.update(depth, queue?.depth ?? 0)
  yield* Metric.update(oldest, queue?.seconds ?? 0)
})
