/** Rate limits that two services share through Redis, and the answers while Redis fails (contract §4, §14). */
import { randomUUID } from "node:crypto"
import { assert } from "@effect/vitest"
import { beforeAll, describe, it } from "vitest"
import { inGoodOrder, type Service, startService } from "../support/Process.ts"
import { database, project, serviceEnv, startHere } from "./Projects.support.ts"
import { type Answer, command, createClient, expectProblem, listClients, send } from "./Requests.support.ts"
import { isUsed, requires } from "../support/Programs.ts"
import { makeRedis, type Redis } from "./Redis.support.ts"
import { eventually } from "../support/Waiting.ts"

const databaseUrl = await database()

const startOn = ({ url }: Redis) => startService({ env: { ...serviceEnv(databaseUrl), REDIS_URL: url } })

/** Starts a Redis, and two services on it. */
const startPair = async () => {
  const redis = await makeRedis()
  await redis.start()
  const start = () => startHere(databaseUrl, { REDIS_URL: redis.url })
  const [one, two] = await Promise.all([start(), start()])
  const token = await project(databaseUrl, plenty)
  await Promise.all([recovers(one, token), recovers(two, token)])
  return { redis, one, two }
}

/** Used by all tests: each leaves Redis running and the services connected to it. */
let pair: Awaited<ReturnType<typeof startPair>>
beforeAll(async () => {
  if (isUsed("redis")) pair = await startPair()
})

/** Asserts that every request gets the same 503 within a second while the limiter is unreachable. */
const expectUnavailable = async (service: Pick<Service, "url">, token: string) => {
  const answers = [
    await listClients(service.url, token),
    await listClients(service.url, token),
    await createClient(service.url, token, "while-redis-is-away", "Nobody")
  ]
  for (const answer of answers) {
    expectProblem(answer, 503, "rate_limiter_unavailable")
    assert.isAtLeast(Number(answer.headers["retry-after"]), 1)
  }
  // The fastest of them, as a busy machine may delay any.
  assert.isBelow(Math.min(...answers.map(({ millis }) => millis)), 1_000)
  assert.strictEqual((await send(`${service.url}/readyz`)).status, 200)
}

const recovers = (service: Pick<Service, "url">, token: string) =>
  eventually(async () => assert.strictEqual((await listClients(service.url, token)).status, 200))

const limits = (limit: number, windowSeconds: number) => ({
  project: { rateLimits: { read: { limit, windowSeconds }, write: { limit, windowSeconds } } }
})

const plenty = limits(100_000, 1)

describe("rate limits in Redis", () => {
  requires("redis")

  it("are shared by services, which together allow exactly the limit, and tell it in their headers", async () => {
    const { one, two } = pair
    const token = await project(databaseUrl, limits(12, 1_200))
    const answers = await Promise.all(
      Array.from({ length: 40 }, (_, n) => listClients(n % 2 === 0 ? one.url : two.url, token))
    )
    // Each allowed request saw a different number of tokens left, and the seconds for which they last.
    const left = answers.flatMap(({ headers, status }) => {
      assert.strictEqual(headers["ratelimit-policy"], '"read";q=12;w=1200')
      const [, r, t] = /^"read";r=(\d+);t=(\d+)$/.exec(String(headers["ratelimit"])) ?? []
      // Without a token, it is the time until the next one.
      if (r === "0") assert.isTrue(Number(t) <= 100 && Number(t) > 40, t)
      else assert.strictEqual(Number(t), Number(r) * 100)
      return status === 200 ? [Number(r)] : []
    })
    assert.deepStrictEqual(
      left.sort((a, b) => a - b),
      [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
    )
    for (const answer of answers.filter(({ status }) => status !== 200)) {
      expectProblem(answer, 429, "rate_limit_exceeded")
      assert.match(String(answer.headers["ratelimit"]), /;r=0;/)
      assert.isAbove(Number(answer.headers["retry-after"]), 40)
      assert.match(String(answer.headers["ratelimit"]), new RegExp(`;t=${String(answer.headers["retry-after"])}$`))
    }
    // Another policy has its own bucket; a refused body took a token too.
    const empty = await createClient(one.url, token, "empty", "")
    expectProblem(empty, 400, "validation_failed")
    assert.match(String(empty.headers["ratelimit"]), /^"write";r=11;/)
  })
})

describe("the price of a batch in Redis", () => {
  requires("redis")

  it("is taken whole or not at all, and Retry-After is the time until there is enough", async () => {
    const { one, two } = pair
    const token = await project(databaseUrl, limits(12, 1_200))
    const batch = (service: Pick<Service, "url">, size: number) =>
      command(`${service.url}/api/v1/developer/crm/clients/batch`, token, randomUUID(), {
        method: "POST",
        json: { items: Array.from({ length: size }, (_, index) => ({ externalId: `id ${index}`, displayName: "A" })) }
      })
    const left = ({ headers }: Answer) => Number(/;r=(\d+);/.exec(String(headers["ratelimit"]))?.[1])
    assert.strictEqual(left(await batch(one, 10)), 11)
    assert.strictEqual(left(await batch(two, 41)), 6)
    // Batches of both services at once: none gets a part of what another gives back.
    const refused = await Promise.all(Array.from({ length: 4 }, (_, n) => batch(n % 2 === 0 ? one : two, 100)))
    for (const answer of refused) {
      expectProblem(answer, 429, "rate_limit_exceeded")
      const retryAfter = Number(answer.headers["retry-after"])
      assert.isTrue(retryAfter > 300 && retryAfter <= 1_000, String(retryAfter))
    }
    assert.strictEqual(left(await batch(two, 1)), 5)
    assert.strictEqual(left(await batch(one, 41)), 0)
  })
})

/** Two failures of Redis and its recovery. A new server has none of the scripts. */
const losses: ReadonlyArray<readonly [string, (redis: Redis) => unknown, (redis: Redis) => unknown]> = [
  ["is gone", (redis) => redis.kill(), (redis) => redis.start()],
  ["hangs", (redis) => redis.signal("SIGSTOP"), (redis) => redis.signal("SIGCONT")]
]

describe.each(losses)("a service whose Redis %s", (_, lose, restore) => {
  requires("redis")

  it("refuses requests within the limit, and recovers once Redis is back", async () => {
    const { one, redis, two } = pair
    const token = await project(databaseUrl, plenty)
    assert.strictEqual((await listClients(one.url, token)).status, 200)
    await lose(redis)
    await expectUnavailable(one, token)
    await expectUnavailable(two, token)
    await restore(redis)
    await recovers(one, token)
    await recovers(two, token)
    assert.strictEqual((await createClient(one.url, token, "while-redis-is-away", "Somebody")).status, 201)
  })

  it("starts, answers, uses Redis once it is there, and shuts down in good order without it", async () => {
    const token = await project(databaseUrl, plenty)
    const redis = await makeRedis()
    await redis.start()
    await lose(redis)
    const [early, never] = await Promise.all([startOn(redis), startOn(redis)])
    await expectUnavailable(early, token)
    assert.deepStrictEqual(await never.stop(), inGoodOrder)
    await restore(redis)
    await recovers(early, token)
    await lose(redis)
    await expectUnavailable(early, token)
    assert.deepStrictEqual(await early.stop(), inGoodOrder)
  })
})
