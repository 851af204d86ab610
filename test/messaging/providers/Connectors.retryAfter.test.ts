/** The delay that a busy provider requests (contract §8). */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { answering, answerOf } from "../../support/Endpoints.ts"
import { expectOfBoth, connectors, postponed, reply, send, telegram } from "./Connectors.support.ts"

describe("the delay that a provider requests", () => {
  // The test clock starts at the beginning of 1970.
  it.effect("is Retry-After in seconds or as a date, at most an hour", () =>
    Effect.gen(function* () {
      for (const [value, seconds] of [
        ["120", 120],
        ["0", 0],
        ["3601", 3_600],
        ["99999999999999999999", 3_600],
        ["Thu, 01 Jan 1970 00:02:00 GMT", 120],
        ["Fri, 01 Jan 2100 00:00:00 GMT", 3_600],
        ["soon", undefined]
      ] as const) {
        for (const status of [429, 503]) {
          const provider = yield* answering(answerOf(status, `retry-after: ${value}`))
          yield* expectOfBoth(provider, postponed(`http_${status}`, seconds), { what: value })
        }
      }
    }).pipe(Effect.provide(connectors()))
  )

  it.effect("is retry_after of Telegram's parameters before Retry-After", () =>
    Effect.gen(function* () {
      for (const code of [429, 503]) {
        for (const [parameters, seconds] of [
          [`,"parameters":{"retry_after":30}`, 30],
          [`,"parameters":{"retry_after":0}`, 0],
          [`,"parameters":{"retry_after":7200}`, 3_600],
          [`,"parameters":{"retry_after":1e300}`, 3_600],
          [`,"parameters":{"retry_after":-1}`, 7],
          [`,"parameters":{"retry_after":"30"}`, 7],
          [`,"parameters":{}`, 7],
          [`,"parameters":null`, 7],
          ["", 7]
        ] as const) {
          const body = `{"ok":false,"error_code":${code}${parameters}}`
          const provider = yield* answering(reply(code, body, "retry-after: 7"))
          assert.deepStrictEqual(yield* send(telegram(provider)), postponed(`telegram_${code}`, seconds), parameters)
        }
      }
      const alone = yield* answering(reply(200, `{"ok":false,"error_code":429,"parameters":{"retry_after":30}}`))
      assert.deepStrictEqual(yield* send(telegram(alone)), postponed("telegram_429", 30))
    }).pipe(Effect.provide(connectors()))
  )
})
