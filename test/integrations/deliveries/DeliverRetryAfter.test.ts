/** Endpoints that answer with `Retry-After` (contract §10). */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { TestServer } from "../../support/TestServer.ts"
import { ok, open, receiver, layerOf, status } from "./Deliveries.support.ts"
import { until, untilRows } from "../../support/Waiting.ts"

const created = ["crm.deal.created.v1"]

const hour = 3_600_000

/** Answers a first attempt; returns the time of the next attempt, and the milliseconds from the first attempt's end. */
const retryOf = Effect.fnUntraced(function* (code: number, retryAfter: string) {
  const shop = yield* receiver(status(code, { "retry-after": retryAfter }))
  const project = yield* open(yield* TestServer)
  yield* project.subscribe("shop", shop.url, created)
  yield* project.created()
  const [row] = yield* untilRows(project.deliveries(), ([row]) => row?.log.length === 1)
  assert.deepInclude(row, { status: "pending", attempts: 1, retries: 1 })
  assert.strictEqual((yield* project.health()).inFlight, 0)
  const due = row?.availableAt?.getTime() ?? 0
  return { due, wait: due - Date.parse(row?.log[0]?.finishedAt ?? "") }
})

const waits = (code: number, retryAfter: string) => Effect.map(retryOf(code, retryAfter), ({ wait }) => wait)

const isWithin = (wait: number, from: number, to: number, what: string) =>
  assert.isTrue(wait >= from && wait <= to, `${what}: ${wait}`)

/** Returns a time in whole seconds, in the format of HTTP. */
const inFuture = (millis: number) => new Date(Date.now() + millis).toUTCString()

layerOf({ WEBHOOK_RETRY_SCHEDULE: "60s" })("Retry-After", (it) => {
  it.effect("on 429 and 503 delays the next attempt by at most an hour, and advances none", () =>
    Effect.gen(function* () {
      for (const code of [429, 503]) {
        isWithin(yield* waits(code, "120"), 120_000, 130_000, "120")
        for (const long of ["3601", "86400", "99999999999999999999", inFuture(2 * hour)]) {
          isWithin(yield* waits(code, long), hour, hour + 10_000, long)
        }
        for (const none of ["0", "soon", "-5", "1.5", inFuture(-2 * hour), "Sun, 06 Nov 1994 08:49:37 GMT"]) {
          isWithin(yield* waits(code, none), 48_000, 72_000, none)
        }
      }
    })
  )

  it.effect("with a date delays the next attempt until that date", () =>
    Effect.gen(function* () {
      for (const code of [429, 503]) {
        const date = inFuture(hour / 2)
        const { due } = yield* retryOf(code, date)
        isWithin(due - Date.parse(date), 0, 60_000, date)
      }
    })
  )

  it.effect("on other answers is ignored", () =>
    Effect.gen(function* () {
      for (const code of [500, 301, 400, 404, 408, 413, 425, 502, 504]) {
        isWithin(yield* waits(code, "120"), 48_000, 72_000, String(code))
      }
    })
  )
})

layerOf({ WEBHOOK_RETRY_SCHEDULE: "1s" })("Retry-After near the end of the schedule", (it) => {
  it.effect("adds no attempt, and fails none that succeeded", () =>
    Effect.gen(function* () {
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
  )

  it.effect("pauses the whole endpoint, and then its deliveries are sent", () =>
    Effect.gen(function* () {
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
  )
})

layerOf({ WEBHOOK_RETRY_SCHEDULE: "2h" })("Retry-After shorter than the schedule's delay", (it) => {
  it.effect("does not advance the next attempt", () =>
    Effect.gen(function* () {
      for (const value of ["5", "3600", "86400", inFuture(hour / 2), inFuture(24 * hour)]) {
        isWithin(yield* waits(503, value), 1.6 * hour, 2.4 * hour, value)
      }
    })
  )
})
