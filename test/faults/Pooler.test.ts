/** A service that connects to PostgreSQL through PgBouncer in transaction mode (contract §14). */
import { assert } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { beforeAll, describe, it } from "vitest"
import { chmod, writeFile } from "node:fs/promises"
import * as Path from "node:path"
import { requestOf } from "../contract/Requests.ts"
import { run } from "../cli/Cli.support.ts"
import type { Sample } from "../contract/Sample.ts"
import { samples, World } from "../contract/Samples.ts"
import { ok, settings } from "../webhooks/delivery/Deliveries.support.ts"
import { defer } from "../support/Finalizers.ts"
import { freePort, launch, type Launched, temporaryDirectory } from "../support/Process.ts"
import { isUsed, pathOf, requires } from "../support/Programs.ts"
import { TestServer } from "../support/TestServer.ts"
import { eventually, untilNoneLeft } from "../support/Waiting.ts"
import { database, project, serviceEnv, session, startHere } from "./Projects.support.ts"
import {
  bearer,
  clients,
  command,
  createClient,
  expectProblem,
  listClients,
  open,
  send,
  stream
} from "./Requests.support.ts"
import { listen, openShop } from "./Shop.support.ts"

/** Starts a PgBouncer in transaction mode with at most `sessions` sessions of PostgreSQL. */
const startPooler = async (databaseUrl: string, sessions: number) => {
  const directory = await temporaryDirectory()
  const port = await freePort()
  const { hostname, password, port: target, username } = new URL(databaseUrl)
  const file = Path.join(directory, "pgbouncer.ini")
  await writeFile(
    file,
    `[databases]
* = host=${hostname} port=${target} user=${username} password=${decodeURIComponent(password)}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = ${sessions}
max_client_conn = 200
`
  )
  await Promise.all([chmod(directory, 0o755), chmod(file, 0o644)])
  // PgBouncer refuses to run as root.
  const user = process.getuid?.() === 0 ? ["-u", "nobody"] : []
  const url = new URL(databaseUrl)
  url.port = String(port)
  let running: Launched | undefined
  defer(() => running?.end())
  const start = async () => {
    running = launch(pathOf("pgbouncer"), [...user, file])
    await eventually(() => session(url.href))
  }
  await start()
  return {
    url: url.href,
    start,
    kill: async () => {
      await running?.end()
    }
  }
}

