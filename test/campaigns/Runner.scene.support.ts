/** A campaign with one recipient, and the statements that claim, record and reclaim it, at chosen times. */
import { assert } from "@effect/vitest"
import { Effect, Option } from "effect"
import { type Claim, claim, reclaim } from "../../src/campaigns/Runner/Claims.ts"
import { recipientResult, record, type Result } from "../../src/campaigns/Runner/Results.ts"
import type { Outcome } from "../../src/messaging/Outcomes.ts"
import { maxAttempts } from "../../src/messaging/RetrySchedule.ts"
import { limitsOf, timeOf } from "../support/Claims.ts"
import { TestServer } from "../support/TestServer.ts"
import { campaignOf, cancelAll, type Plan } from "./Runner.support.ts"

const begin = Date.UTC(2026, 10, 20, 10)
export const lease = 60_000
export const idempotent = ["http", "sandbox"] as const
export const nowhere = "http://127.0.0.1:1/hook"

export const accepted: Outcome = { _tag: "accepted", providerMessageId: "p" }
export const refused: Outcome = { _tag: "refused", errorCode: "http_403" }
export const postponed = { _tag: "postponed", errorCode: "http_503", retryAfter: Option.none() } satisfies Outcome

/** Creates a campaign to one recipient, at one send a millisecond. Times are in milliseconds. */
export const scene = Effect.fnUntraced(function* (plan: Partial<Plan> = {}) {
  const server = yield* TestServer
  const { sql } = server
  yield* cancelAll(server)
  const { apply, projectId, recipients } = yield* campaignOf(server, { recipients: 1, primary: nowhere, ...plan })
  const at = (millis: number) => timeOf(sql, new Date(begin + millis))
  const claims = (millis: number) =>
    Effect.orDie(
      claim(sql, {
        now: at(millis),
        until: at(millis),
        leaseMillis: lease,
        workerId: null,
        limits: limitsOf(1),
        idempotent
      })
    )
  return {
    sql,
    projectId,
    apply,
    claims,
    /** Claims the recipient; fails if none can be claimed. */
    claimed: (millis: number) => Effect.map(claims(millis), ([claim = assert.fail("nobody is claimed")]) => claim),
    record: (result: Result) => Effect.orDie(record(sql, at(0), [result])),
    reclaim: (millis: number) =>
      Effect.orDie(reclaim(sql, { now: at(millis), idempotent, attempts: maxAttempts, isDead: sql`false` })),
    /** Reads the recipient's status, route, attempts and doubt. */
    recipientState: Effect.map(recipients, ([row = assert.fail("no recipient")]) =>
      [row.status, row.route, row.attempts, ...(row.inDoubt ? ["in doubt"] : [])].join(" ")
    )
  }
})

export const resultOf = (claim: Claim, outcome: Outcome) => recipientResult(claim, true, outcome)
