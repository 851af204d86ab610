/** Every operation: the order of faults (contract §1), and the count of its limiter (§4). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect, Semaphore } from "effect"
import { modules } from "../../src/api/Access.ts"
import { assertUnlimited, problemOf, remainingOf } from "../support/ContractAnswers.ts"
import type { Answer } from "../support/ContractHttp.ts"
import { TestServer } from "../support/TestServer.ts"
import { type Change, requestOf } from "./Requests.ts"
import type { Sample } from "./Sample.ts"
import { samples, World } from "./Samples.ts"
import { each, hasBody, isScoped, otherScopes, walkingOver } from "./Walk.support.ts"

/** Returns rate limits whose buckets refill so slowly that no test gets a token back. */
const slow = (limit: number) => {
  const rateLimit = { limit, windowSeconds: 360_000 }
  return { rateLimits: { read: rateLimit, write: rateLimit, messages: rateLimit } }
}

/** Returns the effective window of the bucket in seconds, as the answer reports it. */
const secondsOf = ({ headers }: Answer) => Number(/;t=([0-9]+)$/.exec(String(headers["ratelimit"]))?.[1])

/** Returns a body above the limit of an operation: 1 MiB for a batch, 256 KiB for the others. */
const tooLargeFor = ({ receipt }: Sample): Change => ({
  body: `{${" ".repeat((receipt === "batch" ? 1_024 : 256) * 1_024)}}`,
  headers: { "content-type": "application/json" }
})

/** Returns changes with one fault each, all of which are found after the limiter. */
const faultyOf = (sample: Sample): ReadonlyArray<Change> => [
  { query: "surprise=1" },
  { query: "%00=1" },
  ...(sample.params === undefined
    ? []
    : ["%00", "x".repeat(161)].map((id) => ({
        params: Object.fromEntries(Object.keys(sample.params ?? {}).map((name) => [name, id]))
      }))),
  ...(sample.key === undefined ? [] : [{ key: undefined }]),
  ...(sample.body === undefined
    ? [{ body: "{}" }]
    : [
        tooLargeFor(sample),
        { ...tooLargeFor(sample), chunked: true },
        { headers: { "content-type": "text/plain" } },
        { body: "{" },
        { json: {} }
      ])
]

