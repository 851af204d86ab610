/** A campaign with one recipient, and the statements that release, record and collect its messages, at chosen times. */
import { assert } from "@effect/vitest"
import { Effect, Option } from "effect"
import { collect } from "../../src/campaigns/Runner/Recipients.ts"
import { release } from "../../src/campaigns/Runner/Release.ts"
import { type Attempt, claim, record } from "../../src/messaging/Messages/Attempts.ts"
import type { Outcome } from "../../src/messaging/providers/Outcomes.ts"
import { outcomes } from "../../src/messaging/providers/Providers.ts"
import { resultOf } from "../../src/messaging/RetrySchedule.ts"
import { limitsOf, timeOf } from "../support/Claims.ts"
import { TestServer } from "../support/TestServer.ts"
import { campaignOf, cancelAll, type Plan } from "./Runner.support.ts"

const begin = Date.UTC(2026, 10, 20, 10)
export const lease = 60_000
export const nowhere = "http://127.0.0.1:1/hook"

export const accepted: Outcome = { _tag: "accepted", providerMessageId: "p" }
export const refused: Outcome = { _tag: "refused", errorCode: "http_403" }
export const postponed = { _tag: "postponed", errorCode: "http_503", retryAfter: Option.none() } satisfies Outcome
export const unclear: Outcome = { _tag: "unknown", errorCode: "http_500" }

/** The terms of a release that returns up to `free` messages; times are in milliseconds. */
export const termsOf = (sql: TestServer["Service"]["sql"], at: number, until = at, free = 1) => ({
  now: timeOf(sql, new Date(at)),
  until: timeOf(sql, new Date(until)),
  leaseMillis: lease,
  workerId: null,
  limits: limitsOf(free)
})

/** Creates a campaign to one recipient, at one send a millisecond. Times are in milliseconds. */
export const scene = Effect.fnUntraced(function* (plan: Partial<Plan> = {}) {
  const server = yield* TestServer
  const { sql } = server
  yield* cancelAll(server)
  const campaign = yield* campaignOf(server, { recipients: 1, primary: nowhere, ...plan })
  const { projectId, recipients } = campaign
  const at = (millis: number) => timeOf(sql, new Date(begin + millis))
  const claims = (millis: number) => Effect.orDie(release(sql, termsOf(sql, begin + millis)))
  const collected = Effect.orDie(collect(sql))
  /** Records the result of a call and collects it. */
  const recordAs = (attempt: Attempt, outcome: Outcome, millis = 0) =>
    Effect.orDie(Effect.andThen(record(sql, at(millis), [{ attempt, result: resultOf(attempt, outcome) }]), collected))
  return {
    ...campaign,
    sql,
    claims,
    /** Releases the recipient; fails if none can be released. */
    claimed: (millis: number) => Effect.map(claims(millis), ([claim = assert.fail("nobody is released")]) => claim),
    record: recordAs,
    /** Takes over messages whose lease has ended. */
    reclaim: Effect.fnUntraced(function* (millis: number) {
      const lost = yield* Effect.orDie(claim(sql, termsOf(sql, begin + millis, 0, 100)))
      for (const attempt of lost) {
        assert.isTrue(attempt.lost)
        if (attempt.projectId === projectId) yield* recordAs(attempt, outcomes.leaseLost, millis)
      }
    }),
    /** Reads the recipient's status, route, attempts and doubt. */
    recipientState: Effect.map(recipients, ([row = assert.fail("no recipient")]) =>
      [row.status, row.route, row.attempts, ...(row.inDoubt ? ["in doubt"] : [])].join(" ")
    ),
    /** Reads the status of each message of the campaign. */
    messages: Effect.map(
      Effect.orDie(sql<{ readonly status: string; readonly channel: string }>`
        SELECT status, channel_id AS channel FROM messages WHERE project_id = ${projectId} ORDER BY channel_id DESC`),
      (rows) => rows.map(({ channel, status }) => `${status} ${channel}`)
    )
  }
})
