/**
 * Runs campaigns: starts due campaigns, releases recipients at the pace of the campaign, and completes campaigns. Any number of
 * processes may run it. Supervised fibers share the work:
 *
 *   campaign progress   moves campaigns: scheduled → running → completed (`advance`)
 *   campaign messages   moves recipients: sending → sent, failed, pending …, by the outcomes of their messages
 *                       (`Recipients.ts`); pending → sending, when their message may be sent (`Runner/Release.ts`)
 *
 * `Recipients.ts` has the states of a recipient and the moves between them. A released recipient has a message with a
 * leased attempt. `messaging/MessageLoop.ts` makes and records it like any other attempt. Only the message records what was
 * sent, and the recipient gets its state from the message. Between two attempts the recipient is `pending`. So each attempt
 * keeps to the pace of the campaign, and none is leased after the campaign is paused or cancelled, or the client has withdrawn
 * consent.
 */
import { Clock, Duration, Effect, Layer, Option } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import { MessageLoop } from "../messaging/MessageLoop.ts"
import { forkPeriodic } from "../work/Supervisor.ts"
import { statement } from "../sql/Database.ts"
import { databaseNow, later } from "../sql/Times.ts"
import { monotonicMillis } from "../platform/MonotonicTime.ts"
import { untraced } from "../telemetry/Telemetry.ts"
import { collect, isOpen } from "./Recipients.ts"
import { type Passed, release } from "./Runner/Release.ts"
import { isAwake } from "../platform/MoveState.ts"

/**
 * How far ahead sends are released, in milliseconds: twice the time since the last release, so that a busy database does not slow
 * the pace, within these bounds. A campaign that is paused still sends what was released.
 */
const horizon = { minimum: 300, maximum: 2_000 }
const releaseEvery = Duration.millis(150)
const progressEvery = Duration.millis(500)
const stalledAfter = Duration.seconds(30)
/** Time after which the recipients that wait for open circuits are looked at again, as another route may reach them now. */
const passedFor = Duration.minutes(1)
/** Maximum duration of the last collection when the process ends. */
const lastTimeout = Duration.seconds(2)

export const layer = Layer.effectDiscard(
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const messages = yield* MessageLoop
    const databaseClock = yield* databaseNow(sql)
    const clock = yield* Clock.Clock
    /** Whether a campaign is running, or a recipient of any campaign is `sending`. */
    let busy = false

    const progress = Effect.gen(function* () {
      const [campaigns] = yield* untraced(statement(advance(sql, yield* databaseClock)))
      busy = campaigns?.busy === true
    })

    const collected = untraced(statement(collect(sql)))

    let passed: ReadonlyArray<Passed> = []
    let forgetAt = 0
    let releasedAt = monotonicMillis(clock)
    /** Uninterruptible, so that each attempt that the statement leases is made or given back. */
    const released = Effect.gen(function* () {
      const terms = yield* messages.terms
      if (Option.isNone(terms)) return
      const now = monotonicMillis(clock)
      if (now >= forgetAt) [passed, forgetAt] = [[], now + Duration.toMillis(passedFor)]
      const ahead = Math.min(Math.max(horizon.minimum, 2 * (now - releasedAt)), horizon.maximum)
      releasedAt = now
      const until = later(sql, terms.value.now, ahead)
      const { claims, passed: found } = yield* untraced(statement(release(sql, { ...terms.value, until, passed })))
      const isFound = (old: Passed) =>
        found.some(({ campaignId, projectId }) => campaignId === old.campaignId && projectId === old.projectId)
      passed = [...found, ...passed.filter((old) => !isFound(old))]
      yield* messages.make(claims)
    }).pipe(Effect.scoped, Effect.uninterruptible)

    // When the process ends, collects the outcomes of its last messages.
    yield* Effect.addFinalizer(() => Effect.ignoreCause(Effect.timeoutOption(collected, lastTimeout)))
    yield* forkPeriodic("campaign progress", { interval: progressEvery, stalledAfter }, progress)
    yield* forkPeriodic(
      "campaign messages",
      { interval: releaseEvery, stalledAfter },
      Effect.suspend(() => (busy ? Effect.andThen(collected, released) : Effect.void))
    )
  })
)

/** Maximum delay of a start. After a longer delay the campaign is paused, and an operator decides. */
const latest = "6 hours"

/**
 * Starts and completes campaigns, and increments their versions. Returns whether a campaign is running or a recipient is
 * `sending`. The delay of a start counts from the scheduled time, or from the resume if that was later. `updated_at` never
 * decreases, even if the clock of the previous change was ahead. `finished` leaves out a campaign that has changed since the snapshot: an
 * operator may have retried recipients, which the snapshot does not show as pending. With NOT EXISTS, PostgreSQL might read the recipients of all campaigns
 * for each campaign.
 */
const advance = (sql: SqlClient.SqlClient, now: Statement.Fragment) => sql<{ readonly busy: boolean }>`
  WITH due AS MATERIALIZED (
    SELECT project_id, id, greatest(scheduled_for, resumed_at) < ${now} - ${latest}::interval AS is_late
    FROM campaigns WHERE status = 'scheduled' AND scheduled_for <= ${now} AND ${isAwake(sql, "project_id")}
    FOR NO KEY UPDATE SKIP LOCKED
  ),
  started AS (
    UPDATE campaigns SET
      status = CASE WHEN is_late THEN 'paused' ELSE 'running' END,
      paused_from = CASE WHEN is_late THEN 'scheduled' END,
      version = version + 1, updated_at = greatest(updated_at, ${now})
    FROM due WHERE campaigns.project_id = due.project_id AND campaigns.id = due.id
    RETURNING campaigns.status
  ),
  seen AS MATERIALIZED (
    SELECT project_id, id, version FROM campaigns
    WHERE status = 'running' AND ${isAwake(sql, "project_id")} AND (
      SELECT true FROM campaign_recipients AS recipient
      WHERE recipient.project_id = campaigns.project_id AND recipient.audience_id = campaigns.audience_id
        AND ${isOpen(sql, "recipient.status")} LIMIT 1
    ) IS NULL
  ),
  finished AS MATERIALIZED (
    SELECT campaigns.project_id, campaigns.id FROM seen
      JOIN campaigns ON campaigns.project_id = seen.project_id AND campaigns.id = seen.id AND campaigns.version = seen.version
    FOR NO KEY UPDATE OF campaigns SKIP LOCKED
  ),
  completed AS (
    UPDATE campaigns SET status = 'completed', version = version + 1, updated_at = greatest(updated_at, ${now})
    FROM finished WHERE campaigns.project_id = finished.project_id AND campaigns.id = finished.id
    RETURNING campaigns.id
  )
  SELECT EXISTS (SELECT FROM started WHERE status = 'running')
    OR EXISTS (SELECT FROM campaigns WHERE status = 'running')
    OR coalesce((SELECT true FROM campaign_recipients WHERE status = 'sending' LIMIT 1), false) AS busy`
