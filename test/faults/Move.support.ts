/** Cells, and the mover. */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { setTimeout as sleep } from "node:timers/promises"
import { seeds } from "../../src/cells/Sides.ts"
import { run } from "../cli/Cli.support.ts"
import { freePort, launchService, type Running, spawn } from "../support/Process.ts"
import { startCluster } from "./Cluster.support.ts"
import { serviceEnv, session, startHere } from "./Projects.support.ts"
import { isReady } from "./Requests.support.ts"
import { lastingSession } from "./Shop.support.ts"

const settings = {
  WEBHOOK_ALLOWED_NETWORKS: "127.0.0.0/8",
  WEBHOOK_RETRY_SCHEDULE: "50ms,100ms,200ms"
}
/** While a project rests, its move waits for the leases of dead processes, so these are short. */
const shortLeases = { WEBHOOK_TIMEOUT: "2s", PROVIDER_TIMEOUT: "2s" }

/** Each move has up to three workers at its target. Without a free one, each table of a copy may wait for 5 s. */
const forTwoMoves = { max_logical_replication_workers: "6", max_worker_processes: "16" }

/** Starts a PostgreSQL with a database for the service. */
const startDatabase = async (name: string) => {
  const cluster = await startCluster(forTwoMoves)
  const databaseUrl = cluster.url
  const query = await lastingSession(databaseUrl)
  return {
    env: { ...serviceEnv(databaseUrl), ...settings, CELL: name },
    databaseUrl,
    query,
    /** Kills all processes of PostgreSQL, and starts it again. */
    killDatabase: async () => {
      await cluster.kill()
      await cluster.start()
    },
    /** Keeps mutations of a project in flight, so that its fence waits. Returns what ends that. */
    holdMutations: async (id: string) => {
      const held = await session(databaseUrl)
      await held(`SELECT pg_advisory_lock_shared(hashtextextended('${id}', ${seeds.project}))`)
      return () => held(`SELECT pg_advisory_unlock_shared(hashtextextended('${id}', ${seeds.project}))`)
    },
    /** What a move may leave of a project: rows by table, publications, subscriptions and slots of any move. */
    traces: async (id: string) => {
      const tables = await query(`
        SELECT relname AS name FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
        WHERE attname = 'project_id' AND relkind = 'r' AND relnamespace = 'public'::regnamespace`)
      const rows = await query(
        tables
          .map(
            ({ name }) =>
              `SELECT '${String(name)}' AS name, count(*)::int AS rows FROM ${String(name)} WHERE project_id = '${id}'`
          )
          .join(" UNION ALL ")
      )
      return {
        rows: rows.filter(({ rows }) => rows !== 0),
        made: await query(`
          SELECT name FROM (
            SELECT pubname::text AS name FROM pg_publication UNION ALL SELECT subname::text FROM pg_subscription
            UNION ALL SELECT slot_name::text FROM pg_replication_slots
          ) made WHERE name LIKE 'move\\_%'`)
      }
    }
  }
}

/** Starts a cell whose service and workers no test kills. */
export const startCell = async (name: string) => {
  const database = await startDatabase(name)
  const { url } = await startHere(database.databaseUrl, database.env, "all")
  return { ...database, url }
}
export type Cell = Awaited<ReturnType<typeof startCell>>

const roles = ["api", "worker"] as const
type Role = (typeof roles)[number]

/** Starts a cell with a process for its API and one for its workers. */
export const startProcesses = async (name: string) => {
  const database = await startDatabase(name)
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const launch = (role: Role) =>
    launchService({
      args: ["--role", role],
      env: { ...database.env, ...shortLeases, ...(role === "api" ? { PORT: String(port) } : {}) }
    })
  const processes: Record<Role, Running> = { api: launch("api"), worker: launch("worker") }
  await isReady({ url })
  return {
    ...database,
    url,
    /** Kills a process, and starts another one in its place. */
    kill: async (role: Role) => {
      processes[role].kill("SIGKILL")
      await processes[role].exited
      processes[role] = launch(role)
    }
  }
}

const argumentsOf = (source: Cell, target: Cell, id: string, flags: ReadonlyArray<string>) => ({
  args: ["project", "move", "--project", id, "--to", target.databaseUrl, "--json", ...flags],
  env: serviceEnv(source.databaseUrl)
})

const stateOf = (status: number | null, stdout: string) => {
  const document: unknown = status === 0 ? JSON.parse(stdout) : undefined
  return typeof document === "object" && document !== null && "state" in document ? document.state : undefined
}

/** Runs the mover to its end, in this process. */
export const move = async (source: Cell, target: Cell, id: string, ...flags: ReadonlyArray<string>) => {
  const { args, env } = argumentsOf(source, target, id, flags)
  const { status, stderr, stdout } = await Effect.runPromise(run(args, { env }))
  return { status, stderr, state: stateOf(status, stdout) }
}

/** Starts the mover as a process, which reports its steps. */
const startMover = (source: Cell, target: Cell, id: string) => {
  const { args, env } = argumentsOf(source, target, id, [])
  const mover = spawn(process.execPath, ["src/cli.ts", ...args], env)
  let from = 0
  return {
    ...mover,
    /** Waits for a step, after the one that was waited for before. */
    reaches: async (step: string) => {
      const at = () => mover.stderr().indexOf(`${step}: `, from)
      while (at() < 0 && !mover.hasExited()) await sleep(2)
      assert.isAtLeast(at(), 0, `${step}: ${mover.stderr()}`)
      from = at() + step.length
    }
  }
}

/** Starts the mover, and kills it once it reports a step. */
export const killAt = async (source: Cell, target: Cell, id: string, step: string) => {
  const mover = startMover(source, target, id)
  await mover.reaches(step)
  mover.kill("SIGKILL")
  await mover.exited
}

/** Runs the mover, and does something at each of these steps, in their order. Returns the state of the move. */
export const moveWith = async (
  source: Cell,
  target: Cell,
  id: string,
  steps: ReadonlyArray<readonly [step: string, does: () => Promise<unknown>]>
) => {
  const mover = startMover(source, target, id)
  for (const [step, does] of steps) {
    await mover.reaches(step)
    await does()
  }
  const { code } = await mover.exited
  return { status: code, stderr: mover.stderr(), state: stateOf(code, mover.stdout()) }
}

/** Returns the lines of the router's map for a cell. */
export const mapOf = async ({ env }: Pick<Cell, "env">) => {
  const { status, stderr, stdout } = await Effect.runPromise(run(["cells", "map"], { env }))
  assert.strictEqual(status, 0, stderr)
  return stdout
}
