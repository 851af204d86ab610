/**
 * Failed deliveries: which are retried and when, also after `Retry-After`, whose forms `Sender.answers` tests, and which are
 * dead-lettered (contract §10).
 */
import { assert, describe, it } from "../../support/Vitest.ts"
import { Duration, Effect, Option } from "effect"
import { resultOf } from "../../../src/webhooks/delivery/DeliveryLoop/Results.ts"
import { claimOf, leaseOf } from "../../support/Claims.ts"
import type { DeliveryRow } from "../../contract/Webhooks.support.ts"
import { problemOf } from "../../support/ContractAnswers.ts"
import { TestServer } from "../../support/TestServer.ts"
import { type Answering, hang, layerOf, open, openShop, receiver, reset, status } from "./Deliveries.support.ts"
import { until, untilRows } from "../../support/Waiting.ts"

const created = ["crm.deal.created.v1"]

/** Returns the result of each attempt: its status code, or its error code. */
const resultsOf = (row: DeliveryRow | undefined) => row?.log.map(({ errorCode, statusCode }) => statusCode ?? errorCode)

const times = (row: DeliveryRow | undefined) =>
  (row?.log ?? []).map(({ finishedAt, startedAt }) => [Date.parse(startedAt), Date.parse(finishedAt)] as const)

layerOf({ WEBHOOK_TIMEOUT: "1s", WEBHOOK_RETRY_SCHEDULE: "50ms,100ms" })("a delivery", (it) => {
  const failures: ReadonlyArray<readonly [string, Answering, string | number]> = [
    ["500", status(500), 500],
    ["silence", hang, "timeout"],
    ["a reset", reset, "connection_lost"]
  ]

  it.effect("is retried on the schedule after any failure, then dead, with each attempt in the log", function* () {
    const receivers = yield* Effect.forEach(failures, ([, answer]) => receiver(answer))
    const names = failures.map((_, n) => `shop${n}`)
    const project = yield* open(yield* TestServer, names)
    for (const [n, { url }] of receivers.entries()) yield* project.subscribe(names[n] ?? "", url, created)
    yield* project.created()
    yield* project.finished

    const rows = yield* project.deliveries()
    for (const [n, [name, , code]] of failures.entries()) {
      const row = rows.find(({ installation }) => installation === names[n])
      assert.deepInclude(row, { status: "dead", attempts: 3, retries: 2, availableAt: null }, name)
      assert.deepStrictEqual(resultsOf(row), [code, code, code], name)
      assert.deepStrictEqual(
        row?.log.map(({ number }) => number),
        [1, 2, 3]
      )
      const [one, two, three] = times(row)
      const gaps = [(two?.[0] ?? 0) - (one?.[1] ?? 0), (three?.[0] ?? 0) - (two?.[1] ?? 0)]
      assert.isAtLeast(gaps[0] ?? 0, 40, name)
      assert.isAtLeast(gaps[1] ?? 0, 80, name)
      assert.isAtMost(Math.max(...gaps), 5_000, name)
      for (const { durationMs, finishedAt, startedAt } of row?.log ?? []) {
        assert.strictEqual(durationMs, Date.parse(finishedAt) - Date.parse(startedAt))
        if (code === "timeout") assert.isAtLeast(durationMs ?? 0, 995)
      }
      const hits = receivers[n]?.hits ?? []
      assert.strictEqual(hits.length, 3, name)
      assert.strictEqual(new Set(hits.map(({ headers }) => headers["webhook-id"])).size, 1)
      assert.deepInclude(yield* project.health(names[n] ?? ""), { inFlight: 0, failures: 3 })
    }
  })
})

layerOf({ WEBHOOK_RETRY_SCHEDULE: "60s" })("an endpoint", (it) => {
  it.effect("that is gone (410) has its deliveries dead-lettered until it is configured again", function* () {
    let code = 500
    const shop = yield* receiver((hit, n) => status(code)(hit, n))
    const other = yield* receiver()
    const project = yield* open(yield* TestServer, ["shop", "other"])
    yield* project.subscribe("shop", shop.url, created)
    yield* project.subscribe("other", other.url, created)
    // A delivery that waits for its retry.
    yield* project.created()
    yield* untilRows(project.deliveries("shop"), ([row]) => row?.log.length === 1)
    code = 410
    yield* project.created()
    yield* untilRows(project.deliveries("shop"), (rows) => rows.every(({ status }) => status === "dead"))
    assert.deepStrictEqual(yield* project.webhook(), { enabled: false, version: 2 })
    const [waiting, gone] = yield* project.deliveries("shop")
    assert.deepInclude(waiting, { attempts: 1, status: "dead" })
    assert.deepStrictEqual([gone?.attempts, resultsOf(gone)], [1, [410]])
    assert.strictEqual((yield* project.health()).inFlight, 0)
    problemOf(yield* project.retry("shop", gone?.id ?? ""), 409, "webhook_state_conflict")

    yield* project.created()
    yield* until(() => other.hits.length === 3)
    assert.strictEqual((yield* project.deliveries("shop")).length, 2)
    assert.strictEqual(shop.hits.length, 2)

    code = 200
    problemOf(yield* project.configure("shop", shop.url, 1, created), 409, "version_conflict")
    const again = yield* project.configure("shop", shop.url, 2, created)
    assert.strictEqual(again.status, 200, again.text)
    assert.deepStrictEqual(yield* project.webhook(), { enabled: true, version: 3 })
    yield* project.created()
    yield* until(() => shop.hits.length === 3)
    assert.strictEqual((yield* project.retry("shop", gone?.id ?? "")).status, 200)
    yield* until(() => shop.hits.length === 4)
    yield* project.finished
    const rows = yield* project.deliveries("shop")
    assert.deepStrictEqual(
      rows.map(({ attempts, status }) => [status, attempts]),
      [
        ["dead", 1],
        ["delivered", 2],
        ["delivered", 1]
      ]
    )
    assert.deepStrictEqual([(yield* project.health()).inFlight, (yield* project.health("other")).inFlight], [0, 0])
  })

  for (const [what, retryAfter, from, to] of [
    ["that asks for a rest longer than the delay puts off the next attempt", "120", 120_000, 130_000],
    ["that asks for a rest shorter than the delay does not advance the next attempt", "5", 48_000, 72_000]
  ] as const) {
    it.effect(what, function* () {
      const project = yield* openShop(yield* TestServer, status(503, { "retry-after": retryAfter }), created)
      yield* project.created()
      const [row] = yield* untilRows(project.deliveries(), ([row]) => row?.log.length === 1)
      assert.deepInclude(row, { status: "pending", attempts: 1, retries: 1 })
      assert.strictEqual((yield* project.health()).inFlight, 0)
      const wait = (row?.availableAt?.getTime() ?? 0) - Date.parse(row?.log[0]?.finishedAt ?? "")
      assert.isTrue(wait >= from && wait <= to, String(wait))
    })
  }
})

const hour = 3_600_000

describe("Retry-After", () => {
  const restOf = (status: number, retryAfter: Option.Option<Duration.Duration>) =>
    resultOf(
      leaseOf(claimOf(0)),
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
