/** Rate limits that two services share through Redis, and what requests see when Redis fails (contract §4). */
import { setTimeout as sleep } from "node:timers/promises"
import { assert } from "@effect/vitest"
import { beforeAll, describe, it } from "vitest"
import { inGoodOrder, type Service, startService } from "../support/Process.ts"
import { assertMatches } from "../support/Matches.ts"
import { database, project, serviceEnv } from "./Projects.support.ts"
import { type Answer, createClient, expectProblem, kindOf, listClients, send, stream } from "./Requests.support.ts"
import { requires } from "../support/Programs.ts"
import { makeRedis, type Redis } from "./Redis.support.ts"
import { eventually } from "../support/Waiting.ts"

let databaseUrl: string

beforeAll(async () => {
  databaseUrl = await database()
})

const startOn = ({ url }: Redis) => startService({ env: { ...serviceEnv(databaseUrl), REDIS_URL: url } })

/** A Redis, and two services on it. */
const setUp = async () => {
  const redis = await makeRedis()
  await redis.start()
  const [one, two] = await Promise.all([startOn(redis), startOn(redis)])
  await Promise.all([isReady(one), isReady(two)])
  return { redis, one, two }
}

const isReady = (service: Service) =>
  eventually(async () => assert.strictEqual((await send(`${service.url}/readyz`)).status, 200))

/** What every request is told while the limiter can't be asked, each within a second. */
const expectUnavailable = async (service: Service, token: string) => {
  const answers = [
    await listClients(service.url, token),
    await listClients(service.url, token),
    await createClient(service.url, token, "while-redis-is-away", "Nobody")
  ]
  for (const answer of answers) {
    expectProblem(answer, 503, "rate_limiter_unavailable")
    assert.isAtLeast(Number(answer.headers["retry-after"]), 1)
    assert.isBelow(answer.millis, 1_000)
  }
  expectProblem(await send(`${service.url}/readyz`), 503, "service_unavailable")
  assert.strictEqual((await send(`${service.url}/healthz`)).status, 200)
}

const recovers = async (service: Service, token: string) => {
  await eventually(async () => assert.strictEqual((await listClients(service.url, token)).status, 200))
  await isReady(service)
}

const limits = (limit: number, windowSeconds: number) => ({
  project: { rateLimits: { read: { limit, windowSeconds }, write: { limit, windowSeconds } } }
})

const plenty = limits(100_000, 1)

