/**
 * Makes attempts and records their results, even if the caller is interrupted. An attempt calls its provider once. A claim becomes a
 * lease when its attempt is made, and ends with a result. The metrics include the messages of campaigns.
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
import type { SqlClient as Sql } from "effect/sql/SqlClient"
import type { ServiceUnavailable } from "../api/Problems.ts"
import { coalesce } from "../sql/Batches.ts"
import { Contended, retryContended, unavailable, withOwnTime } from "../sql/Database.ts"
import type { MessageId, ProjectId } from "../api/schema/Ids.ts"
import { databaseNow, instant } from "../sql/Times.ts"
import { monotonicMillis } from "../platform/MonotonicTime.ts"
import { Settings } from "../platform/Settings.ts"
import type { CallOutcome } from "./providers/Connector.ts"
import type { Claim } from "./Claim.ts"
import { after, attemptAfter, before, columns, type Message, messages, type Result, resultOf } from "./Message.ts"
import { makeCall, outcomes } from "./providers/Connectors.ts"
import { type ProviderType, providerTypes } from "../api/messaging/Messaging.ts"
import { atZero, counter, increment, spanOf } from "../telemetry/Telemetry.ts"

/** A claim while its attempt is made. The first attempt of a reply begins as a lease. */
export type Lease = Omit<Claim, "lost" | "delayMillis">

/** A lease with the result of its attempt. */
export interface Ended {
  readonly lease: Lease
  readonly result: Result
}

/** Wraps a call, for example with a circuit breaker. */
export type Guard = (call: Effect.Effect<CallOutcome>) => Effect.Effect<CallOutcome>

/** Maximum number of results in one statement, and maximum number of these statements at a time. */
const batch = { size: 500, inFlight: 4 }

/** How often a recording is repeated while the message is locked, before the caller gets an error: for 2 s. */
const lockedRetries = { schedule: Schedule.spaced(Duration.millis(100)), times: 20 }

const isLocked = (error: Contended | ServiceUnavailable) => error._tag === "Contended"

export class Calls extends Context.Service<
  Calls,
  {
    /** Duration of an attempt's lease: the deadline of a call plus time to record its outcome (contract §8). */
    readonly lease: Duration.Duration
    /**
     * Makes a leased attempt, with its call wrapped by `guard`. If the caller is interrupted, the call continues, and its
     * outcome is recorded. Like `lose` and `postpone`, returns the message after the attempt; none if another process or an
     * operator had already ended the attempt.
     */
    readonly make: (lease: Lease, guard?: Guard) => Effect.Effect<Option.Option<Message>, ServiceUnavailable>
    /** Records as unknown an attempt whose lease has ended without a result. */
    readonly lose: (lease: Lease) => Effect.Effect<Option.Option<Message>, ServiceUnavailable>
    /** Records a leased attempt as postponed, without a call. */
    readonly postpone: (lease: Lease) => Effect.Effect<Option.Option<Message>, ServiceUnavailable>
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
      const duration = Duration.sum(providerTimeout, Duration.seconds(5))
      const clock = yield* Clock.Clock
      const fibers = yield* FiberSet.make<unknown, Contended | ServiceUnavailable>()

      const recordInBatch = coalesce(
        batch.size,
        (ended: ReadonlyArray<Ended>) =>
          Effect.gen(function* () {
            const rows = yield* retryContended(record(sql, yield* now, ended))
            const found = new Map(rows.map((row) => [nameOf(row.project, row.id), row]))
            return ended.map(({ lease: { messageId, projectId } }): Option.Option<Message> | "locked" => {
              const row = found.get(nameOf(projectId, messageId))
              if (row === undefined) return Option.none()
              return row.messageId === null ? "locked" : Option.some(row)
            })
          }),
        { maxInFlight: batch.inFlight }
      )

      /** Records a result. Fails with `Contended` if another transaction has locked the message. */
      const recordOnce = (ended: Ended) =>
        Effect.flatMap(recordInBatch(ended), (found) =>
          found === "locked" ? Effect.fail(new Contended()) : Effect.succeed(found)
        )

      const recordOutcome = Effect.fnUntraced(function* (
        lease: Lease,
        outcome: CallOutcome
      ): Effect.fn.Return<Option.Option<Message>, ServiceUnavailable> {
        const result = resultOf(lease, outcome)
        yield* count(lease.providerType, result.on)
        const once = recordOnce({ lease, result })
        return yield* once.pipe(
          Effect.retry({ while: isLocked, ...lockedRetries }),
          Effect.catchTag("Contended", () => Effect.fail(unavailable())),
          // If the recording fails, the caller gets the error. In the background, the recording is repeated until it succeeds,
          // for as long as the message is locked, and otherwise for at most the duration of a lease.
          Effect.tapError(() => {
            const end = monotonicMillis(clock) + Duration.toMillis(duration)
            return Effect.retry(once, {
              schedule: Schedule.spaced(Duration.millis(500)),
              while: (error) => isLocked(error) || monotonicMillis(clock) < end
            }).pipe(FiberSet.run(fibers))
          })
        )
      })

      const attempt = (lease: Lease, guard: Guard) =>
        Effect.suspend(() => {
          const { address, conversationId, messageId, text } = lease
          let isCalled = false
          const call = Effect.suspend(() => {
            isCalled = true
            return send(lease, { messageId, conversationId, recipient: address, text })
          })
          return Effect.uninterruptibleMask((restore) =>
            restore(guard(call)).pipe(
              // Only the end of the process interrupts an attempt. If its call has begun, the outcome is unknown, because the
              // provider may have accepted the message.
              Effect.onInterrupt(() =>
                recordOutcome(lease, isCalled ? outcomes.interrupted : outcomes.notCalled).pipe(
                  Effect.timeoutOption(Duration.seconds(2)),
                  Effect.ignore
                )
              ),
              Effect.flatMap((outcome) => recordOutcome(lease, outcome))
            )
          )
        }).pipe(
          Effect.withSpan("Calls.make", {
            parent: spanOf(lease.traceparent),
            attributes: {
              "project.id": lease.projectId,
              "message.id": lease.messageId,
              "message.attempt": lease.number,
              ...(lease.campaignId === null ? {} : { "campaign.id": lease.campaignId })
            }
          })
        )

      return {
        lease: duration,
        // The attempt runs in its own fiber, so that it outlives an interrupted caller.
        make: (lease, guard = identity) =>
          Effect.uninterruptible(
            Effect.flatMap(FiberSet.run(fibers, withOwnTime(Effect.interruptible(attempt(lease, guard)))), (fiber) =>
              Effect.interruptible(Fiber.join(fiber))
            )
          ),
        lose: (lease) => recordOutcome(lease, outcomes.leaseLost),
        postpone: (lease) => recordOutcome(lease, outcomes.notCalled),
        drain: FiberSet.awaitEmpty(fibers)
      }
    })
  )
}

