/**
 * `bench hostile`: time and CPU time of requests that are made to be expensive and are refused, response time of `/healthz`
 * meanwhile, and memory of the process before and after.
 */
import { Clock, Effect, Fiber, Schedule } from "effect"
import { Command } from "effect/cli"
import { Agent } from "node:http"
import { ProjectId } from "../../src/api/schema/Ids.ts"
import { json } from "../../src/cli/Flags.ts"
import { answer, table } from "../../src/cli/Output.ts"
import { type Request, send } from "../support/ContractHttp.ts"
import { hostileBodies } from "../support/HostileBodies.ts"
import { hostileParts, plainPart } from "../support/HostileTargets.ts"
import { freePort, residentMebibytes } from "../support/Process.ts"
import { cpuMillis } from "./Cpu.ts"
import { fixed, median, quantile, ranged, round, spread } from "./Figures.ts"
import { count, type Findings, progress } from "./Options.ts"
import { BenchFailed, connect, database, openProject, type Running, service, start } from "./Stage.ts"

export interface Options {
  readonly rounds: number
}

export const usual: Options = { rounds: 50 }

const plenty = { limit: 1_000_000, windowSeconds: 1 }
const projectId = ProjectId.make("hostile")
const project = {
  project: { id: projectId, name: "Hostile", rateLimits: { read: plenty, write: plenty, messages: plenty } }
}

/** A hostile request, with the port that it is sent to. */
interface Hostile {
  readonly name: string
  readonly base: string
  readonly request: Request
}

const asJson = { "content-type": "application/json" }
const clients = "/api/v1/developer/crm/clients"

/** Lists the requests: bodies with a token, and each part of a target as a path and a query of both ports. */
const requestsOf = (url: string, admin: string, token: string): ReadonlyArray<Hostile> => [
  ...Object.entries(hostileBodies).map(([name, { body }]) => ({
    name: `body: ${name}`,
    base: url,
    request: { method: "POST", path: clients, token, key: "hostile-1", headers: asJson, body }
  })),
  ...Object.entries({ ...hostileParts, "nothing hostile": plainPart }).flatMap(([name, part]) => [
    { name: `unknown path: ${name}`, base: url, request: { path: `/x/${part}` } },
    { name: `id without a token: ${name}`, base: url, request: { path: `${clients}/${part}` } },
    { name: `id: ${name}`, base: url, request: { path: `${clients}/${part}`, token } },
    { name: `query without a token: ${name}`, base: url, request: { path: `${clients}?${part}` } },
    { name: `query: ${name}`, base: url, request: { path: `${clients}?${part}`, token } },
    { name: `admin port, path: ${name}`, base: admin, request: { path: `/x/${part}` } },
    { name: `admin port, query: ${name}`, base: admin, request: { path: `/console/deliveries?${part}` } }
  ])
]

/** Fetches `/healthz` until it is interrupted, and records the durations in milliseconds. */
const watch = (base: string, durations: Array<number>) =>
  timed({ name: "healthz", base, request: { path: "/healthz" } }).pipe(
    Effect.map(({ millis }) => durations.push(millis)),
    Effect.repeat(Schedule.spaced("20 millis"))
  )

/** Sends a request; returns its duration in milliseconds and the size of the answer, which is a refusal. */
const timed = Effect.fnUntraced(function* ({ base, name, request }: Hostile) {
  const started = yield* Clock.currentTimeNanos
  const { status, text } = yield* send(base, request)
  if (status >= 500) return yield* new BenchFailed({ message: `${name}: ${status} ${text.slice(0, 500)}` })
  return { millis: Number((yield* Clock.currentTimeNanos) - started) / 1e6, bytes: Buffer.byteLength(text) }
})

/** Sends a request `rounds` times on one connection. */
const measureOne = Effect.fnUntraced(function* (server: Running, hostile: Hostile, rounds: number) {
  const agent = yield* Effect.acquireRelease(
    Effect.sync(() => new Agent({ keepAlive: true, maxSockets: 1 })),
    (agent) => Effect.sync(() => agent.destroy())
  )
  const kept = { ...hostile, request: { ...hostile.request, agent } }
  const before = cpuMillis(server.pid)
  const answers = yield* Effect.forEach(Array.from({ length: rounds }), () => timed(kept))
  const cpu = (cpuMillis(server.pid) - before) / rounds
  yield* progress(`hostile: ${hostile.name}`)
  return {
    name: hostile.name,
    bytes: Math.max(...answers.map(({ bytes }) => bytes)),
    millis: answers.map(({ millis }) => millis),
    cpu
  }
}, Effect.scoped)

/** Starts PostgreSQL and the service, and sends every request `rounds` times. */
export const measure = Effect.fnUntraced(function* ({ rounds }: Options) {
  yield* progress("starting PostgreSQL and the service")
  const url = yield* database({})
  const token = yield* openProject(yield* connect(url), project)
  const port = yield* Effect.promise(freePort)
  const server = yield* start(service("ours"), url, { ADMIN_PORT: String(port) })
  const requests = requestsOf(server.url, `http://127.0.0.1:${port}`, token)
  // Warms up, so that the first request does not pay for compilation.
  for (const request of requests) yield* measureOne(server, request, 2)
  const before = residentMebibytes(server.pid)
  const health: Array<number> = []
  const watching = yield* Effect.forkScoped(watch(server.url, health))
  const measured = yield* Effect.forEach(requests, (request) => measureOne(server, request, rounds))
  yield* Fiber.interrupt(watching)
  const after = residentMebibytes(server.pid)
  const head = ["HOSTILE REQUEST", "ANSWER BYTES", "CPU MS", "MS"]
  const lines = measured.map(({ bytes, cpu, millis, name }) => [name, String(bytes), fixed(cpu, 1), ranged(millis, 1)])
  const most = Math.max(...measured.map(({ cpu }) => cpu))
  const healthP95 = quantile(health, 0.95)
  const findings: Findings = {
    document: {
      settings: { rounds, node: process.version },
      memoryMebibytes: { before: round(before), after: round(after) },
      healthP95: round(healthP95),
      mostCpuMillis: round(most),
      requests: measured.map(({ cpu, millis, ...one }) => ({
        ...one,
        cpuMillis: round(cpu),
        millis: spread(millis),
        median: round(median(millis))
      }))
    },
    text: [
      table([head, ...lines]),
      "",
      `at most ${fixed(most, 1)} ms of CPU for a request; /healthz p95 ${fixed(healthP95, 1)} ms; ` +
        `RSS ${fixed(before, 0)} MiB before, ${fixed(after, 0)} MiB after`
    ].join("\n")
  }
  return findings
}, Effect.scoped)

export const command = Command.make(
  "hostile",
  { json, rounds: count("rounds", usual.rounds, "Times that each request is sent") },
  Effect.fnUntraced(function* ({ json, ...options }) {
    const { document, text } = yield* measure(options)
    yield* answer(json, document, text)
  })
).pipe(Command.withDescription("What it costs to refuse hostile requests"))