describe("rate limits in Redis", () => {
  requires("redis")

  it("are shared by services, which together allow exactly the limit", async () => {
    const { one, two } = await setUp()
    const token = await project(databaseUrl, limits(12, 1_200))
    const answers = await Promise.all(
      Array.from({ length: 40 }, (_, n) => listClients(n % 2 === 0 ? one.url : two.url, token))
    )
    const allowed = answers.filter(({ status }) => status === 200)
    assert.lengthOf(allowed, 12)
    for (const answer of answers.filter(({ status }) => status !== 200)) {
      expectProblem(answer, 429, "rate_limit_exceeded")
    }
    // Each of those allowed saw its own number of tokens left.
    const left = allowed.map(({ headers }) => Number(/;r=(\d+);/.exec(String(headers["ratelimit"]))?.[1]))
    assert.deepStrictEqual(
      left.sort((a, b) => a - b),
      [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
    )
  })

  it("are shown in the headers of every limited answer", async () => {
    const { one, two } = await setUp()
    const token = await project(databaseUrl, limits(4, 4_000))
    const told = ({ headers }: Answer) => {
      const [, policy, r, t] = /^"(\w+)";r=(\d+);t=(\d+)$/.exec(String(headers["ratelimit"])) ?? []
      return { policy, r: Number(r), t: Number(t), of: headers["ratelimit-policy"] }
    }
    const of = '"read";q=4;w=4000'
    const assertNear = ({ t }: ReturnType<typeof told>, seconds: number) => {
      assert.isAtMost(t, seconds)
      assert.isAbove(t, seconds - 60)
    }

    const found = await listClients(one.url, token)
    assert.strictEqual(found.status, 200)
    assertMatches(told(found), { policy: "read", r: 3, of })
    assertNear(told(found), 1_000)

    const missing = await send(`${two.url}/api/v1/developer/crm/clients/nobody`, {
      headers: { authorization: `Bearer ${token}` }
    })
    expectProblem(missing, 404, "client_not_found")
    assertMatches(told(missing), { policy: "read", r: 2, of })
    assertNear(told(missing), 2_000)

    const faulty = await send(`${one.url}/api/v1/developer/crm/clients?limit=0`, {
      headers: { authorization: `Bearer ${token}` }
    })
    expectProblem(faulty, 400, "validation_failed")
    assertMatches(told(faulty), { policy: "read", r: 1, of })
    assertNear(told(faulty), 3_000)

    await listClients(two.url, token)
    const refused = await listClients(one.url, token)
    expectProblem(refused, 429, "rate_limit_exceeded")
    assertMatches(told(refused), { policy: "read", r: 0, of })
    assertNear(told(refused), 4_000)
    assert.isAbove(Number(refused.headers["retry-after"]), 900)

    // Another policy, another bucket; a body that is refused took a token all the same.
    const empty = await createClient(one.url, token, "empty", "")
    expectProblem(empty, 400, "validation_failed")
    assertMatches(told(empty), { policy: "write", r: 3, of: '"write";q=4;w=4000' })
    assertNear(told(empty), 1_000)

    for (const answer of [
      await send(`${one.url}/api/v1/developer/crm/clients`),
      await send(`${one.url}/api/v1/developer/crm/unknown`),
      await send(`${one.url}/healthz`)
    ]) {
      assert.notProperty(answer.headers, "ratelimit")
      assert.notProperty(answer.headers, "ratelimit-policy")
    }
  })

  it("allow a request after Retry-After, and count no refused request", async () => {
    const { one, two } = await setUp()
    const token = await project(databaseUrl, limits(2, 6))
    const refusal = await eventually(async () => {
      const answer = await listClients(one.url, token)
      assert.strictEqual(answer.status, 429)
      return answer
    })
    const retryAfter = Number(refusal.headers["retry-after"])
    assert.match(String(refusal.headers["retry-after"]), /^[1-3]$/)
    const due = performance.now() + retryAfter * 1_000
    // Refused all the time until then: were one of them counted, the last request would be refused too.
    while (performance.now() < due - 1_500) {
      await listClients(two.url, token)
      await sleep(100)
    }
    await sleep(due - performance.now())
    assert.strictEqual((await listClients(two.url, token)).status, 200)
  })
})

describe("a service whose Redis is gone", () => {
  requires("redis")

  it("refuses requests within the limit, and recovers once Redis is back and empty", async () => {
    const { one, redis, two } = await setUp()
    const token = await project(databaseUrl, plenty)
    assert.strictEqual((await listClients(one.url, token)).status, 200)
    await redis.kill()
    await expectUnavailable(one, token)
    await expectUnavailable(two, token)
    // The new one knows none of the scripts.
    await redis.start()
    await recovers(one, token)
    await recovers(two, token)
    assert.strictEqual((await createClient(one.url, token, "while-redis-is-away", "Somebody")).status, 201)
  })

  it("starts, answers, and uses Redis once it is there", async () => {
    const token = await project(databaseUrl, plenty)
    const late = await makeRedis()
    const service = await startOn(late)
    await expectUnavailable(service, token)
    await late.start()
    await recovers(service, token)
  })

  it("shuts down in good order", async () => {
    const gone = await makeRedis()
    const [never, lost] = await Promise.all([
      startOn(gone),
      gone.start().then(async () => {
        const service = await startOn(gone)
        await isReady(service)
        return service
      })
    ])
    await gone.kill()
    assert.deepStrictEqual(await Promise.all([never.stop(), lost.stop()]), [inGoodOrder, inGoodOrder])
  })

  it("answers only 503 to a stream of requests during a restart of Redis", async () => {
    const { one, redis, two } = await setUp()
    const token = await project(databaseUrl, limits(300, 1))
    const requests = stream(16, (n) => listClients(n % 2 === 0 ? one.url : two.url, token))
    const seen = (kind: string) => eventually(() => assert.include(requests.answers.slice(from).map(kindOf), kind))
    let from = 0
    for (const _ of [1, 2]) {
      from = requests.answers.length
      await seen("200")
      await redis.kill()
      from = requests.answers.length
      await seen("503 rate_limiter_unavailable")
      await redis.start()
      from = requests.answers.length
      await seen("200")
    }
    await requests.stop()
    await Promise.all([isReady(one), isReady(two)])
    assert.deepStrictEqual(requests.failures, [])
    assert.includeMembers(["200", "429 rate_limit_exceeded", "503 rate_limiter_unavailable"], requests.kinds())
  })
})

describe("a service whose Redis hangs", () => {
  requires("redis")

  it("refuses requests within the limit, and recovers once Redis continues", async () => {
    const { one, redis, two } = await setUp()
    const token = await project(databaseUrl, plenty)
    assert.strictEqual((await listClients(one.url, token)).status, 200)
    redis.signal("SIGSTOP")
    await expectUnavailable(one, token)
    redis.signal("SIGCONT")
    await recovers(one, token)
    await recovers(two, token)
  })

  it("recovers after the connections have been given up", async () => {
    const { one, redis, two } = await setUp()
    const token = await project(databaseUrl, plenty)
    redis.signal("SIGSTOP")
    // Long enough for every timeout of a client: nothing is promised of its length, only of what follows.
    await sleep(7_000)
    await expectUnavailable(one, token)
    redis.signal("SIGCONT")
    await recovers(one, token)
    await recovers(two, token)
  })

  it("starts, answers, and uses Redis once it continues", async () => {
    const token = await project(databaseUrl, plenty)
    const redis = await makeRedis()
    await redis.start()
    redis.signal("SIGSTOP")
    const service = await startOn(redis)
    await expectUnavailable(service, token)
    redis.signal("SIGCONT")
    await recovers(service, token)
  })

  it("shuts down in good order before it has reached Redis", async () => {
    const redis = await makeRedis()
    await redis.start()
    redis.signal("SIGSTOP")
    const service = await startOn(redis)
    assert.deepStrictEqual(await service.stop(), inGoodOrder)
  })

  it("shuts down in good order while it waits for Redis", async () => {
    const token = await project(databaseUrl, plenty)
    const redis = await makeRedis()
    await redis.start()
    const service = await startOn(redis)
    await recovers(service, token)
    redis.signal("SIGSTOP")
    await expectUnavailable(service, token)
    assert.deepStrictEqual(await service.stop(), inGoodOrder)
  })
})
