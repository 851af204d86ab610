/** A durable PostgreSQL with one project in it, and the servers that are compared on it. All of it ends with the scope. */
import { PgClient } from "@effect/sql-pg"
import { Data, Duration, Effect, Layer, Option, Redacted, Stream } from "effect"
import { ChildProcess, ChildProcessSpawner } from "effect/process"
import { randomBytes } from "node:crypto"
import { mkdtemp, readFile, rm } from "node:fs/promises"
import * as Os from "node:os"
import * as Path from "node:path"
import { fileURLToPath } from "node:url"
import { scopes } from "../../src/api/Access.ts"
import { ApiKeys } from "../../src/platform/auth/ApiKeys.ts"
import { migrate } from "../../src/platform/Migrations.ts"
import { EmbeddedPostgres } from "../../src/platform/EmbeddedPostgres.ts"
import * as Postmaster from "../../src/platform/EmbeddedPostgres/Postmaster.ts"
import { Projects } from "../../src/project/Projects.ts"
import { secretBox } from "../support/SecretBox.ts"
import { resting } from "./cases/Notes.ts"
import { makeNotes, projectFile, projectId } from "./Seed.ts"

/** Why there is nothing to report. */
export class BenchFailed extends Data.TaggedError("BenchFailed")<{ readonly message: string }> {}

/** A server under load. */
export interface Contender {
  readonly name: string
  readonly url: string
  readonly pid: number
}

/** What one contender is, before it runs. */
export interface Program {
  readonly name: string
  readonly directory: string
  /** Arguments of Node. */
  readonly arguments: ReadonlyArray<string>
}

const here = fileURLToPath(new URL("../..", import.meta.url))

/** The service of a checkout, this one if not said otherwise; with a CPU profile in `profile` when it ends. */
export const service = (name: string, directory = here, profile?: string): Program => ({
  name,
  directory,
  arguments: [...(profile === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${profile}`]), "src/main.ts"]
})

export const fastify: Program = { name: "fastify", directory: here, arguments: ["test/bench/fastify.ts"] }

/** PostgreSQL as it comes: every commit is flushed. Only what it shows of a running statement is more than usual. */
const flags = { track_activity_query_size: "16384" }

/** The URL of a new database, removed with its cluster when the scope closes. */
const database = Effect.gen(function* () {
  const directory = yield* Effect.acquireRelease(
    Effect.promise(() => mkdtemp(Path.join(Os.tmpdir(), "developer-api-bench-"))),
    (directory) =>
      Effect.gen(function* () {
        // The layer leaves the server to others who are connected; here nobody may outlive the bench.
        const lock = yield* Effect.promise(() =>
          readFile(Path.join(directory, "postgres", "postmaster.pid"), "utf8").catch(() => undefined)
        )
        if (lock !== undefined) yield* Postmaster.stop(Number.parseInt(lock, 10))
        yield* Effect.promise(() => rm(directory, { recursive: true, force: true }))
      })
  )
  const context = yield* Layer.build(EmbeddedPostgres.layer({ directory, flags }))
  return (yield* Effect.provideContext(EmbeddedPostgres, context)).url
})

/** Of the project file and of the contenders. */
const secretKey = randomBytes(32).toString("base64")

/** Migrates, applies the project file, issues a token for everything, and writes notes with it. */
const prepare = Effect.gen(function* () {
  yield* migrate
  yield* (yield* Projects).apply(JSON.stringify(projectFile()))
  const { token } = yield* (yield* ApiKeys).issue({
    projectId,
    name: "bench",
    scopes,
    expiresIn: Duration.days(1),
    memberId: Option.none()
  })
  const sql = yield* PgClient.PgClient
  yield* makeNotes(sql, resting.batch, resting.connections)
  // Plans are made once per connection, and for the tables as they are then known.
  yield* sql`VACUUM ANALYZE`
  return Redacted.value(token)
}).pipe(Effect.provide([Layer.provide(Projects.layer, secretBox(secretKey)), ApiKeys.layer]))

/** Starts a program and waits for its ready line. */
const start = Effect.fnUntraced(function* ({ directory, name, ...program }: Program, env: Record<string, string>) {
  const child = yield* ChildProcess.make(process.execPath, program.arguments, {
    cwd: directory,
    env: { PATH: process.env["PATH"], NODE_ENV: "production", ...env },
    stdin: "ignore",
    stderr: "inherit",
    forceKillAfter: "30 seconds"
  })
  const lines = child.stdout.pipe(Stream.decodeText(), Stream.splitLines)
  const ready = lines.pipe(
    Stream.map((line) => /^listening on (http:\S+)$/.exec(line)?.[1]),
    Stream.filter((url) => url !== undefined),
    Stream.runHead,
    Effect.timeoutOption("60 seconds")
  )
  const url = Option.getOrUndefined(Option.flatten(yield* ready))
  if (url === undefined) return yield* new BenchFailed({ message: `${name} did not start in ${directory}` })
  return { name, url, pid: Number(child.pid) }
})

/** Everything that a comparison needs: the servers, a token that all of them take, and a session to look around. */
export const make = Effect.fnUntraced(function* (programs: ReadonlyArray<Program>) {
  const url = yield* database
  const context = yield* Layer.build(PgClient.layer({ url, maxConnections: 1, applicationName: "bench" }))
  const sql = yield* Effect.provideContext(PgClient.PgClient, context)
  const token = yield* Effect.provideContext(prepare, context)
  const env = {
    DATABASE_URL: Redacted.value(url),
    SECRET_KEY: secretKey,
    HOST: "127.0.0.1",
    PORT: "0"
  }
  const contenders: Array<Contender> = []
  for (const program of programs) contenders.push(yield* start(program, env))
  return { contenders, sql, token }
})

/** Runs a script of this folder to its end and gives what it printed. */
export const runScript = Effect.fnUntraced(function* (script: string, argument: string) {
  const spawner = yield* ChildProcessSpawner.ChildProcessSpawner
  const path = fileURLToPath(new URL(script, import.meta.url))
  return yield* spawner.string(ChildProcess.make(process.execPath, [path, argument], { stderr: "inherit" }))
})
