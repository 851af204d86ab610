/** Rate limits that two services share through a Redis cluster (contract §4, §14). */
import { assert } from "@effect/vitest"
import { describe, it } from "vitest"
import { requires } from "../support/Programs.ts"
import { eventually } from "../support/Waiting.ts"
import { database, project, startHere } from "./Projects.support.ts"
import { ask, makeRedis, type Redis } from "./Redis.support.ts"
import { expectProblem, listClients, send } from "./Requests.support.ts"

const databaseUrl = await database()

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
    for (const { url } of services) {
      await eventually(async () => assert.strictEqual((await send(`${url}/readyz`)).status, 200))
    }
    // Enough projects that each node has some of their buckets. A name in braces would be a hash tag.
    for (let n = 0; n < 12; n++) {
      const id = n % 3 === 0 ? `{}${n}` : n % 3 === 1 ? `}{a}${n}` : `acme-${n}`
      const read = { limit: 4, windowSeconds: 1_200 }
      const token = await project(databaseUrl, { project: { id, name: "Acme", rateLimits: { read } } })
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
    const plenty = { limit: 1_000, windowSeconds: 1 }
    for (let n = 0; n < 6; n++) {
      const token = await project(databaseUrl, {
        project: { id: `again-${n}`, name: "A", rateLimits: { read: plenty } }
      })
      for (const { url } of services) {
        await eventually(async () => assert.strictEqual((await listClients(url, token)).status, 200))
      }
    }
  })
})
