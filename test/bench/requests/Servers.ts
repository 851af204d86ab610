/** The compared servers, on one prepared database. */
import { Effect } from "effect"
import { ChildProcess, ChildProcessSpawner } from "effect/process"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { keepOff, onOneCore } from "../Cores.ts"
import { connect, database, openProject, type Program, type Running, start } from "../Stage.ts"
import type { Round, RoundPlan } from "./load.ts"
import { clients, projectFile, projectId } from "./Seed.ts"

const counter = new URL("../Promoted.ts", import.meta.url).href

/** PostgreSQL's defaults, with every commit flushed; only the visible length of a running statement is larger. */
const flags = { track_activity_query_size: "16384" }

/** A server. It may count what it promotes in a file (`Promoted.ts`). */
export interface Server extends Running {
  readonly promoted?: string
}

/** Starts the servers; returns them with a token that all of them accept and a session for inspection. */
export const make = Effect.fnUntraced(function* (programs: ReadonlyArray<Program>, counts = true) {
  keepOff()
  const directory = yield* Effect.acquireRelease(
    Effect.promise(() => mkdtemp(join(tmpdir(), "developer-api-bench-"))),
    (directory) => Effect.promise(() => rm(directory, { recursive: true }))
  )
  const url = yield* database(flags)
  const sql = yield* connect(url)
  const token = yield* openProject(sql, projectFile(projectId, { clients: clients() }))
  // Plans are made once per connection, with the statistics of that time.
  yield* sql`VACUUM ANALYZE`
  const servers: Array<Server> = []
  for (const program of programs) {
    if (!counts) {
      servers.push(yield* start(onOneCore(program), url))
      continue
    }
    const promoted = join(directory, `${program.name}.json`)
    const counted = { ...program, arguments: ["--import", counter, ...program.arguments] }
    servers.push({ ...(yield* start(onOneCore(counted), url, { PROMOTED: promoted })), promoted })
  }
  return { servers, sql, token }
})

const parse = (json: string): Round => JSON.parse(json)

/** Runs a round of load in its own process. */
export const load = Effect.fnUntraced(function* (plan: RoundPlan) {
  const spawner = yield* ChildProcessSpawner.ChildProcessSpawner
  const args = [join(import.meta.dirname, "load.ts"), JSON.stringify(plan)]
  return parse(yield* spawner.string(ChildProcess.make(process.execPath, args, { stderr: "inherit" })))
})
