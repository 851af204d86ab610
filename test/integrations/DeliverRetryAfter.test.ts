/** Endpoints that ask to be called later (contract §10). */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { TestServer } from "../support/TestServer.ts"
import { ok, open, receiver, settings, status, until, untilRows } from "./Deliveries.support.ts"

const created = ["crm.deal.created.v1"]

layer(TestServer.layer({ ...settings, WEBHOOK_RETRY_SCHEDULE: "1s" }), { excludeTestServices: true })(
  "Retry-After",
  (it) => {
    /** How long after its first attempt a delivery is to be tried again, where that attempt was answered so. */
    const waits = Effect.fnUntraced(function* (code: number, retryAfter: string) {
      const shop = yield* receiver(status(code, { "retry-after": retryAfter }))
      const project = yield* open(yield* TestServer)
      yield* project.subscribe("shop", shop.url, created)
      yield* project.created()
      const [row] = yield* untilRows(project.deliveries(), ([row]) => row?.log.length === 1)
      assert.strictEqual((yield* project.health()).inFlight, 0)
      return (row?.availableAt?.getTime() ?? 0) - Date.parse(row?.log[0]?.finishedAt ?? "")
    })

    it.effect("on 429 and 503 puts the next attempt off, for an hour at most, and brings none forward", () =>
      Effect.gen(function* () {
        for (const code of [429, 503]) {
          assert.strictEqual(yield* waits(code, "120"), 120_000)
          assert.strictEqual(yield* waits(code, "86400"), 3_600_000)
          const date = new Date(Date.now() + 600_000).toUTCString()
          const until = yield* waits(code, date)
          assert.isTrue(until > 590_000 && until <= 600_000, String(until))
          for (const none of ["0", "soon", "-5"]) {
            const wait = yield* waits(code, none)
            assert.isTrue(wait >= 800 && wait <= 1_200, `${none} ${wait}`)
          }
        }
      })
    )

    it.effect("on other answers says nothing", () =>
      Effect.gen(function* () {
        for (const code of [500, 301, 404, 502]) {
          const wait = yield* waits(code, "120")
          assert.isTrue(wait >= 800 && wait <= 1_200, `${code} ${wait}`)
        }
      })
    )

    it.effect("leaves the whole endpoint alone for as long, and then sends what has waited", () =>
      Effect.gen(function* () {
        const shop = yield* receiver((hit, n) => (n === 0 ? status(503, { "retry-after": "2" }) : ok)(hit, n))
        const project = yield* open(yield* TestServer)
        yield* project.subscribe("shop", shop.url, created)
        yield* project.created()
        const [first] = yield* untilRows(project.deliveries(), ([row]) => row?.log.length === 1)
        yield* project.created()
        yield* until(() => shop.hits.length === 3)
        const rest = Date.parse(first?.log[0]?.finishedAt ?? "") + 2_000
        const rows = yield* untilRows(project.deliveries(), (rows) =>
          rows.every(({ log }) => log.at(-1)?.statusCode === 200)
        )
        for (const { log } of rows) assert.isAtLeast(Date.parse(log.at(-1)?.startedAt ?? ""), rest)
      })
    )
  }
)
