/** Sends while Redis is away or a process ends (contract §4, §8, §15); `Messages` has them while PostgreSQL is away. */
import { assert } from "@effect/vitest"
import { beforeAll, describe, it } from "vitest"
import { ended, inGoodOrder, type Service, startService } from "../support/Process.ts"
import { database, serviceEnv, startHere } from "./Projects.support.ts"
import { requires } from "../support/Programs.ts"
import { makeRedis, type Redis } from "./Redis.support.ts"
import { expectProblem, isDraining, listClients } from "./Requests.support.ts"
import { expectSent, openScene, type Scene, testMessage } from "./Messages.support.ts"
import { ignore } from "./Providers.support.ts"
import { eventually } from "../support/Waiting.ts"

type Api = Pick<Service, "url">

/** Sends whose bucket is not refilled during a test. */
const three = { messages: { limit: 3, windowSeconds: 360_000 } }

/** Sends a message, which its name identifies. */
const send = ({ post }: Scene, service: Api, name: string) => post(service, testMessage(name, "telegram"))

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
  const expectBucket = async (service: Api, scene: Scene) => {
    for (const left of [2, 1, 0]) {
      const answer = await send(scene, service, `${service.url}-${left}`)
      expectSent(answer)
      assert.strictEqual(answer.headers["ratelimit-policy"], '"messages";q=3;w=360000')
      assert.match(String(answer.headers["ratelimit"]), new RegExp(`^"messages";r=${left};t=\\d+$`))
    }
    for (const _ of [1, 2, 3]) {
      const refused = await send(scene, service, `${service.url}-more`)
      expectProblem(refused, 429, "rate_limit_exceeded")
      assert.match(String(refused.headers["ratelimit"]), /^"messages";r=0;t=\d+$/)
      assert.isAbove(Number(refused.headers["retry-after"]), 1)
    }
    expectProblem(await listClients(service.url, scene.token), 503, "rate_limiter_unavailable")
  }

  it("are limited by a bucket of the same size in each process until Redis is back", async () => {
    const redis = await makeRedis()
    await redis.start()
    const services = await Promise.all([startOn(redis), startOn(redis)])
    const shared = await openScene(databaseUrl, three)
    await Promise.all(services.map(isLimited(shared.token)))
    const [one, two] = services
    // While Redis is there, they have three sends together.
    for (const [n, service] of [one, two, one].entries()) expectSent(await send(shared, service, `send-${n}`))
    expectProblem(await send(shared, two, "none-left"), 429, "rate_limit_exceeded")
    assert.lengthOf(shared.provider.calls, 3)

    await redis.kill()
    const lost = await openScene(databaseUrl, three)
    for (const service of services) await expectBucket(service, lost)
    assert.lengthOf(lost.provider.calls, 6)

    await redis.start()
    await Promise.all(services.map(isLimited(lost.token)))
    for (const [n, service] of [two, one, two].entries()) expectSent(await send(lost, service, `again-${n}`))
    for (const service of services) expectProblem(await send(lost, service, "none-left"), 429, "rate_limit_exceeded")
  })
})

it("a send during SIGTERM finishes, and new ones answer provider_outcome_unknown", async () => {
  const databaseUrl = await database()
  const scene = await openScene(databaseUrl)
  const { provider, token } = scene
  provider.answerWith(ignore)
  const service = await startService({ env: { ...serviceEnv(databaseUrl), PROVIDER_TIMEOUT: "60s" } })
  const first = send(scene, service, "first")
  await eventually(() => assert.lengthOf(provider.calls, 1))
  service.kill("SIGTERM")
  await isDraining(service)
  for (const key of ["late-comer", "first"]) {
    const answer = await send(scene, service, key)
    expectProblem(answer, 503, "provider_outcome_unknown")
    assert.isAtLeast(Number(answer.headers["retry-after"]), 1)
    assert.strictEqual(answer.headers.connection, "close")
  }
  // Other requests get the usual 503.
  expectProblem(await listClients(service.url, token), 503, "service_unavailable")
  provider.acceptAll()
  expectSent(await first)
  assert.deepStrictEqual(await ended(service), inGoodOrder)
  assert.lengthOf(provider.calls, 1)
  const next = await startHere(databaseUrl)
  expectSent(await send(scene, next, "first"), true)
  expectSent(await send(scene, next, "late-comer"))
  assert.lengthOf(provider.calls, 2)
})
