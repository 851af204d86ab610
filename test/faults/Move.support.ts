/** Two cells, a project in the first one, and the mover. */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { setTimeout as sleep } from "node:timers/promises"
import { seeds } from "../../src/cells/Sides.ts"
import { run } from "../cli/Cli.support.ts"
import { conversations, taken, telegramChannel } from "../contract/Messages.support.ts"
import { pipelines } from "../contract/Deals.support.ts"
import { type Answering, ok, receiver } from "../integrations/deliveries/Deliveries.support.ts"
import { opened } from "../support/Finalizers.ts"
import { freePort, launchService, type Running, spawn } from "../support/Process.ts"
import { startCluster } from "./Cluster.support.ts"
import { project, serviceEnv, session, startHere, unlimited } from "./Projects.support.ts"
import { bearer, isReady, send } from "./Requests.support.ts"

const settings = {
  WEBHOOK_ALLOWED_NETWORKS: "127.0.0.0/8",
  WEBHOOK_RETRY_SCHEDULE: "50ms,100ms,200ms"
}
/** While a project rests, its move waits for the leases of dead processes, so these are short. */
const shortLeases = { WEBHOOK_TIMEOUT: "2s", PROVIDER_TIMEOUT: "2s" }

/** Starts a PostgreSQL with a database for the service. */
const startDatabase = async (name: string) => {
  const cluster = await startCluster()
  const databaseUrl = cluster.url
  let own = await session(databaseUrl)
  const query = (text: string) => own(text)
  return {
    env: { ...serviceEnv(databaseUrl), ...settings, CELL: name },
    databaseUrl,
    query,
    /** Kills all processes of PostgreSQL, and starts it again. */
    killDatabase: async () => {
      await cluster.kill()
      await cluster.start()
      own = await session(databaseUrl)
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
export type Role = (typeof roles)[number]

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

/** Recipients of the campaign, and its pace, with which it lasts longer than the moves of a test. */
const audience = Array.from({ length: 150 }, (_, n) => `Recipient-${n}`)
const sendsPerMinute = 120

/**
 * Opens a project with clients, a webhook for deals, a conversation and a running campaign over telegram, where nothing may be
 * sent twice.
 */
export const openProject = async (cell: Cell, id: string, size: number, answering: Answering = ok) => {
  const [provider, shop] = [await opened(receiver(taken)), await opened(receiver(answering))]
  const token = await project(cell.databaseUrl, {
    project: { id, name: id, rateLimits: unlimited, defaultPipelineId: "sales", contactCapacity: 1_000_000 },
    pipelines,
    installations: [{ id: "shop", name: "Shop" }],
    channels: [telegramChannel("telegram", `http://127.0.0.1:${provider.port}`)],
    conversations: [{ id: conversations.telegram, channelId: "telegram", address: "4711" }],
    clients: audience.map((name) => ({
      id: name,
      displayName: name,
      marketingConsent: true,
      addresses: [{ channelId: "telegram", address: name }]
    })),
    templates: [{ id: "news", version: 1, name: "News", body: "news for {{displayName}}" }],
    campaigns: [{ id: "news", name: "News" }]
  })
  await cell.query(`
    INSERT INTO clients (project_id, id, display_name, tags, status, version, created_at, updated_at)
    SELECT '${id}', 'c' || n, 'Client é ' || n, '{}', 'active', 1, now(), now() FROM generate_series(1, ${size}) n`)
  const command = async (method: string, path: string, key: string, json: object) => {
    const answer = await send(`${cell.url}/api/v1/developer${path}`, {
      method,
      headers: { ...bearer(token), "idempotency-key": `command-${key}` },
      json
    })
    assert.strictEqual(answer.status, 200, answer.text)
  }
  await command("PUT", "/integrations/shop/outbound-webhook", "webhook", {
    endpointUrl: shop.url,
    eventTypes: ["crm.deal.created.v1", "crm.deal.updated.v1"],
    expectedVersion: null
  })
  const campaign = (operation: string, members: object) =>
    command("PATCH", "/campaigns/news", operation, { operation, ...members })
  await campaign("set_primary_route", { templateId: "news", templateVersion: 1, channelId: "telegram" })
  const filter = { contactStatus: "active", providerTypes: ["telegram"], requiredTags: [], stageIds: [] }
  await campaign("freeze_audience", { filter })
  await campaign("schedule", { scheduledForLocal: null, sendsPerMinute })
  return { id, token, provider, shop, audience }
}
export type Moving = Awaited<ReturnType<typeof openProject>>

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
