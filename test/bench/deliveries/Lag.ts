/**
 * The time from a call to the arrival of its event at the receiver. Service and PostgreSQL share one core; load and receiver
 * share the others.
 */
import type { PgClient } from "@effect/sql-pg"
import { Effect } from "effect"
import { randomUUID } from "node:crypto"
import { Pool } from "undici"
import { ProjectId } from "../../../src/api/schema/Ids.ts"
import { table } from "../../../src/cli/Output.ts"
import { onOneCore } from "../Cores.ts"
import { childrenMillis, cpuMillis } from "../Cpu.ts"
import { fixed } from "../Figures.ts"
import { progress } from "../Options.ts"
import { command } from "../requests/Cases.ts"
import { anotherDatabase, connect, service } from "../Stage.ts"
import { open, ours } from "./Ours.ts"
import type { Scene } from "./Scene.ts"

const callers = 48

/** Returns the `traceparent` of a call: its trace id is the time, which the receiver reads from the delivery of the event. */
const traceparentNow = () => `00-${process.hrtime.bigint().toString(16).padStart(32, "0")}-b7ad6b7169203331-01`

/** Sends calls for some seconds, and returns their number. */
type Load = (call: (i: number) => Promise<void>, seconds: number) => Promise<number>

/** Callers that send as fast as they can. */
const flood: Load = async (call, seconds) => {
  const end = performance.now() + seconds * 1_000
  let sent = 0
  const caller = async (_: unknown, i: number) => {
    for (; performance.now() < end; sent++) await call(i)
  }
  await Promise.all(Array.from({ length: callers }, caller))
  return sent
}

/** Calls at equal intervals. */
const steady =
  (perSecond: number): Load =>
  async (call, seconds) => {
    const calls: Array<Promise<void>> = []
    const start = performance.now()
    for (let i = 0; i < perSecond * seconds; i++) {
      const wait = Math.max(0, start + (i * 1_000) / perSecond - performance.now())
      await new Promise((resolve) => setTimeout(resolve, wait))
      calls.push(call(i))
    }
    await Promise.all(calls)
    return calls.length
  }

interface Shape {
  readonly title: string
  readonly endpoints: number
  readonly load: Load
  /** Whether a transaction has a snapshot from before the first event. */
  readonly hasSnapshot?: true
}

export const shapes = {
  idle: { title: "20 events/s", endpoints: 1, load: steady(20) },
  snapshot: { title: "100 events/s, an old snapshot", endpoints: 1, load: steady(100), hasSnapshot: true },
  flood: { title: "48 callers, one endpoint", endpoints: 1, load: flood },
  floods: { title: "48 callers, 20 endpoints", endpoints: 20, load: flood }
} as const satisfies Record<string, Shape>

/** Runs one shape in a database of its own. Each endpoint belongs to a project of its own, and callers take turns on the projects. */
const run = Effect.fnUntraced(function* (
  { endpoints: receiver, postmaster, url }: Scene,
  { endpoints, hasSnapshot, load, title }: Shape,
  seconds: number
) {
  const databaseUrl = yield* anotherDatabase(url, `lag_${randomUUID()}`)
  const tokens: Array<string> = []
  const prepare = (sql: PgClient.PgClient) =>
    Effect.forEach(receiver.urls.slice(0, endpoints), (url, i) =>
      Effect.map(open(sql, ProjectId.make(`bench_${i}`), [url]), (token) => tokens.push(token))
    )
  const server = yield* ours(onOneCore(service("ours")), databaseUrl, prepare, { LOG_LEVEL: "warn" })
  const pool = yield* Effect.acquireRelease(
    Effect.sync(() => new Pool(server.url, { connections: callers, pipelining: 1 })),
    (pool) => Effect.promise(() => pool.close())
  )
  const call = async (i: number) => {
    const { headers, ...request } = command("POST", "/api/v1/developer/crm/deals", { title: "Deal" }, randomUUID())
    const authorization = `Bearer ${tokens[i % tokens.length]}`
    const own = { authorization, traceparent: traceparentNow() }
    const answer = await pool.request({ ...request, headers: { ...headers, ...own } })
    await answer.body.dump()
    if (answer.statusCode !== 201) throw new Error(`status ${answer.statusCode}`)
  }
  // The first seconds are not counted: code is compiled and connections are opened.
  yield* receiver.forget
  yield* receiver.received(yield* Effect.promise(() => load(call, 2)))
  if (hasSnapshot === true) {
    const sql = yield* connect(databaseUrl)
    yield* sql`BEGIN ISOLATION LEVEL REPEATABLE READ`
    yield* sql`SELECT FROM deliveries LIMIT 1`
  }
  yield* receiver.forget
  const used = () => cpuMillis(server.pid) + childrenMillis(postmaster)
  const before = used()
  const at = performance.now()
  const sent = yield* Effect.promise(() => load(call, seconds))
  const lasted = (performance.now() - at) / 1_000
  const { count } = yield* receiver.received(0)
  yield* receiver.received(sent)
  const micros = ((used() - before) * 1_000) / sent
  const { p50, p95 } = yield* receiver.lag
  const figures = [fixed(sent / lasted, 0), fixed(count / lasted, 0), fixed(p50, 1), fixed(p95, 1), fixed(micros, 0)]
  yield* progress(`${title}: ${figures.join(", ")}`)
  return [title, ...figures]
}, Effect.scoped)

const head = ["FROM CALL TO RECEIVER", "CREATES/S", "EVENTS/S", "P50 MS", "P95 MS", "CPU µS/EVENT"]

export const measure = (scene: Scene, parts: ReadonlyArray<keyof typeof shapes>, seconds: number) =>
  Effect.map(
    Effect.forEach(parts, (part) => run(scene, shapes[part], seconds)),
    (rows) => table([head, ...rows])
  )
