/** Requests while PostgreSQL fails, and the recovery afterwards without help (contract §5, §15). */
import { setTimeout as sleep } from "node:timers/promises"
import { assert } from "@effect/vitest"
import { beforeAll, beforeEach, describe, it } from "vitest"
import { inGoodOrder, type Service, startService } from "../support/Process.ts"
import { startCluster } from "./Cluster.support.ts"
import { project, serviceEnv, session, unlimited } from "./Projects.support.ts"
import { bearer, clients, createClient, expectProblem, kindOf, listClients, send, stream } from "./Requests.support.ts"
import { openProxy, type WireProxy } from "../support/WireProxy.ts"
import { eventually } from "../support/Waiting.ts"

const cluster = await startCluster()
const token = await project(cluster.url, { project: { rateLimits: unlimited } })

const startOn = async (url: string) => {
  const service = await startService({ env: serviceEnv(url) })
  assert.strictEqual((await listClients(service.url, token)).status, 200)
  return service
}

/** Recovers in each test; a test that shuts a service down starts one of its own. */
const service = await startOn(cluster.url)

const expectUnavailable = async (service: Service) => {
  const answers = await Promise.all([
    listClients(service.url, token),
    createClient(service.url, token, "while-it-is-away", "Nobody"),
    send(`${service.url}${clients}/nobody`, { headers: bearer(token) }),
    send(`${service.url}/readyz`)
  ])
  for (const answer of answers) {
    expectProblem(answer, 503, "service_unavailable")
    assert.isBelow(answer.millis, 5_000)
  }
  assert.strictEqual((await send(`${service.url}/healthz`)).status, 200)
}

const recovers = async (service: Service, key = token) => {
  await eventually(async () => assert.strictEqual((await listClients(service.url, key)).status, 200))
  await eventually(async () => assert.strictEqual((await send(`${service.url}/readyz`)).status, 200))
}

const countOf = async (service: Service, key: string, displayName: string) => {
  const { text } = await send(`${service.url}${clients}?limit=100`, { headers: bearer(key) })
  return text.split(`"displayName":"${displayName}"`).length - 1
}

beforeEach(() => recovers(service))

/** Sends a mutation until it succeeds, as a caller with retries does. */
const insist = async (service: Service, key: string, displayName: string) => {
  const created = await eventually(async () => {
    const answer = await createClient(service.url, token, key, displayName)
    assert.strictEqual(answer.status, 201)
    return answer
  })
  assert.strictEqual(await countOf(service, token, displayName), 1)
  return created
}

/** Holds a lock that creates of clients wait for, as the creation of an index does. */
const holdCreates = async () => {
  const [holder, observer] = await Promise.all([session(cluster.url), session(cluster.url)])
  await holder("BEGIN")
  await holder("LOCK TABLE clients IN SHARE MODE")
  return {
    release: () => holder("COMMIT"),
    /** Waits until a create waits for the lock. Returns the process id of its backend. */
    waiting: () =>
      eventually(async () => {
        const [row] = await observer(`
          SELECT pid FROM pg_locks JOIN pg_database ON pg_database.oid = database
          WHERE datname = current_database() AND relation = 'clients'::regclass AND mode = 'RowExclusiveLock'
            AND NOT granted`)
        return Number(row?.["pid"] ?? assert.fail("no create waits"))
      })
  }
}

/** Failures of PostgreSQL, and how each ends. */
const losses: ReadonlyArray<readonly [what: string, lose: () => unknown, restore: () => unknown]> = [
  ["is killed", () => cluster.kill(), () => cluster.start()],
  ["is stopped", () => cluster.stop(), () => cluster.start()],
  ["hangs", () => cluster.signal("SIGSTOP"), () => cluster.signal("SIGCONT")]
]

describe.each(losses)("a service whose PostgreSQL %s", (what, lose, restore) => {
  it("answers 503 within the limit, and recovers once it is back", async () => {
    await lose()
    await expectUnavailable(service)
    await sleep(1_000)
    await expectUnavailable(service)
    await restore()
    await recovers(service)
    if (what === "is killed") assert.strictEqual(await countOf(service, token, "Nobody"), 0)
    // The commands sent meanwhile are applied once or not at all.
    await insist(service, "while-it-is-away", "Nobody")
  })

  it("shuts down in good order", async () => {
    const service = await startOn(cluster.url)
    await lose()
    await expectUnavailable(service)
    const ended = await service.stop()
    await restore()
    assert.deepStrictEqual(ended, inGoodOrder)
  })
})

