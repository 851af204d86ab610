/** Rate limits that two services share through Redis, alone or a cluster, and the answers while Redis fails (contract §4, §14). */
import { connect, createServer, type Socket } from "node:net"
import { setTimeout as sleep } from "node:timers/promises"
import { assert } from "@effect/vitest"
import { beforeAll, describe, it } from "vitest"
import { defer } from "../support/Finalizers.ts"
import { freePort, inGoodOrder, type Service, startService } from "../support/Process.ts"
import { database, project, serviceEnv, startHere } from "./Projects.support.ts"
import { createClient, expectProblem, isReady, kindOf, listClients, send, stream } from "./Requests.support.ts"
import { isUsed, requires } from "../support/Programs.ts"
import { ask, makeRedis, type Redis } from "./Redis.support.ts"
import { eventually } from "../support/Waiting.ts"

const databaseUrl = await database()

const startOn = ({ url }: Redis) => startService({ env: { ...serviceEnv(databaseUrl), REDIS_URL: url } })

/** Starts a Redis, and two services on it. */
const startPair = async () => {
  const redis = await makeRedis()
  await redis.start()
  const start = () => startHere(databaseUrl, { REDIS_URL: redis.url })
  const [one, two] = await Promise.all([start(), start()])
  await Promise.all([isReady(one), isReady(two)])
  return { redis, one, two }
}

/** Used by all tests: each leaves Redis running and the services ready. */
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
  expectProblem(await send(`${service.url}/readyz`), 503, "service_unavailable")
  assert.strictEqual((await send(`${service.url}/healthz`)).status, 200)
}

const recovers = async (service: Pick<Service, "url">, token: string) => {
  await eventually(async () => assert.strictEqual((await listClients(service.url, token)).status, 200))
  await isReady(service)
}

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

  it("allow a request after Retry-After, and count no refused request", async () => {
    const { one, two } = pair
    const token = await project(databaseUrl, limits(2, 6))
    const refusal = await eventually(async () => {
      const answer = await listClients(one.url, token)
      assert.strictEqual(answer.status, 429)
      return answer
    })
    const retryAfter = Number(refusal.headers["retry-after"])
    assert.match(String(refusal.headers["retry-after"]), /^[1-3]$/)
    const due = performance.now() + retryAfter * 1_000
    // All requests before were refused. If one of them had taken a token, the last one would be refused too.
    while (performance.now() < due - 1_500) {
      await listClients(two.url, token)
      await sleep(100)
    }
    await sleep(due - performance.now())
    assert.strictEqual((await listClients(two.url, token)).status, 200)
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

describe("a service", () => {
  requires("redis")

  it("recovers after its connections to a Redis that hangs have been given up", async () => {
    const { one, redis, two } = pair
    const token = await project(databaseUrl, plenty)
    redis.signal("SIGSTOP")
    // Longer than every timeout of a client.
    await sleep(7_000)
    await expectUnavailable(one, token)
    redis.signal("SIGCONT")
    await recovers(one, token)
    await recovers(two, token)
  })

  it("answers only 503 to a stream of requests during a restart of Redis", async () => {
    const { one, redis, two } = pair
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

  it("follows the name of Redis to another server when its own becomes a replica", async () => {
    const [first, second] = await Promise.all([makeRedis(), makeRedis()])
    await Promise.all([first.start(), second.start()])
    const name = await openName(first.port)
    const [token, service] = await Promise.all([
      project(databaseUrl, plenty),
      startHere(databaseUrl, { REDIS_URL: `redis://127.0.0.1:${name.port}` })
    ])
    await recovers(service, token)
    name.leadsTo(second.port)
    // A demoted server keeps its connections.
    assert.include(await ask(first.port, `REPLICAOF 127.0.0.1 ${second.port}`), "OK")
    expectProblem(await listClients(service.url, token), 503, "rate_limiter_unavailable")
    await recovers(service, token)
  })
})

/** Opens a port that stands for a name: new connections go to the server that the name leads to. */
const openName = async (first: number) => {
  const sockets = new Set<Socket>()
  let target = first
  const server = createServer((client) => {
    const redis = connect({ host: "127.0.0.1", port: target })
    for (const socket of [client, redis]) sockets.add(socket.on("error", () => socket.destroy()))
    client.pipe(redis)
    redis.pipe(client)
  })
  const port = await freePort()
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve))
  defer(() => {
    server.close()
    for (const socket of sockets) socket.destroy()
  })
  return {
    port,
    leadsTo: (other: number) => {
      target = other
    }
  }
}

const slots = 16_384

/** Starts three nodes, each with a third of the slots. */
const startCluster = async (): Promise<ReadonlyArray<Redis>> => {
  const nodes = await Promise.all(
    [0, 1, 2].map(() => makeRedis("--cluster-enabled", "yes", "--cluster-node-timeout", "1000"))
  )
  const [first = assert.fail()] = nodes
  for (const [n, node] of nodes.entries()) {
    await node.start()
    const [from, to] = [Math.ceil((n * slots) / 3), Math.ceil(((n + 1) * slots) / 3) - 1]
    assert.match(await ask(node.port, `CLUSTER ADDSLOTSRANGE ${from} ${to}`), /^\+OK/)
    assert.match(await ask(node.port, `CLUSTER SET-CONFIG-EPOCH ${n + 1}`), /^\+OK/)
    if (n > 0) assert.match(await ask(node.port, `CLUSTER MEET 127.0.0.1 ${first.port}`), /^\+OK/)
  }
  for (const { port } of nodes) {
    await eventually(async () => assert.match(await ask(port, "CLUSTER INFO"), /cluster_state:ok/))
  }
  return nodes
}

describe("buckets in a Redis cluster", () => {
  requires("redis")

  it("are shared by all services, whichever node has them, and work again after a node restarts", async () => {
    const nodes = await startCluster()
    const [first = assert.fail(), second = assert.fail()] = nodes
    const start = ({ url }: Redis) => startHere(databaseUrl, { REDIS_URL: url })
    const services = [await start(first), await start(second)] as const
    await Promise.all(services.map(isReady))
    // Enough projects that each node has some of their buckets. A name in braces would be a hash tag.
    for (let n = 0; n < 12; n++) {
      const id = n % 3 === 0 ? `{}${n}` : n % 3 === 1 ? `}{a}${n}` : `acme-${n}`
      const { project: settings } = limits(4, 1_200)
      const token = await project(databaseUrl, { project: { id, ...settings } })
      const answers = await Promise.all(
        [0, 1, 2, 3, 4, 5].map((m) => listClients(services[m % 2 === 0 ? 0 : 1].url, token))
      )
      const refused = answers.filter(({ status }) => status !== 200)
      assert.lengthOf(refused, 2, refused.map(({ text }) => text).join())
      for (const answer of refused) expectProblem(answer, 429, "rate_limit_exceeded")
    }
    for (const { port } of nodes) assert.notMatch(await ask(port, "DBSIZE"), /^:0\r/)

    // A restarted node has lost its scripts.
    await second.kill()
    await second.start()
    await eventually(async () => assert.match(await ask(second.port, "CLUSTER INFO"), /cluster_state:ok/))
    for (let n = 0; n < 6; n++) {
      const token = await project(databaseUrl, plenty)
      for (const service of services) await recovers(service, token)
    }
  })
})
