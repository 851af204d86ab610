/**
 * `bench move`: how long a project that moves to another database is fenced, by its number of records, while callers write to
 * it. A caller whose write is refused asks the source and the target in turn, as if the router followed at once. What callers see of
 * the fence lasts from the last answer of the source to the first of the target.
 *
 * A neighbour in the database of the source has steady traffic: its p95 before the move, in each step of it, and afterwards while a
 * process uses as much CPU as it gets, which shows what sharing the cores alone costs. With `--apart`, the database and the cell of the
 * target and the mover have the lowest priority, as they would not share the cores of the source on machines of their own.
 */
import type { PgClient } from "@effect/sql-pg"
import { Duration, Effect, Redacted, Stream } from "effect"
import { Command, Flag } from "effect/cli"
import { ChildProcess } from "effect/process"
import { randomUUID } from "node:crypto"
import { readFile, writeFile } from "node:fs/promises"
import { availableParallelism } from "node:os"
import { setTimeout as sleep } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import { json } from "../../src/cli/Flags.ts"
import { answer, table } from "../../src/cli/Output.ts"
import { ProjectId } from "../../src/api/schema/Ids.ts"
import { open } from "./deliveries/Ours.ts"
import { fixed } from "./Figures.ts"
import { rowOf, traffic } from "./Neighbour.ts"
import { count, type Findings, progress } from "./Options.ts"
import { BenchFailed, connect, database, openProject, secretKey, service, start } from "./Stage.ts"

export interface Options {
  /** Records of the largest project; the others have a tenth and a hundredth. */
  readonly records: number
  readonly writesPerSecond: number
  /** Whether the target and the mover take only the CPU time that nothing else uses. */
  readonly apart: boolean
}

export const usual: Options = { records: 1_000_000, writesPerSecond: 100, apart: false }

/** Gives the session of a process, which the kernel schedules as one, the lowest priority (sched(7), autogroups). */
const lower = (pid: number) => Effect.promise(() => writeFile(`/proc/${pid}/autogroup`, "19"))

const callers = 4

const plenty = { limit: 1_000_000, windowSeconds: 1 }
const unlimited = { read: plenty, write: plenty, messages: plenty }