describe("a service whose PostgreSQL crashes and recovers", () => {
  it("answers some 503 to a stream of mutations, and loses and repeats no effect", async () => {
    const own = await project(cluster.url, { project: { rateLimits: unlimited } })
    const asked = new Set<string>()
    const requests = stream(6, async (n) => {
      const ask = () => createClient(service.url, own, `while-it-crashes-${n}`, `Crash ${n}`)
      asked.add(`Crash ${n}`)
      const first = await ask()
      if (first.status !== 201) await eventually(async () => assert.strictEqual((await ask()).status, 201))
      return first
    })
    await eventually(() => assert.isAbove(requests.answers.length, 20))
    // The crash meets a command in flight, because it waits for this lock.
    const { waiting } = await holdCreates()
    cluster.crash(await waiting())
    await eventually(() => assert.isAbove(requests.kinds().length, 1))
    await recovers(service, own)
    await requests.stop()
    assert.deepStrictEqual(requests.failures, [])
    const after = await session(cluster.url)
    const effects = await after("SELECT display_name AS name FROM clients WHERE display_name LIKE 'Crash %'")
    assert.deepStrictEqual(effects.map(({ name }) => name).sort(), [...asked].sort())
    assert.includeMembers(["201", "503 service_unavailable"], requests.kinds())
  })
})

describe("a service whose network to PostgreSQL fails", () => {
  let proxy: WireProxy
  let service: Service
  beforeAll(async () => {
    proxy = await openProxy(cluster.url)
    service = await startOn(proxy.url)
  })

  it("replays a mutation whose answer was lost", async () => {
    const done = proxy.trap({ statement: /INSERT INTO clients/, when: "answered", count: 1 })
    const answer = createClient(service.url, token, "answer-is-lost", "Lost Answer")
    await done.reached
    done.cut()
    expectProblem(await answer, 503, "service_unavailable")
    const again = await insist(service, "answer-is-lost", "Lost Answer")
    assert.propertyVal(again.headers, "idempotent-replayed", "true")
  })

  it("replays a mutation whose caller was lost, and logs that it was lost", async () => {
    const { release, waiting } = await holdCreates()
    const abort = new AbortController()
    const asked = fetch(`${service.url}${clients}`, {
      method: "POST",
      headers: { ...bearer(token), "idempotency-key": "caller-is-lost", "content-type": "application/json" },
      body: JSON.stringify({ displayName: "Lost Caller" }),
      signal: abort.signal
    })
    await waiting()
    abort.abort()
    assert.instanceOf(await asked.catch((error: unknown) => error), Error)
    await eventually(() => assert.match(service.stderr(), /clients 499 \d+ ms .*address=127\.0\.0\.1/))
    await release()
    await recovers(service)
    await insist(service, "caller-is-lost", "Lost Caller")
  })

  it("replaces connections that carry nothing any more", async () => {
    proxy.blackHole()
    const [first, ready] = await Promise.all([listClients(service.url, token), send(`${service.url}/readyz`)])
    for (const answer of [first, ready]) {
      assert.include(["200", "503 service_unavailable"], kindOf(answer))
      assert.isBelow(answer.millis, 5_000)
    }
    await recovers(service)
  })

  it("answers 503 within the limit while new connections carry nothing, and recovers afterwards", async () => {
    proxy.hang()
    await expectUnavailable(service)
    await expectUnavailable(service)
    proxy.heal()
    await recovers(service)
  })
})

it("a service whose password is changed answers 503 and logs the reason, until the password is right again", async () => {
  const sql = await session(cluster.url)
  await sql("CREATE ROLE renewed LOGIN SUPERUSER PASSWORD 'first'")
  const own = await startOn(cluster.url.replace(/\/\/[^@]+@/, "//renewed:first@"))
  await sql("ALTER ROLE renewed PASSWORD 'second'")
  await sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'renewed'")
  await expectUnavailable(own)
  // The line of a failed request has the reason.
  assert.match(own.stderr(), /WARN .* 503 service_unavailable .*password authentication failed for user "renewed"/)
  const ids = [...own.stderr().matchAll(/ request_id=(\S+)/g)].map(([, id]) => id)
  assert.deepStrictEqual(ids, [...new Set(ids)])
  await sql("ALTER ROLE renewed PASSWORD 'first'")
  await recovers(own)
  assert.notInclude(own.stderr(), "ERROR")
})
