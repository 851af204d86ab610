/** A durable PostgreSQL, projects in it, and the measured programs. All of them end with the scope. */
import { PgClient } from "@effect/sql-pg"
import { Context, Data, Effect, Layer, Option, Redacted, Stream } from "effect"
import { ChildProcess } from "effect/process"
import { SqlClient } from "effect/sql"
import { randomBytes } from "node:crypto"
import * as Path from "node:path"
import { fileURLToPath } from "node:url"
import { migrate } from "../../src/sql/migrations/Migrations.ts"
import type { ProjectFile } from "../../src/project/ProjectFile.ts"
import { startPostgres } from "../support/Postgres.ts"
import { nodeFlags } from "../support/Process.ts"
import { openProject as openProjectOf } from "../support/Projects.ts"

/** Reason why there is nothing to report. */
export class BenchFailed extends Data.TaggedError("BenchFailed")<{ readonly message: string }> {}

/** A program, before it runs. */
export interface Program {
  readonly name: string
  readonly directory: string
  /** The program that runs it; the default is Node. */
  readonly command?: readonly [string, ...ReadonlyArray<string>]
  /** Arguments of Node. */
  readonly arguments: ReadonlyArray<string>
}

/** A started program. */
export interface Running {
  readonly name: string
  /** The URL of its HTTP server; empty if it has none. */
  readonly url: string
  readonly pid: number
}

const here = fileURLToPath(new URL("../..", import.meta.url))

/** Returns the service of a checkout, by default this one. */
export const service = (name: string, directory = here, ...flags: ReadonlyArray<string>): Program => ({
  name,
  directory,
  arguments: [...nodeFlags, "src/main.ts", ...flags]
})

/** Returns a script of this folder as a program, with one argument. */
export const script = (name: string, path: string, argument = ""): Program => ({
  name,
  directory: here,
  arguments: [`test/bench/${path}`, argument]
})

/** Starts PostgreSQL, with additional settings if given, and returns the URL of a database. The cluster is removed with the scope. */
export const database = Effect.fnUntraced(function* (flags: Readonly<Record<string, string>>) {
  const { url } = yield* Effect.acquireRelease(
    Effect.promise(() => startPostgres(flags)),
    ({ stop }) => Effect.promise(stop)
  )
  return yield* anotherDatabase(Redacted.make(url), "developer_api")
})

/** Creates another, empty database on the same server and returns its URL. */
export const anotherDatabase = Effect.fnUntraced(function* (url: Redacted.Redacted, name: string) {
  const sql = yield* connect(url)
  yield* sql`CREATE DATABASE ${sql(name)}`
  const another = new URL(Redacted.value(url))
  another.pathname = `/${name}`
  return Redacted.make(another.href)
}, Effect.scoped)

/** Opens a session for the benchmark itself, to create and inspect records. */
export const connect = Effect.fnUntraced(function* (url: Redacted.Redacted) {
  const context = yield* Layer.build(PgClient.layer({ url, maxConnections: 1, applicationName: "bench" }))
  return yield* Effect.provideContext(PgClient.PgClient, context)
})

/** `SECRET_KEY` of all measured services. */
export const secretKey = randomBytes(32).toString("base64")

/** Migrates, applies a project file, and issues a token with all scopes in the project. */
export const openProject = (sql: PgClient.PgClient, file: (typeof ProjectFile)["Encoded"]) =>
  Effect.andThen(migrate, openProjectOf(file, secretKey)).pipe(
    Effect.provideContext(Context.make(PgClient.PgClient, sql).pipe(Context.add(SqlClient.SqlClient, sql)))
  )

/** Starts a program on a database, and waits until it reports that it is listening: on a URL, or for jobs. */
export const start = Effect.fnUntraced(function* (
  { arguments: last, command = [process.execPath], directory, name }: Program,
  databaseUrl: Redacted.Redacted,
  env: Readonly<Record<string, string>> = {}
) {
  const [executable, ...first] = command
  const child = yield* ChildProcess.make(executable, [...first, ...last], {
    cwd: directory,
    env: {
      PATH: process.env["PATH"],
      // As in `npm start`.
      NODE_COMPILE_CACHE: Path.join(directory, "node_modules/.cache/developer-api"),
      NODE_ENV: "production",
      HOST: "127.0.0.1",
      PORT: "0",
      DATABASE_URL: Redacted.value(databaseUrl),
      SECRET_KEY: secretKey,
      ...env
    },
    stdin: "ignore",
    stderr: "inherit",
    forceKillAfter: "30 seconds"
  })
  const ready = child.stdout.pipe(
    Stream.decodeText(),
    Stream.splitLines,
    Stream.map((line) => /^listening (?:on (http:\S+)|for jobs)$/.exec(line)),
    Stream.filter((match) => match !== null),
    Stream.runHead,
    Effect.timeoutOption("60 seconds")
  )
  const match = Option.getOrUndefined(Option.flatten(yield* ready))
  if (match === undefined) return yield* new BenchFailed({ message: `${name} did not start in ${directory}` })
  const running: Running = { name, url: match[1] ?? "", pid: Number(child.pid) }
  return running
})
