/**
 * Makes the attempts to send messages, except the first attempt of a reply, which the request makes. Takes over attempts of dead
 * processes. Any number of processes may run this loop. `Messages/Record.ts` has the states of a message and the moves between
 * them. A source returns leased attempts:
 *
 *   due messages        this loop claims messages of conversations whose next attempt is due (`Attempts.ts`)
 *   campaigns           the runner releases recipients at the pace of their campaigns (`campaigns/Runner.ts`)
 *        │
 *   taken ── its time ── circuit closed ──▶ called, outcome recorded
 *     │           │        └─ circuit open ──▶ recorded as postponed (`circuit_open`), without a call
 *     │           └─ the process ends ──▶ recorded as postponed (`interrupted`), without a call
 *     └─ its lease has ended, or its worker is dead ──▶ recorded as unknown (`lease_lost`)
 *
 * Modes of the loop:
 *   - `taking`: the loop asks sources for attempts, within the permits of the channel and of this process
 *     (`providers/ChannelLimits.ts`). A channel with an open circuit has no permit, or one for its probe, so its messages and
 *     recipients wait.
 *   - `draining`: no attempts are taken; attempts in flight finish.
 *   - `ending`, once the supervisor ends its loops or the scope closes: attempts that a source returns now are not made. They are
 *     postponed; lost ones are recorded as unknown.
 *
 * A lease begins at the time of the attempt, and lasts for the deadline of a call plus 5 s by the database's clock. It is
 * never extended.
 */
import { Context, Duration, Effect, FiberSet, Layer, Semaphore } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { ServiceUnavailable } from "../api/Problems.ts"
import { untraced } from "../telemetry/Telemetry.ts"
import { forkMeasurement, forkPeriodic, Supervisor } from "../work/Supervisor.ts"
import { Worker } from "../work/Worker.ts"
import { databaseNow } from "../sql/Times.ts"
import { statement } from "../sql/Database.ts"
import { Calls, type Guard, measureQueue } from "./Calls.ts"
import * as ChannelLimits from "./providers/ChannelLimits.ts"
import { claim, type Claim, endLeasesOfDead, type Terms } from "./Attempts.ts"

const claimEvery = Duration.millis(250)
const takeoverEvery = Duration.millis(500)
const stalledAfter = Duration.seconds(30)

type Source = (terms: Terms) => Effect.Effect<ReadonlyArray<Claim>, SqlError.SqlError>

export class MessageLoop extends Context.Service<
  MessageLoop,
  {
    readonly take: (source: Source) => Effect.Effect<void, ServiceUnavailable>
    /** Stops taking attempts, and waits until all taken attempts are recorded. */
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

      // Uninterruptible, so that each attempt that a source leases is made or given back.
      const take = (source: Source) =>
        Effect.gen(function* () {
          const { free, ...limits } = channels.limits()
          if (mode !== "taking" || isEnding() || free === 0) return
          const terms = {
            now: yield* clock,
            leaseMillis: Duration.toMillis(calls.lease),
            workerId: worker.leaseId(),
            // Half of the free permits, so that the other source finds some.
            limits: { ...limits, free: Math.ceil(free / 2) }
          }
          const claims = yield* untraced(statement(source(terms)))
          // The process may have begun to end during the statement.
          const handle = isEnding() ? giveBack : attempt
          yield* Effect.forEach(claims, handle, { discard: true, concurrency: "unbounded" })
        }).pipe(taking.withPermit, Effect.uninterruptible)
      const isEnding = () => mode === "ending" || supervisor.isEnding()

      const takeOver = Effect.gen(function* () {
        const now = yield* clock
        yield* untraced(statement(endLeasesOfDead(sql, now, worker.isDead(sql, sql`worker_id`))))
      })

      const due = take((terms) => claim(sql, terms))
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
        take,
        drain: Effect.suspend(() => {
          if (mode === "taking") mode = "draining"
          // Waits for the `take` in progress. No attempts are taken after it.
          return Effect.andThen(taking.withPermit(Effect.void), FiberSet.awaitEmpty(fibers))
        })
      }
    })
  )
}
