/** Sends while Redis is away or a process ends (contract §4, §8, §15); `Messages` has them while PostgreSQL is away. */
import { assert } from "@effect/vitest"
import { beforeAll, describe, it } from "vitest"
import { held, taken } from "../contract/Messages.support.ts"
import { ended, inGoodOrder, type Service, startService } from "../support/Process.ts"
import { database, serviceEnv, startHere } from "./Projects.support.ts"
import { requires } from "../support/Programs.ts"
import { makeRedis, type Redis } from "./Redis.support.ts"
import { expectProblem, isDraining, listClients } from "./Requests.support.ts"
import { expectSent, expectUnknown, openProject, sendMessage } from "./Sends.support.ts"
import { eventually } from "../support/Waiting.ts"

type Api = Pick<Service, "url">

/** Returns a limit whose bucket is not refilled during a test. */
const bucket = (limit: number) => ({ project: { rateLimits: { messages: { limit, windowSeconds: 360_000 } } } })

describe("sends without Redis", () => {
  requires("redis")

  let databaseUrl: string
  beforeAll(async () => {
    databaseUrl = await database()
  })
  /** Waits until a service reaches Redis. */
  const isLimited = (token: string) => (service: Api) =>
    eventually(async () => assert.strictEqual((await listClients(service.url, token)).status, 200))
  const startOn = ({ url }: Redis) => startHere(databaseUrl, { REDIS_URL: url }, "all")

  /** Asserts that a process allows exactly the bucket, while other requests are refused because the limiter is unavailable. */
  const expectBucket = async (service: Api, token: string, limit: number) => {
    for (let left = limit - 1; left >= 0; left--) {
      const answer = await sendMessage(service.url, token, `${new URL(service.url).port}-${left}`)
      expectSent(answer, false)
      assert.strictEqual(answer.headers["ratelimit-policy"], `"messages";q=${limit};w=360000`)
      assert.match(String(answer.headers["ratelimit"]), new RegExp(`^"messages";r=${left};t=\\d+$`))
    }
    for (const _ of [1, 2, 3]) {
      const refused = await sendMessage(service.url, token, `${new URL(service.url).port}-more`)
      expectProblem(refused, 429, "rate_limit_exceeded")
      assert.match(String(refused.headers["ratelimit"]), /^"messages";r=0;t=\d+$/)
      assert.isAbove(Number(refused.headers["retry-after"]), 1)
    }
    expectProblem(await listClients(service.url, token), 503, "rate_limiter_unavailable")
  }

  it("are limited by a bucket of the same size in each process until Redis is back", async () => {
    const redis = await makeRedis()
    await redis.start()
    const services = await Promise.all([startOn(redis), startOn(redis)])
    const { provider, token } = await openProject(databaseUrl, taken, bucket(3))
    await Promise.all(services.map(isLimited(token)))
    const [one, two] = services
    // While Redis is there, they have three sends together.
    for (const service of [one, two, one])
      expectSent(await sendMessage(service.url, token, `${new URL(service.url).port}-${provider.hits.length}`), false)
    expectProblem(await sendMessage(two.url, token, "none-left"), 429, "rate_limit_exceeded")
    assert.lengthOf(provider.hits, 3)

    await redis.kill()
    const lost = await openProject(databaseUrl, taken, bucket(3))
    for (const service of services) await expectBucket(service, lost.token, 3)
    assert.lengthOf(lost.provider.hits, 6)

    await redis.start()
    await Promise.all(services.map(isLimited(lost.token)))
    for (const service of [two, one, two]) {
      expectSent(await sendMessage(service.url, lost.token, `again-${lost.provider.hits.length}`), false)
    }
    for (const service of services) {
      expectProblem(await sendMessage(service.url, lost.token, "none-left"), 429, "rate_limit_exceeded")
    }
  })
})

it("a send during SIGTERM finishes, and new ones answer provider_outcome_unknown", async () => {
  const databaseUrl = await database()
  const gate = held(taken)
  const { provider, token } = await openProject(databaseUrl, gate.answering)
  const service = await startService({ env: { ...serviceEnv(databaseUrl), PROVIDER_TIMEOUT: "60s" } })
  const first = sendMessage(service.url, token, "first")
  await eventually(() => assert.lengthOf(provider.hits, 1))
  service.kill("SIGTERM")
  await isDraining(service)
  for (const key of ["late-comer", "first"]) {
    const answer = await sendMessage(service.url, token, key)
    expectUnknown(answer)
    assert.strictEqual(answer.headers.connection, "close")
  }
  // Other requests get the usual 503.
  expectProblem(await listClients(service.url, token), 503, "service_unavailable")
  gate.letGo()
  expectSent(await first, false)
  assert.deepStrictEqual(await ended(service), inGoodOrder)
  assert.lengthOf(provider.hits, 1)
  const next = await startHere(databaseUrl)
  expectSent(await sendMessage(next.url, token, "first"), true)
  expectSent(await sendMessage(next.url, token, "late-comer"), false)
  assert.lengthOf(provider.hits, 2)
})
