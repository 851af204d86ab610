/** A campaign, and the statements that release, record and collect the messages of its recipients, at chosen times. */
import { assert } from "@effect/vitest"
import { Effect, Option } from "effect"
import { collect } from "../../src/campaigns/Recipients.ts"
import { release } from "../../src/campaigns/Runner/Release.ts"
import { type Lease, record } from "../../src/messaging/Calls.ts"
import { claim } from "../../src/messaging/Claim.ts"
import type { CallOutcome } from "../../src/messaging/providers/Connector.ts"
import { outcomes } from "../../src/messaging/providers/Connectors.ts"
import { resultOf } from "../../src/messaging/Message.ts"
import { limitsOf, timeOf } from "../support/Claims.ts"
import { TestServer } from "../support/TestServer.ts"
import { campaignOf, cancelAll, type Plan, type Recipient } from "./Runner.support.ts"

const begin = Date.UTC(2026, 10, 20, 10)
export const lease = 60_000
export const nowhere = "http://127.0.0.1:1/hook"

export const accepted: CallOutcome = { _tag: "accepted", providerMessageId: "p" }
export const refused: CallOutcome = { _tag: "refused", errorCode: "http_403" }
export const postponed = { _tag: "postponed", errorCode: "http_503", retryAfter: Option.none() } satisfies CallOutcome
export const unclear: CallOutcome = { _tag: "unknown", errorCode: "http_500" }

/** Returns the status, route, attempts and doubt of a recipient. */
export const stateOf = ({ attempts, inDoubt, route, status }: Recipient) =>
  [status, route, attempts, ...(inDoubt ? ["in doubt"] : [])].join(" ")

/** The terms of a release that returns up to `free` messages; times are in milliseconds. */
export const termsOf = (sql: TestServer["Service"]["sql"], at: number, until = at, free = 1) => ({
  now: timeOf(sql, new Date(at)),
  until: timeOf(sql, new Date(until)),
  leaseMillis: lease,
  workerId: null,
  limits: limitsOf(free),
  passed: []
})

/** Releases recipients, and returns their messages. */
export const releasedBy = (sql: TestServer["Service"]["sql"], terms: ReturnType<typeof termsOf>) =>
  Effect.map(release(sql, terms), ({ claims }) => claims)

/** Creates a campaign, by default to one recipient, at one send a millisecond. Times are in milliseconds. */
export const scene = Effect.fnUntraced(function* (plan: Partial<Plan> = {}) {
  const server = yield* TestServer
  const { sql } = server
  yield* cancelAll(server)
  const campaign = yield* campaignOf(server, { recipients: 1, primary: nowhere, ...plan })
  const { projectId, recipients } = campaign
  const at = (millis: number) => timeOf(sql, new Date(begin + millis))
  /** Releases up to `free` recipients. */
  const claims = (millis: number, free = 1) =>
    Effect.orDie(releasedBy(sql, termsOf(sql, begin + millis, begin + millis + free - 1, free)))
  /** Records the results of calls and collects them. */
  const recordAll = (ended: ReadonlyArray<readonly [Lease, CallOutcome]>, millis = 0) =>
    record(
      sql,
      at(millis),
      ended.map(([lease, outcome]) => ({ lease, result: resultOf(lease, outcome) }))
    ).pipe(Effect.andThen(collect(sql)), Effect.orDie)
  const states = Effect.map(recipients, (rows) => rows.map(stateOf))
  return {
    ...campaign,
    sql,
    claims,
    recordAll,
    states,
    /** Releases the recipient; fails if none can be released. */
    claimed: (millis: number) => Effect.map(claims(millis), ([claim = assert.fail("nobody is released")]) => claim),
    record: (lease: Lease, outcome: CallOutcome, millis = 0) => recordAll([[lease, outcome]], millis),
    /** Takes over messages whose lease has ended. */
    reclaim: Effect.fnUntraced(function* (millis: number) {
      const lost = yield* Effect.orDie(claim(sql, termsOf(sql, begin + millis, 0, 1_000)))
      for (const claim of lost) assert.isTrue(claim.lost)
      const own = lost.filter((claim) => claim.projectId === projectId)
      yield* recordAll(
        own.map((claim) => [claim, outcomes.leaseLost]),
        millis
      )
    }),
    recipientState: Effect.map(states, ([state = assert.fail("no recipient")]) => state),
    /** Reads the status of each message of the campaign. */
    messages: Effect.map(
      Effect.orDie(sql<{ readonly status: string; readonly channel: string }>`
        SELECT status, channel_id AS channel FROM messages WHERE project_id = ${projectId} ORDER BY position, channel_id DESC`),
      (rows) => rows.map(({ channel, status }) => `${status} ${channel}`)
    )
  }
})