layer(World.layer, { excludeTestServices: true })("every operation", (it) => {
  const walk = walkingOver(it)
  const walkBodies = walkingOver(it, hasBody)

  walk(
    "checks the credential, then its scope, before the rest of the request",
    function* (sample, { issue, own, send }) {
      for (const [token, status, code] of [
        [undefined, 401, "credential_missing"],
        ["nonsense", 401, "credential_invalid"],
        ...(isScoped(sample)
          ? [[yield* issue(own.projectId, { scopes: otherScopes(sample) }), 403, "scope_missing"] as const]
          : [])
      ] as const) {
        yield* each(faultyOf(sample), (change) =>
          Effect.map(send(requestOf(sample, token, change)), (answer) => {
            problemOf(answer, status, code)
            assertUnlimited(answer)
          })
        )
      }
    }
  )

  for (const module of modules) {
    it.effect(`of ${module} checks entitlement, module, membership and scope in this order`, function* () {
      const { apply, issue, send } = yield* TestServer
      const { seed } = yield* World
      const without = modules.filter((each) => each !== module)
      const steps = [
        [{ entitlements: [], modules: without }, "entitlement_unavailable"],
        [{ modules: without }, "module_unavailable"],
        [{}, "membership_unavailable"]
      ] as const
      for (const [project, code] of steps) {
        const { projectId } = yield* seed({ project })
        const requests = yield* Effect.forEach(
          Object.values(samples).filter((sample) => sample.module === module),
          (sample) =>
            Effect.map(issue(projectId, { scopes: otherScopes(sample), memberId: "mem_own" }), (token) =>
              requestOf(sample, token)
            )
        )
        yield* apply(projectId, { project, members: [{ id: "mem_own", name: "Own", active: false }] })
        for (const request of requests) problemOf(yield* send(request), 403, code)
      }
    })
  }

  walk(
    "counts every request that passed the credential's checks, and no other",
    function* (sample, { issue, own, seed, send }) {
      const faulty = faultyOf(sample)
      const { projectId, token } = yield* seed({ project: slow(faulty.length + 2) })
      const scopeless = yield* issue(projectId, { scopes: otherScopes(sample) })
      const limit = faulty.length + 2
      let remaining = limit
      for (const change of [{}, ...faulty]) {
        yield* send(requestOf(sample, undefined, change))
        if (isScoped(sample)) yield* send(requestOf(sample, scopeless, change))
        yield* send(requestOf(sample, own.token, change))
        yield* send({ method: "OPTIONS", path: requestOf(sample, token).path, token })
        const answer = yield* send(requestOf(sample, token, change))
        assert.strictEqual(remainingOf(answer, sample.policy), --remaining)
        assert.strictEqual(answer.headers["ratelimit-policy"], `"${sample.policy}";q=${limit};w=360000`)
        assert.strictEqual(secondsOf(answer), Math.ceil((360_000 * remaining) / limit))
      }
      assert.strictEqual(remaining, 1)
    }
  )

  walk("is limited before its body, shape and records are checked", function* (sample, { ask, issue, seed, send }) {
    const { projectId, token } = yield* seed({ project: slow(1) })
    const before = performance.now()
    const first = yield* ask(sample, { projectId, token })
    assert.strictEqual(first.status, sample.status)
    assert.strictEqual(remainingOf(first, sample.policy), 0)

    const missing =
      sample.params === undefined ? [] : [{ params: { [Object.keys(sample.params)[0] ?? ""]: "nothing" } }]
    const other = yield* issue(projectId)
    const test = Effect.fnUntraced(function* (change: Change) {
      const answer = yield* send(requestOf(sample, change === missing[0] ? other : token, change))
      const { detail } = problemOf(answer, 429, "rate_limit_exceeded")
      assert.match(String(detail), new RegExp(` after ${answer.headers["retry-after"]} s\\.$`))
      assert.strictEqual(remainingOf(answer, sample.policy), 0)
      assert.match(String(answer.headers["retry-after"]), /^[1-9][0-9]*$/)
      assert.strictEqual(answer.headers["ratelimit-policy"], `"${sample.policy}";q=1;w=360000`)
      const seconds = Number(answer.headers["retry-after"])
      const least = 360_000 - (performance.now() - before) / 1_000
      assert.isTrue(seconds >= least && seconds <= 360_000, `${seconds}, at least ${least}`)
      assert.strictEqual(secondsOf(answer), seconds)
    })
    yield* each([{}, ...faultyOf(sample), ...missing], test)

    const scopeless = yield* issue(projectId, { scopes: otherScopes(sample) })
    if (isScoped(sample)) problemOf(yield* send(requestOf(sample, scopeless)), 403, "scope_missing")
    problemOf(yield* send(requestOf(sample, undefined)), 401, "credential_missing")
  })

  walk("has a bucket of its policy and project, and no other", function* (sample, { ask, seed }) {
    const project = yield* seed({ project: slow(1) })
    const neighbour = yield* seed({ project: slow(1) })
    yield* ask(sample, project)
    for (const policy of ["read", "write", "messages"]) {
      const others = Object.values(samples).filter((other) => other.policy === policy)
      const [first = sample, last = first] = [others[0], others.at(-1)]
      if (policy !== sample.policy) assert.strictEqual((yield* ask(first, project)).status, first.status)
      problemOf(yield* ask(last, project), 429, "rate_limit_exceeded")
    }
    assert.strictEqual((yield* ask(sample, neighbour)).status, sample.status)
  })

  walk("has the limits of contract §4 when the project sets none", function* (sample, { seed, send }) {
    const { token } = yield* seed({ project: { rateLimits: {} } })
    const limit = { read: 1200, write: 300, messages: 60 }[sample.policy]
    const answer = yield* send(requestOf(sample, token))
    assert.strictEqual(answer.headers["ratelimit-policy"], `"${sample.policy}";q=${limit};w=60`)
    assert.strictEqual(remainingOf(answer, sample.policy), limit - 1)
    assert.strictEqual(secondsOf(answer), Math.ceil((60 * (limit - 1)) / limit))
  })

  walk(
    "has no more requests left than the lowered limits of its project allow",
    function* (sample, { apply, issue, seed, send }) {
      const { projectId, token } = yield* seed({ project: slow(1_000) })
      yield* send(requestOf(sample, token))
      yield* apply(projectId, { project: slow(7) })
      const answer = yield* send(requestOf(sample, yield* issue(projectId)))
      assert.strictEqual(answer.headers["ratelimit-policy"], `"${sample.policy}";q=7;w=360000`)
      assert.isAtMost(remainingOf(answer, sample.policy), 7)
    }
  )

  // All operations at once, as each waits for seconds.
  it.effect("answers once more after Retry-After, and once only", function* () {
    const { send } = yield* TestServer
    const { ask, seed } = yield* World
    const oneAtATime = (yield* Semaphore.make(1)).withPermits(1)
    // A token takes three seconds: longer than the few requests of one operation on a slow machine.
    const rateLimit = { limit: 2, windowSeconds: 6 }
    const test = Effect.fnUntraced(function* ([name, sample]: readonly [string, Sample]) {
      const project = yield* seed({ project: { rateLimits: { [sample.policy]: rateLimit } } })
      const again = send(requestOf(sample, project.token))
      const refused = yield* oneAtATime(
        Effect.gen(function* () {
          for (const _ of [1, 2]) yield* again
          // Refusals take no tokens, so they do not delay the next success.
          for (const _ of [1, 2, 3]) problemOf(yield* again, 429, "rate_limit_exceeded")
          return yield* again
        })
      )
      yield* Effect.sleep(Number(refused.headers["retry-after"]) * 1000)
      assert.strictEqual((yield* ask(sample, project)).status, sample.status, name)
      problemOf(yield* again, 429, "rate_limit_exceeded")
    })
    yield* Effect.forEach(Object.entries(samples), test, { concurrency: "unbounded" })
  })

  walkBodies("checks size and type of the body before the shape of the request", function* (sample, { own, send }) {
    const shapes: ReadonlyArray<Change> = [
      { query: "surprise=1" },
      { query: "surprise=1&surprise=%00" },
      { key: undefined },
      ...Object.keys(sample.params ?? {}).flatMap((name) =>
        ["%00", "x".repeat(161)].map((id) => ({ params: { [name]: id } }))
      )
    ]
    const tooLarge = tooLargeFor(sample)
    const test = Effect.fnUntraced(function* (change: Change) {
      problemOf(yield* send(requestOf(sample, own.token, { ...change, ...tooLarge })), 413, "body_too_large")
      problemOf(
        yield* send(requestOf(sample, own.token, { ...change, ...tooLarge, chunked: true })),
        413,
        "body_too_large"
      )
      const other = { ...change, headers: { "content-type": "text/plain" } }
      problemOf(yield* send(requestOf(sample, own.token, other)), 415, "unsupported_media_type")
    })
    yield* each(shapes, test)
  })
})
