/**
 * `bench hostile`: time to refuse bodies that are made to be expensive, response time of `/healthz` meanwhile, and memory of
 * the process before and after.
 */
import { Clock, Effect, Fiber, Schedule } from "effect"
import { Command } from "effect/cli"
import { ProjectId } from "../../src/api/Ids.ts"
import { json } from "../../src/cli/Flags.ts"
import { answer, table } from "../../src/cli/Output.ts"
import { hostileBodies } from "../support/HostileBodies.ts"
import { residentMebibytes } from "../support/Process.ts"
import { fixed, median, quantile, ranged, round, spread } from "./Figures.ts"
import { count, type Findings, progress } from "./Options.ts"
import { BenchFailed, connect, database, openProject, type Running, service, start } from "./Stage.ts"

export interface Options {
  readonly rounds: number
}

export const usual: Options = { rounds: 20 }

const plenty = { limit: 1_000_000, windowSeconds: 1 }
const projectId = ProjectId.make("hostile")
const project = {
  project: { id: projectId, name: "Hostile", rateLimits: { read: plenty, write: plenty, messages: plenty } }
}

/** Fetches a whole answer; returns its duration in milliseconds and its size. */
const timed = Effect.fnUntraced(function* (url: string, status: number, init?: RequestInit) {
  const started = yield* Clock.currentTimeNanos
  const answered = yield* Effect.promise(() => fetch(url, init))
  const text = yield* Effect.promise(() => answered.text())
  if (answered.status !== status) return yield* new BenchFailed({ message: `${answered.status} ${text.slice(0, 500)}` })
  return { millis: Number((yield* Clock.currentTimeNanos) - started) / 1e6, bytes: Buffer.byteLength(text) }
})

const measureOne = Effect.fnUntraced(function* (server: Running, token: string, name: string, rounds: number) {
  const body = hostileBodies[name]?.body ?? ""
  const headers = {
    authorization: `Bearer ${token}`,
    "content-type": "application/json",
    "idempotency-key": "hostile-1"
  }
  const health: Array<number> = []
  const watching = yield* timed(`${server.url}/healthz`, 200).pipe(
    Effect.map(({ millis }) => health.push(millis)),
    Effect.repeat(Schedule.spaced("5 millis")),
    Effect.forkScoped
  )
  const answers = yield* Effect.forEach(Array.from({ length: rounds }), () =>
    timed(`${server.url}/api/v1/developer/crm/clients`, 400, { method: "POST", headers, body })
  )
  yield* Fiber.interrupt(watching)
  yield* progress(`hostile: ${name}`)
  return {
    name,
    bytes: Math.max(...answers.map(({ bytes }) => bytes)),
    millis: answers.map(({ millis }) => millis),
    healthP95: quantile(health, 0.95)
  }
}, Effect.scoped)

/** Starts PostgreSQL and the service, and sends every body `rounds` times. */
export const measure = Effect.fnUntraced(function* ({ rounds }: Options) {
  yield* progress("starting PostgreSQL and the service")
  const url = yield* database({})
  const token = yield* openProject(yield* connect(url), project)
  const server = yield* start(service("ours"), url)
  const names = Object.keys(hostileBodies)
  // Warms up, so that the first body does not pay for compilation.
  for (const name of names) yield* measureOne(server, token, name, 2)
  const before = residentMebibytes(server.pid)
  const measured = yield* Effect.forEach(names, (name) => measureOne(server, token, name, rounds))
  const after = residentMebibytes(server.pid)
  const head = ["HOSTILE BODY", "ANSWER BYTES", "MS", "/HEALTHZ P95 MS"]
  const lines = measured.map(({ bytes, healthP95, millis, name }) => [
    name,
    String(bytes),
    ranged(millis, 1),
    fixed(healthP95, 1)
  ])
  const findings: Findings = {
    document: {
      settings: { rounds, node: process.version },
      memoryMebibytes: { before: round(before), after: round(after) },
      bodies: measured.map(({ millis, ...one }) => ({ ...one, millis: spread(millis), median: round(median(millis)) }))
    },
    text: `${table([head, ...lines])}\n\nRSS ${fixed(before, 0)} MiB before, ${fixed(after, 0)} MiB after`
  }
  return findings
}, Effect.scoped)

export const command = Command.make(
  "hostile",
  { json, rounds: count("rounds", usual.rounds, "Times that each body is sent") },
  Effect.fnUntraced(function* ({ json, ...options }) {
    const { document, text } = yield* measure(options)
    yield* answer(json, document, text)
  })
).pipe(Command.withDescription("How long hostile bodies take to be refused"))