const nameOf = (projectId: string, messageId: string) => JSON.stringify([projectId, messageId])

/**
 * Records the results of attempts, and returns the messages. Returns no row for an attempt that already has a result. Skips a message
 * that another transaction has locked: the row has no message. The time of the next attempt is by the database's clock. A campaign's
 * message gets no `available_at`: it waits until `campaigns/Runner.ts` leases its next attempt. A message without an address is of a
 * client who was erased: its provider's answer is not stored, as it may repeat the text.
 */
export const record = (sql: Sql, now: Statement.Fragment, ended: ReadonlyArray<Ended>) => sql<
  { readonly project: ProjectId; readonly id: MessageId } & (Message | { readonly messageId: null })
>`
  WITH result AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(${JSON.stringify(ended.map(rowOf))}::jsonb) AS result (
      project_id text, id text, number int, "from" text[], "to" text, entry jsonb, delay float8
    )
  ),
  open AS MATERIALIZED (SELECT result.* FROM ${attemptsOf(sql)}),
  locked AS MATERIALIZED (SELECT result.* FROM ${attemptsOf(sql)} FOR NO KEY UPDATE OF messages SKIP LOCKED),
  recorded AS (
    UPDATE messages SET status = "to", attempting = false, worker_id = NULL, updated_at = finished_at,
      available_at = CASE WHEN campaign_id IS NULL THEN next_at END,
      attempt_log = jsonb_set(attempt_log, '{-1}', attempt_log -> -1 || CASE address WHEN '' THEN entry - 'reason' ELSE entry END || jsonb_build_object(
        'finishedAt', ${instant(sql, sql`finished_at`)}, 'nextAttemptAt', ${instant(sql, sql`next_at`)}))
    FROM (SELECT date_trunc('milliseconds', ${now}) AS finished_at) AS clock,
      locked, LATERAL (SELECT finished_at + delay * interval '1 millisecond' AS next_at) AS time, channels
    WHERE messages.project_id = locked.project_id AND messages.id = locked.id
      AND channels.project_id = messages.project_id AND channels.id = messages.channel_id
    RETURNING messages.project_id, ${columns(sql, now)}
  )
  SELECT open.project_id AS project, open.id, recorded.* FROM open
    LEFT JOIN recorded ON recorded.project_id = open.project_id AND recorded."messageId" = open.id`

/** The messages whose attempts in flight the rows of `result` end. */
const attemptsOf = (sql: Sql) => sql`
  result JOIN messages ON messages.project_id = result.project_id AND messages.id = result.id
    AND messages.attempting AND messages.attempts = result.number AND messages.status = ANY(result."from")`

const rowOf = ({ lease: { messageId, number, projectId }, result }: Ended) => {
  const { delayMillis, errorCode, on, providerMessageId, reason } = result
  const entry = { status: attemptAfter[on], providerMessageId, errorCode, reason }
  return { project_id: projectId, id: messageId, number, from: before(on), to: after(on), entry, delay: delayMillis }
}

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