/** Writes to the project until it is stopped. */
const callFor = (urls: readonly [source: string, target: string], token: string, writesPerSecond: number) => {
  const found: { acknowledged: number; refused: number; lastAtSource: number; firstAtTarget?: number } = {
    acknowledged: 0,
    refused: 0,
    lastAtSource: Number.NaN
  }
  let isOpen = true
  const write = async (url: string) => {
    const answered = await fetch(`${url}/api/v1/developer/crm/deals`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${token}`,
        "content-type": "application/json",
        "idempotency-key": `bench-${randomUUID()}`
      },
      body: JSON.stringify({ title: "Analytical engine" })
    })
    await answered.text()
    return answered.status === 201
  }
  const caller = async () => {
    let isAtTarget = false
    while (isOpen) {
      const [source, target] = urls
      if (await write(isAtTarget ? target : source)) {
        found.acknowledged++
        if (isAtTarget) found.firstAtTarget ??= Date.now()
        else found.lastAtSource = Date.now()
        await sleep((callers * 1_000) / writesPerSecond)
      } else {
        found.refused++
        isAtTarget = !isAtTarget
        await sleep(10)
      }
    }
  }
  const all = Promise.all(Array.from({ length: callers }, caller))
  return async () => {
    isOpen = false
    await all
    return found
  }
}

/** Runs `project move` at the source, and reports each step of it; returns what it prints. */
const runMove = Effect.fnUntraced(function* (
  id: string,
  source: Redacted.Redacted,
  target: Redacted.Redacted,
  apart: boolean,
  enter: (step: string) => void = () => {}
) {
  const command = ["src/cli.ts", "project", "move", "--project", id, "--to", Redacted.value(target), "--json"]
  const child = yield* ChildProcess.make(process.execPath, command, {
    cwd: fileURLToPath(new URL("../..", import.meta.url)),
    env: { PATH: process.env["PATH"], DATABASE_URL: Redacted.value(source), SECRET_KEY: secretKey }
  })
  if (apart) yield* lower(Number(child.pid))
  const steps = child.stderr.pipe(
    Stream.decodeText(),
    Stream.splitLines,
    Stream.runForEach((line) => Effect.sync(() => enter(line.split(":", 1)[0] ?? "")))
  )
  const [text] = yield* Effect.all([child.stdout.pipe(Stream.decodeText(), Stream.mkString), steps], { concurrency: 2 })
  return yield* Effect.try({
    try: (): { readonly state: string; readonly rows: number; readonly fencedMs: number } => JSON.parse(text),
    catch: () => new BenchFailed({ message: `The move of ${id} failed: ${text}` })
  })
}, Effect.scoped)

/** Keeps a core busy for a time, or all cores with what nothing else uses of them. */
const burn = (millis: number, apart: boolean) =>
  Effect.forEach(
    Array.from({ length: apart ? availableParallelism() : 1 }),
    () =>
      Effect.gen(function* () {
        const ends = `const end = Date.now() + ${millis}; while (Date.now() < end);`
        const child = yield* ChildProcess.make(process.execPath, ["-e", ends])
        if (apart) yield* lower(Number(child.pid))
        yield* child.exitCode
      }).pipe(Effect.scoped),
    { concurrency: "unbounded", discard: true }
  )

/** Returns the process of a PostgreSQL server. */
const serverOf = Effect.fnUntraced(function* (sql: PgClient.PgClient) {
  const [server] = yield* sql<{ directory: string }>`SELECT current_setting('data_directory') AS directory`
  return Number.parseInt(yield* Effect.promise(() => readFile(`${server?.directory}/postmaster.pid`, "utf8")), 10)
})

export const measure = Effect.fnUntraced(function* ({ apart, records, writesPerSecond }: Options) {
  yield* progress("starting two databases and two cells")
  const [sourceUrl, targetUrl] = [yield* database({}), yield* database({})]
  const source = yield* connect(sourceUrl)
  const target = yield* connect(targetUrl)
  if (apart) yield* lower(yield* serverOf(target))
  yield* openProject(target, { project: { id: "resident", name: "Resident" } })
  const env = { WEBHOOK_ALLOWED_NETWORKS: "127.0.0.0/8" }
  yield* openProject(source, { project: { id: "resident", name: "Resident" } })
  const neighbour = yield* openProject(source, {
    project: { id: "neighbour", name: "Neighbour", rateLimits: unlimited, defaultPipelineId: "sales" },
    pipelines: [{ id: "sales", name: "Sales", stages: [{ id: "new", name: "New" }] }]
  })
  const here = yield* start(service("source"), sourceUrl, { ...env, CELL: "01" })
  const there = yield* start(service("target"), targetUrl, {
    ...env,
    CELL: "02"
  })

  const moves = []
  for (const size of [records / 100, records / 10, records].map(Math.ceil)) {
    const id = ProjectId.make(`project_${size}`)
    const token = yield* open(source, id, ["http://127.0.0.1:9/"], { subscribed: 0 })
    yield* source`UPDATE projects SET contact_capacity = ${size} WHERE project_id = ${id}`
    yield* source`
      INSERT INTO clients (project_id, id, display_name, tags, status, version, created_at, updated_at)
      SELECT ${id}, 'cli_' || n, 'Ada Lovelace ' || n, '{}', 'active', 1, now(), now()
      FROM generate_series(1, ${size}::int) n`
    yield* source`VACUUM ANALYZE`
    const stop = callFor([here.url, there.url], token, writesPerSecond)
    const { enter, stop: stopNeighbour } = traffic(here.url, neighbour)
    enter("warm up")
    yield* Effect.sleep("5 seconds")
    enter("before")
    yield* Effect.sleep("15 seconds")
    enter("start")
    const [took, moved] = yield* Effect.timed(runMove(id, sourceUrl, targetUrl, apart, enter))
    enter("after")
    yield* Effect.sleep("2 seconds")
    const called = yield* Effect.promise(stop)
    enter("busy cores")
    yield* burn(8_000, apart)
    const { during, phases } = yield* Effect.promise(() =>
      stopNeighbour(new Set(["warm up", "before", "after", "busy cores"]))
    )
    const { fencedMs, rows } = moved
    const one = {
      records: size,
      rows,
      seconds: Duration.toSeconds(took),
      fencedMs,
      fencedByCallersMs: (called.firstAtTarget ?? Number.NaN) - called.lastAtSource,
      acknowledged: called.acknowledged,
      refused: called.refused,
      neighbour: [...phases, during]
    }
    moves.push(one)
    yield* progress(`move: ${JSON.stringify(one)}`)
    // The next run deletes the project at the source.
    yield* runMove(id, sourceUrl, targetUrl, apart)
  }
  const findings: Findings = {
    document: { settings: { records, writesPerSecond, apart, node: process.version }, moves },
    text: table([
      ["RECORDS", "ROWS", "MOVE, S", "FENCE, MS", "BY CALLERS, MS", "ACKNOWLEDGED", "REFUSED"],
      ...moves.map((one) => [
        String(one.records),
        String(one.rows),
        fixed(one.seconds, 1),
        fixed(one.fencedMs, 0),
        fixed(one.fencedByCallersMs, 0),
        String(one.acknowledged),
        String(one.refused)
      ])
    ]).concat(
      "\n\n",
      table([
        ["RECORDS", "NEIGHBOUR", "REQUESTS", "FAILED", "P95, MS", "TO BEFORE", "LOAD"],
        ...moves.flatMap(({ neighbour, records }) => {
          const before = neighbour.find(({ name }) => name === "before")?.p95 ?? Number.NaN
          return neighbour.map((phase) => rowOf(records, phase, before))
        })
      ])
    )
  }
  return findings
}, Effect.scoped)

export const command = Command.make(
  "move",
  {
    json,
    records: count("records", usual.records, "Records of the largest project; two others have a tenth and a hundredth"),
    writesPerSecond: count("writes-per-second", usual.writesPerSecond, "Writes a second while a project moves"),
    apart: Flag.Boolean("apart").pipe(
      Flag.withDescription("Give the target and the mover the lowest priority, as if they had machines of their own")
    )
  },
  Effect.fnUntraced(function* ({ json, ...options }) {
    const { document, text } = yield* measure(options)
    yield* answer(json, document, text)
  })
).pipe(Command.withDescription("How long a project that moves to another database is fenced"))
