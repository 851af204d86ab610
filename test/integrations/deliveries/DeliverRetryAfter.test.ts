/** Endpoints that answer with `Retry-After` (contract §10). `Sender.answers` tests its forms. */
import { assert, describe, it } from "../../support/Vitest.ts"
import { Duration, Option } from "effect"
import { resultOf } from "../../../src/integrations/deliveries/DeliverySchedule.ts"
import { claimOf } from "../../support/Claims.ts"
import { TestServer } from "../../support/TestServer.ts"
import { ok, open, receiver, layerOf, status } from "./Deliveries.support.ts"
import { until, untilRows } from "../../support/Waiting.ts"

const created = ["crm.deal.created.v1"]

const hour = 3_600_000

describe("Retry-After", () => {
  const restOf = (status: number, retryAfter: Option.Option<Duration.Duration>) =>
    resultOf(
      claimOf(0),
      { _tag: "answered", status, retryAfter, body: null },
      { startedAt: 0, finishedAt: 0 },
      [Duration.minutes(1)],
      0.5
    ).restFor

  it("on 429 and 503 asks for a rest of at most an hour, and on other answers for none", () => {
    for (const code of [429, 503]) {
      assert.strictEqual(restOf(code, Option.none()), 0)
      for (const seconds of [0, 120, 3_600, 3_601, 86_400, 1e20]) {
        assert.strictEqual(restOf(code, Option.some(Duration.seconds(seconds))), Math.min(seconds * 1_000, hour))
      }
    }
    for (const code of [301, 400, 404, 408, 413, 425, 500, 502, 504]) {
      assert.strictEqual(restOf(code, Option.some(Duration.seconds(120))), 0, String(code))
    }
  })
})

layerOf({ WEBHOOK_RETRY_SCHEDULE: "1s" })("Retry-After near the end of the schedule", (it) => {
  it.effect("adds no attempt, and fails none that succeeded", function* () {
    const answers = { last: status(503, { "retry-after": "1" }), taken: status(202, { "retry-after": "120" }) }
    const project = yield* open(yield* TestServer, ["last", "taken"])
    for (const name of ["last", "taken"] as const) {
      yield* project.subscribe(name, (yield* receiver(answers[name])).url, created)
    }
    yield* project.created()
    yield* project.finished
    const outcomes = (yield* project.deliveries()).map(({ attempts, installation, status }) => [
      installation,
      status,
      attempts
    ])
    assert.sameDeepMembers(outcomes, [
      ["last", "dead", 2],
      ["taken", "delivered", 1]
    ])
  })

  it.effect("pauses the whole endpoint, and then its deliveries are sent", function* () {
    const shop = yield* receiver((hit, n) => (n === 0 ? status(503, { "retry-after": "2" }) : ok)(hit, n))
    const project = yield* open(yield* TestServer)
    yield* project.subscribe("shop", shop.url, created)
    yield* project.created()
    const [first] = yield* untilRows(project.deliveries(), ([row]) => row?.log[0] !== undefined)
    yield* project.created()
    yield* until(() => shop.hits.length === 3)
    const rest = Date.parse(first?.log[0]?.finishedAt ?? "") + 2_000
    const rows = yield* untilRows(project.deliveries(), (rows) =>
      rows.every(({ log }) => log.at(-1)?.statusCode === 200)
    )
    for (const { log } of rows) assert.isAtLeast(Date.parse(log.at(-1)?.startedAt ?? ""), rest)
  })
})

layerOf({ WEBHOOK_RETRY_SCHEDULE: "60s" })("Retry-After beside the schedule's delay", (it) => {
  for (const [what, retryAfter, from, to] of [
    ["longer than the delay puts off the next attempt", "120", 120_000, 130_000],
    ["shorter than the delay does not advance the next attempt", "5", 48_000, 72_000]
  ] as const) {
    it.effect(what, function* () {
      const shop = yield* receiver(status(503, { "retry-after": retryAfter }))
      const project = yield* open(yield* TestServer)
      yield* project.subscribe("shop", shop.url, created)
      yield* project.created()
      const [row] = yield* untilRows(project.deliveries(), ([row]) => row?.log.length === 1)
      assert.deepInclude(row, { status: "pending", attempts: 1, retries: 1 })
      assert.strictEqual((yield* project.health()).inFlight, 0)
      const wait = (row?.availableAt?.getTime() ?? 0) - Date.parse(row?.log[0]?.finishedAt ?? "")
      assert.isTrue(wait >= from && wait <= to, String(wait))
    })
  }
})
