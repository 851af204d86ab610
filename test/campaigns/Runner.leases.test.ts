/** Leases of recipients: who claims, records and finds what was lost, by the statements that do it, at times of the test's. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { type Claim, claim, reclaim } from "../../src/campaigns/Runner/Claims.ts"
import { recipientResult, record, released, type Result } from "../../src/campaigns/Runner/Results.ts"
import type { Outcome } from "../../src/messaging/Connectors.ts"
import { maxAttempts } from "../../src/messaging/Messages/Schedule.ts"
import { TestServer } from "../support/TestServer.ts"
import { campaignOf, cancelAll, type Plan } from "./Runner.support.ts"

const begin = Date.UTC(2026, 10, 20, 10)
const lease = 60_000
const nowhere = "http://127.0.0.1:1/hook"

const accepted: Outcome = { _tag: "accepted", providerMessageId: "p" }
const refused: Outcome = { _tag: "refused", errorCode: "http_403" }

/** A campaign to one recipient, at one send a millisecond. Times are in milliseconds. */
const scene = Effect.fnUntraced(function* (plan: Partial<Plan> = {}) {
  const server = yield* TestServer
  const { sql } = server
  yield* cancelAll(server)
  const { recipients } = yield* campaignOf(server, { recipients: 1, primary: nowhere, ...plan })
  const at = (millis: number) => new Date(begin + millis)
  return {
    sql,
    /** Claims the recipient, who has to be there to be claimed. */
    claimed: (millis: number) =>
      claim(sql, { now: at(millis), until: at(millis), leaseMillis: lease, slots: 1 }).pipe(
        Effect.orDie,
        Effect.map(([claim = assert.fail("nobody is claimed")]) => claim)
      ),
    record: (result: Result) => Effect.orDie(record(sql, [result])),
    reclaim: (millis: number) => Effect.orDie(reclaim(sql, at(millis), ["http", "sandbox"], maxAttempts)),
    /** How the recipient stands. */
    standing: Effect.map(recipients, ([row = assert.fail("no recipient")]) =>
      [row.status, row.route, row.attempts, ...(row.inDoubt ? ["in doubt"] : [])].join(" ")
    )
  }
})

const resultOf = (claim: Claim, outcome: Outcome) => recipientResult(claim, true, outcome, new Date(begin))

layer(TestServer.layer({}, "api"), { excludeTestServices: true, timeout: "60 seconds" })("a recipient", (it) => {
  it.effect("is nobody else's until the lease has ended", () =>
    Effect.gen(function* () {
      const { claimed, reclaim, standing } = yield* scene()
      yield* claimed(0)
      yield* reclaim(lease - 1)
      assert.strictEqual(yield* standing, "sending primary 1")
      yield* reclaim(lease)
      assert.strictEqual(yield* standing, "pending primary 1 in doubt")
      const { attempt, inDoubt } = yield* claimed(lease)
      assert.deepStrictEqual({ attempt, inDoubt }, { attempt: 2, inDoubt: true })
    })
  )

  it.effect("is not called again once the lease was lost, where the provider knows no keys", () =>
    Effect.gen(function* () {
      const { claimed, reclaim, record, standing } = yield* scene({ primaryType: "telegram", fallback: nowhere })
      const first = yield* claimed(0)
      yield* reclaim(lease)
      assert.strictEqual(yield* standing, "unknown primary 1 in doubt")
      // Nor is it told to have been sent by one whose turn is over.
      yield* record(resultOf(first, accepted))
      assert.strictEqual(yield* standing, "unknown primary 1 in doubt")
    })
  )

  it.effect("goes by the route on which it was called, when the lease is lost", () =>
    Effect.gen(function* () {
      const { claimed, reclaim, record, standing } = yield* scene({ primaryType: "telegram", fallback: nowhere })
      yield* record(resultOf(yield* claimed(0), refused))
      assert.strictEqual(yield* standing, "pending fallback 0")
      const { route } = yield* claimed(1)
      assert.strictEqual(route, "fallback")
      yield* reclaim(1 + lease)
      assert.strictEqual(yield* standing, "pending fallback 1 in doubt")
    })
  )

  it.effect("is given up when five leases in a row were lost", () =>
    Effect.gen(function* () {
      const { claimed, reclaim, standing } = yield* scene()
      for (let attempt = 1; attempt <= maxAttempts; attempt++) {
        yield* claimed(2 * attempt * lease)
        yield* reclaim((2 * attempt + 1) * lease)
      }
      assert.strictEqual(yield* standing, "unknown primary 5 in doubt")
    })
  )

  it.effect("is not settled by a result that comes when somebody else is at it", () =>
    Effect.gen(function* () {
      const { claimed, reclaim, record, standing } = yield* scene()
      const first = yield* claimed(0)
      yield* reclaim(lease)
      yield* record(resultOf(first, refused))
      assert.strictEqual(yield* standing, "pending primary 1 in doubt")
      const second = yield* claimed(lease)
      yield* record(resultOf(first, refused))
      assert.strictEqual(yield* standing, "sending primary 2 in doubt")
      yield* record(resultOf(second, accepted))
      yield* record(resultOf(first, refused))
      assert.strictEqual(yield* standing, "sent primary 2 in doubt")
    })
  )

  it.effect("that is given back before the call is as if it had never been claimed", () =>
    Effect.gen(function* () {
      const { claimed, record, standing } = yield* scene({ primaryType: "telegram" })
      yield* record(released(yield* claimed(0)))
      assert.strictEqual(yield* standing, "pending primary 0")
      const { attempt, inDoubt } = yield* claimed(1)
      assert.deepStrictEqual({ attempt, inDoubt }, { attempt: 1, inDoubt: false })
    })
  )
})
