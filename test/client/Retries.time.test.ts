/** The times at which a request is sent again, under a test clock. */
import { assert, describe, it } from "../support/Vitest.ts"
import { Clock, Effect, Fiber, Layer, Random } from "effect"
import { FetchHttpClient } from "effect/http"
import { TestClock } from "effect/testing"
import type { AttemptOptions } from "../../src/client/Retries.ts"
import { DeveloperApi } from "../../src/client/DeveloperApi.ts"
import { token } from "./Scripted.support.ts"

const problem = (status: number, code: string, headers: Record<string, string> = {}) =>
  new Response(JSON.stringify({ type: `urn:developer-api:problem:${code}`, title: "", status, code }), {
    status,
    headers: { "content-type": "application/problem+json", ...headers }
  })

const emptyPage = () => Response.json({ items: [], nextCursor: null })

/** Lets promises settle by turns of the event loop, without advancing the clock. */
const settled = Effect.forEach(Array.from({ length: 20 }), () =>
  Effect.promise(() => new Promise((resolve) => void setImmediate(resolve)))
)

const pass = (millis: number) => Effect.andThen(TestClock.adjust(`${millis} millis`), settled)

/** Asserts that the second request is sent after this time in milliseconds, and not before. */
const expectSecondAfter = Effect.fnUntraced(function* (millis: number, requests: () => number) {
  yield* pass(millis - 1)
  assert.strictEqual(requests(), 1)
  yield* pass(1)
  assert.strictEqual(requests(), 2)
})

/** Starts a call; `answer` answers the nth request, counted from 0. */
const calling = Effect.fnUntraced(function* (
  options: AttemptOptions,
  answer: (n: number, signal: AbortSignal | null | undefined) => Response | Promise<Response>
) {
  let requests = 0
  const fetch: typeof globalThis.fetch = (_, init) => Promise.resolve(answer(requests++, init?.signal))
  const layer = DeveloperApi.layer({ baseUrl: "http://api.example.com", token, ...options }).pipe(
    Layer.provide(Layer.succeed(FetchHttpClient.Fetch, fetch))
  )
  const { clients } = yield* Effect.provide(DeveloperApi, layer)
  const fiber = yield* Effect.forkChild(Effect.result(clients.listClients()))
  yield* settled
  return { fiber, requests: () => requests }
})

const randomly = (double: number) =>
  Effect.provideService(Random.Random, Random.Random.of({ nextIntUnsafe: () => 0, nextDoubleUnsafe: () => double }))

describe("the next attempt of the client", () => {
  for (const [what, millis, random, options, headers] of [
    ["Retry-After in seconds", 7_000, 0, {}, { "retry-after": "7" }],
    // The test clock starts at the beginning of 1970.
    ["Retry-After as a date", 30_000, 0, {}, { "retry-after": "Thu, 01 Jan 1970 00:00:30 GMT" }],
    ["Retry-After and a part of the backoff", 7_125, 0.5, {}, { "retry-after": "7" }],
    ["a part of the backoff", 300, 0.3, { retry: { delay: "1 second" } }, {}]
  ] as const) {
    it.effect(`follows after ${what}`, () =>
      Effect.gen(function* () {
        const { fiber, requests } = yield* calling(options, (n) =>
          n === 0 ? problem(503, "service_unavailable", headers) : emptyPage()
        )
        yield* expectSecondAfter(millis, requests)
        assert.strictEqual((yield* Fiber.join(fiber))._tag, "Success")
      }).pipe(randomly(random))
    )
  }

  it.effect("follows after a backoff that doubles up to 4 s without Retry-After", () =>
    Effect.gen(function* () {
      const options = { retry: { times: 8, within: "10 minutes" } } as const
      const { requests } = yield* calling(options, () => problem(503, "service_unavailable", { "retry-after": "soon" }))
      const delays = [250, 500, 1000, 2000, 4000, 4000, 4000, 4000]
      for (const [n, delay] of delays.entries()) {
        yield* pass(delay - 1)
        assert.strictEqual(requests(), n + 1, `after ${delay - 1} ms`)
        yield* pass(1)
        assert.strictEqual(requests(), n + 2, `after ${delay} ms`)
      }
    }).pipe(randomly(1))
  )

  it.effect("is skipped when it would begin after the limit", function* () {
    const { fiber, requests } = yield* calling({ retry: { within: "10 seconds" } }, () =>
      problem(429, "rate_limit_exceeded", { "retry-after": "11" })
    )
    const outcome = yield* Fiber.join(fiber)
    assert.strictEqual(outcome._tag === "Failure" && outcome.failure._tag, "rate_limit_exceeded")
    assert.strictEqual(requests(), 1)
  })

  it.effect("begins within a minute by default", function* () {
    const { fiber, requests } = yield* calling({ retry: { times: 1_000 } }, () =>
      problem(503, "service_unavailable", { "retry-after": "25" })
    )
    yield* pass(27_000)
    yield* pass(27_000)
    assert.strictEqual((yield* Fiber.join(fiber))._tag, "Failure")
    assert.strictEqual(requests(), 3)
  })

  it.effect("lets 20 callers at a time share a rate limit, and none of them fails", () =>
    Effect.gen(function* () {
      const [rate, capacity] = [5, 50]
      let tokens = capacity
      let filledAt = 0
      const clock = yield* Clock.Clock
      const bucket = () => {
        const now = clock.currentTimeMillisUnsafe() / 1_000
        tokens = Math.min(capacity, tokens + (now - filledAt) * rate)
        filledAt = now
        if (tokens < 1) {
          return problem(429, "rate_limit_exceeded", { "retry-after": String(Math.ceil((1 - tokens) / rate)) })
        }
        tokens--
        return emptyPage()
      }
      const layer = DeveloperApi.layer({ baseUrl: "http://api.example.com", token }).pipe(
        Layer.provide(Layer.succeed(FetchHttpClient.Fetch, () => Promise.resolve(bucket())))
      )
      const { clients } = yield* Effect.provide(DeveloperApi, layer)
      const calls = yield* Effect.forkChild(
        Effect.forEach(Array.from({ length: 500 }), () => Effect.result(clients.listClients()), { concurrency: 20 })
      )
      while (calls.pollUnsafe() === undefined) yield* pass(100)
      const failed = (yield* Fiber.join(calls)).filter(({ _tag }) => _tag === "Failure")
      assert.lengthOf(failed, 0)
    }).pipe(Random.withSeed("twenty callers"))
  )
})

describe("an attempt of the client", () => {
  it.effect("is aborted and counts as lost without an answer in time", function* () {
    let aborted = false
    const { fiber, requests } = yield* calling({ timeout: "5 seconds", retry: { delay: 0 } }, (n, signal) => {
      if (n > 0) return emptyPage()
      signal?.addEventListener("abort", () => {
        aborted = true
      })
      return new Promise<Response>(() => {})
    })
    yield* pass(4_999)
    assert.strictEqual(requests(), 1)
    assert.isFalse(aborted)
    yield* pass(1)
    assert.strictEqual((yield* Fiber.join(fiber))._tag, "Success")
    assert.isTrue(aborted)
    assert.strictEqual(requests(), 2)
  })

  it.effect("times out after 30 s, including the body", function* () {
    const endless = () => new Response(new ReadableStream({ start: () => {} }))
    const { fiber, requests } = yield* calling({ retry: false }, endless)
    yield* pass(30_000)
    const outcome = yield* Fiber.join(fiber)
    assert.strictEqual(outcome._tag === "Failure" && outcome.failure._tag, "HttpClientError")
    assert.strictEqual(requests(), 1)
  })
})
