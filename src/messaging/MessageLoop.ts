/**
 * Makes the attempts to send messages, except the first attempt of a reply, which the request makes. Takes over attempts of dead
 * processes. Any number of processes may run this loop. `Message.ts` has the states of a message and the moves between
 * them. Two statements lease attempts, one at a time, each on the `terms` of this loop, and hand their claims to `make`:
 *
 *   due messages        this loop claims messages of conversations whose next attempt is due (`Claim.ts`)
 *   campaigns           the runner releases recipients at the pace of their campaigns (`campaigns/Runner.ts`)
 *        │
 *   taken ── its time ── circuit closed ──▶ called, outcome recorded
 *     │           │        └─ circuit open ──▶ recorded as postponed (`circuit_open`), without a call
 *     │           └─ the process ends ──▶ recorded as postponed (`interrupted`), without a call
 *     └─ its lease has ended, or its worker is dead ──▶ recorded as unknown (`lease_lost`)
 *
 * Modes of the loop:
 *   - `taking`: attempts are leased, within the permits of the channel and of this process (`providers/ChannelLimits.ts`). A
 *     channel with an open circuit has no permit, or one for its probe, so its messages and recipients wait.
 *   - `draining`: no attempts are leased; attempts in flight finish.
 *   - `ending`, once the supervisor ends its loops or the scope closes: attempts that a statement in progress still leases are not
 *     made. They are postponed; lost ones are recorded as unknown.
 *
 * A lease begins at the time of the attempt, and lasts for the deadline of a call plus 5 s by the database's clock. It is
 * never extended.
 */
import { Context, Duration, Effect, FiberSet, Layer, Metric, Option, type Scope, Semaphore } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import { isAwake } from "../platform/MoveState.ts"
import { gauge, untraced } from "../telemetry/Telemetry.ts"
import { forkMeasurement, forkPeriodic, Supervisor } from "../work/Supervisor.ts"
import { Worker } from "../work/Worker.ts"
import { databaseNow } from "../sql/Times.ts"
import { statement } from "../sql/Database.ts"
import { Calls, type Guard } from "./Calls.ts"
import * as ChannelLimits from "./providers/ChannelLimits.ts"
import { claim, type Claim, endLeasesOfDead, type LeaseTerms } from "./Claim.ts"

const claimEvery = Duration.millis(250)
const takeoverEvery = Duration.millis(500)
const stalledAfter = Duration.seconds(30)

export class MessageLoop extends Context.Service<
  MessageLoop,
  {
    /**
     * Returns the terms for a statement that leases attempts; none if no attempt may be leased now. One statement at a time has
     * terms, until the scope closes. The caller hands the claims to `make` before that. It is uninterruptible from one to the other, so
     * that no leased attempt is lost, and a drain waits for it.
     */
    readonly terms: Effect.Effect<Option.Option<LeaseTerms>, never, Scope.Scope>
    /** Starts the attempts that a statement has leased on `terms`, or gives them back if the process ends. */
    readonly make: (claims: ReadonlyArray<Claim>) => Effect.Effect<void>
    /** Stops leasing attempts, and waits until all leased attempts are recorded. */
    readonly drain: Effect.Effect<void>
  }
>()("developer-api-service/messaging/MessageLoop") {
  static readonly layer = Layer.effect(
    MessageLoop,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const calls = yield* Calls
      const worker = yield* Worker
      const clock = yield* databaseNow(sql)
      const channels = yield* ChannelLimits.make
      const taking = yield* Semaphore.make(1)
      const supervisor = yield* Supervisor
      let mode: "taking" | "draining" | "ending" = "taking"
      const fibers = yield* FiberSet.make()

      /** Delays a call until the time of its attempt, and skips it if the circuit of its channel is open. */
      const guardOf =
        (claim: Claim, permit: ChannelLimits.Permit): Guard =>
        (call) =>
          Effect.delay(permit.use(call), Duration.millis(Math.max(0, claim.delayMillis)))

      const attempt = (claim: Claim) => {
        const permit = channels.take(claim)
        return (claim.lost ? calls.lose(claim) : calls.make(claim, guardOf(claim, permit))).pipe(
          Effect.catchCause((cause) => Effect.logWarning("An attempt was not recorded", cause)),
          Effect.ensuring(Effect.sync(permit.end)),
          (attempt) => FiberSet.run(fibers, attempt)
        )
      }

      const giveBack = (claim: Claim) =>
        (claim.lost ? calls.lose(claim) : calls.postpone(claim)).pipe(
          Effect.timeoutOption(Duration.seconds(2)),
          Effect.ignoreCause
        )

      const terms = Effect.gen(function* () {
        yield* taking.takeScoped(1)
        const { free, ...limits } = channels.limits()
        if (mode !== "taking" || isEnding() || free === 0) return Option.none()
        return Option.some({
          now: yield* clock,
          leaseMillis: Duration.toMillis(calls.lease),
          workerId: worker.leaseId(),
          // Half of the free permits, so that the other statement finds some.
          limits: { ...limits, free: Math.ceil(free / 2) }
        })
      })

      // The process may have begun to end during the statement.
      const make = (claims: ReadonlyArray<Claim>) =>
        Effect.suspend(() =>
          Effect.forEach(claims, isEnding() ? giveBack : attempt, { discard: true, concurrency: "unbounded" })
        )
      const isEnding = () => mode === "ending" || supervisor.isEnding()

      const takeOver = Effect.gen(function* () {
        const now = yield* clock
        yield* untraced(statement(endLeasesOfDead(sql, now, worker.isDead(sql, sql`worker_id`))))
      })

      const due = Effect.gen(function* () {
        const given = yield* terms
        if (Option.isSome(given)) yield* make(yield* untraced(statement(claim(sql, given.value))))
      }).pipe(Effect.scoped, Effect.uninterruptible)
      yield* forkPeriodic("message claims", { interval: claimEvery, stalledAfter }, due)
      yield* forkPeriodic("message takeover", { interval: takeoverEvery, stalledAfter }, takeOver)
      yield* forkMeasurement(
        "message metrics",
        Effect.flatMap(clock, (now) => measureQueue(sql, now))
      )
      // This finalizer is added last, so it runs first. From then on, messages that a statement in progress claims are given
      // back.
      yield* Effect.addFinalizer(() => Effect.sync(() => void (mode = "ending")))
      return {
        terms,
        make,
        drain: Effect.suspend(() => {
          if (mode === "taking") mode = "draining"
          // Waits for the statement in progress. No attempts are leased after it.
          return Effect.andThen(taking.withPermit(Effect.void), FiberSet.awaitEmpty(fibers))
        })
      }
    })
  )
}

const depth = gauge("message_queue_depth", "Messages of conversations that wait for another attempt, due or not")
const oldest = gauge("message_oldest_due_seconds", "For how long the oldest due message has waited")

/** Measures the messages of conversations that wait. */
const measureQueue = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, now: Statement.Fragment) {
  const [queue] = yield* sql<{ readonly depth: number; readonly seconds: number }>`
    SELECT count(*)::int AS depth,
      greatest(0, coalesce(extract(epoch FROM ${now} - min(available_at)), 0))::float8 AS seconds
    FROM messages WHERE available_at IS NOT NULL AND NOT attempting AND ${isAwake(sql, "project_id")}`
  yield* Metric.update(depth, queue?.depth ?? 0)
  yield* Metric.update(oldest, queue?.seconds ?? 0)
})