describe("a service behind PgBouncer in transaction mode", () => {
  requires("pgbouncer")

  let direct: string
  let pooler: Awaited<ReturnType<typeof startPooler>>
  let api: Awaited<ReturnType<typeof startHere>>

  beforeAll(async () => {
    if (!isUsed("pgbouncer")) return
    direct = await database()
    pooler = await startPooler(direct, 6)
    api = await start("api")
  })

  const through = ({ url }: typeof pooler) => ({ ...serviceEnv(url), ...settings, DATABASE_DIRECT_URL: direct })
  const start = (role: "api" | "worker") => startHere(pooler.url, through(pooler), role)

  it("answers every operation, and repeats the answers of mutations under their keys", async () => {
    const walk = Effect.gen(function* () {
      const { ask, own } = yield* World
      const { send } = yield* TestServer
      const twice = Effect.fnUntraced(function* (sample: Sample) {
        const key = `pooled-${crypto.randomUUID()}`
        const first = yield* ask(sample, own, sample.key === undefined ? {} : { key })
        assert.strictEqual(first.status, sample.status, `${sample.method} ${sample.path}: ${first.text}`)
        if (sample.key === undefined) return
        const again = yield* send(requestOf(sample, own.token, { key }))
        assert.strictEqual(again.headers["idempotent-replayed"], "true", `${sample.method} ${sample.path}`)
      })
      yield* Effect.forEach(Object.values(samples), twice)
    })
    const server = World.layerNoDeps.pipe(Layer.provideMerge(TestServer.layer(through(pooler), "api")))
    await Effect.runPromise(Effect.provide(walk, server))
  })

  it("commits each acknowledged mutation once under load, and delivers its event", async () => {
    await start("worker")
    const receiver = await listen(ok)
    const shop = await openShop(direct, api, receiver.url)
    const requests = stream(16, (n) => shop.call(api, "POST", "crm/deals", `pooled-${n}`, { title: `Deal ${n}` }), 0)
    await eventually(() => assert.isAbove(requests.answers.length, 300))
    await requests.stop()
    assert.deepStrictEqual([requests.failures, requests.kinds()], [[], ["201"]])
    assert.strictEqual(await shop.deals(), requests.answers.length)
    await untilNoneLeft(() => shop.inState("pending", "delivering"))
    assert.deepStrictEqual([...receiver.seen().keys()].sort(), (await shop.events()).sort())
  })

  it("cancels a statement that waits too long, also after its caller has disconnected, and serves others meanwhile", async () => {
    const token = await project(direct, { clients: [{ id: "locked", displayName: "Locked" }] })
    const sql = await session(direct)
    await sql("BEGIN")
    await sql("SELECT FROM clients WHERE id = 'locked' FOR UPDATE")
    const patch = (key: string) =>
      open(`${api.url}${clients}/locked`, {
        method: "PATCH",
        headers: { ...bearer(token), "idempotency-key": key, "content-type": "application/json" }
      })
    const [waits, leaves] = [patch("waits-until-the-end"), patch("hangs-up-before-the-end")]
    for (const { request } of [waits, leaves]) request.end(JSON.stringify({ displayName: "Changed" }))
    const waiting = "SELECT query FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    await eventually(async () => assert.isAbove((await sql(waiting)).length, 0))
    leaves.request.destroy()
    assert.strictEqual((await listClients(api.url, token)).status, 200)
    assert.strictEqual((await createClient(api.url, token, "is-not-locked", "Other")).status, 201)
    const answer = await waits.answer
    expectProblem(answer, 503, "service_unavailable")
    assert.isBelow(answer.millis, 5_000)
    await eventually(async () => assert.deepStrictEqual(await sql(waiting), []))
    await sql("ROLLBACK")
    const change = { method: "PATCH", json: { displayName: "Changed" } }
    const patched = await command(`${api.url}${clients}/locked`, token, "waits-until-the-end", change)
    assert.strictEqual(patched.status, 200)
  })

  it("works in sessions in which other clients have left settings, as pg_dump does", async () => {
    const token = await project(direct)
    // One transaction each, so that every session of the pooler gets them.
    const left = await Promise.all(Array.from({ length: 6 }, () => session(pooler.url)))
    for (const _ of [1, 2, 3]) {
      await Promise.all(
        left.map((sql) =>
          sql(`
            SELECT set_config('search_path', '', false), set_config('role', 'pg_monitor', false),
              set_config('synchronous_commit', 'off', false), pg_sleep(0.2)`)
        )
      )
    }
    for (const n of [1, 2, 3, 4, 5, 6]) {
      assert.strictEqual((await listClients(api.url, token)).status, 200)
      assert.strictEqual((await createClient(api.url, token, `in-a-used-session-${n}`, "Anna")).status, 201)
    }
    assert.strictEqual((await send(`${api.url}/readyz`)).status, 200)
  })

  it("answers 503 while PgBouncer is away, tells operators which address does not answer, and recovers by itself", async () => {
    const token = await project(direct)
    const admin = await freePort()
    const console = await startHere(pooler.url, { ...through(pooler), ADMIN_PORT: String(admin) }, "api")
    const env = { ...through(pooler), ADMIN_PORT: String(admin), DATABASE_URL: pooler.url }
    const command = (...args: ReadonlyArray<string>) => Effect.runPromise(run(args, { env }))
    const { url } = JSON.parse((await command("console", "--json")).stdout)
    const signedIn = await fetch(url.split("?")[0], {
      method: "POST",
      body: new URL(url).searchParams,
      redirect: "manual"
    })
    const headers = {
      cookie: signedIn.headers
        .getSetCookie()
        .map((cookie) => cookie.split(";")[0])
        .join("; ")
    }
    const overview = () => fetch(`http://127.0.0.1:${admin}/console`, { headers })
    assert.strictEqual((await overview()).status, 200)
    assert.strictEqual((await listClients(api.url, token)).status, 200)
    await pooler.kill()
    const address = `connect ECONNREFUSED ${new URL(pooler.url).host}`
    await eventually(async () =>
      assert.include(await (await overview()).text(), `The database can&#39;t be used: ${address}`)
    )
    assert.strictEqual((await send(`${console.url}/readyz`)).status, 503)
    assert.include((await command("doctor")).stdout, `failed   pooler       The database can't be used: ${address}\n`)
    expectProblem(await listClients(api.url, token), 503, "service_unavailable")
    expectProblem(await createClient(api.url, token, "while-it-is-away", "Nobody"), 503, "service_unavailable")
    await pooler.start()
    await eventually(async () => assert.strictEqual((await listClients(api.url, token)).status, 200))
    assert.strictEqual((await createClient(api.url, token, "while-it-is-away", "Nobody")).status, 201)
  })
})
