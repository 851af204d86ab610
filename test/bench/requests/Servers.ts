/** The compared servers, on one prepared database. */
import { Effect } from "effect"
import { ChildProcess, ChildProcessSpawner } from "effect/process"
import { fileURLToPath } from "node:url"
import { keepOff, onOneCore } from "../Cores.ts"
import { connect, database, openProject, type Program, type Running, script, start } from "../Stage.ts"
import { projectFile } from "./Seed.ts"

export const fastify = script("fastify", "requests/fastify.ts")

/** PostgreSQL's defaults, with every commit flushed; only the visible length of a running statement is larger. */
const flags = { track_activity_query_size: "16384" }

/** Starts the servers; returns them with a token that all of them accept and a session for inspection. */
export const make = Effect.fnUntraced(function* (
  programs: ReadonlyArray<Program>,
  env: Readonly<Record<string, string>> = {}
) {
  keepOff()
  const url = yield* database(flags)
  const sql = yield* connect(url)
  const token = yield* openProject(sql, projectFile())
  // Plans are made once per connection, with the statistics of that time.
  yield* sql`VACUUM ANALYZE`
  const contenders: Array<Running> = []
  for (const program of programs) contenders.push(yield* start(onOneCore(program), url, env))
  return { contenders, sql, token }
})

/** Runs a round of load in its own process; returns its output. */
export const load = Effect.fnUntraced(function* (plan: string) {
  const spawner = yield* ChildProcessSpawner.ChildProcessSpawner
  const path = fileURLToPath(new URL("load.ts", import.meta.url))
  return yield* spawner.string(ChildProcess.make(process.execPath, [path, plan], { stderr: "inherit" }))
})
