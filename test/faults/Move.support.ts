/** Two cells, a project in the first one, callers that go on in the second, and the mover. */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { setTimeout as sleep } from "node:timers/promises"
import { nameOf } from "../../src/cells/Sides.ts"
import { run } from "../cli/Cli.support.ts"
import { conversations, messagesPath, taken, telegramChannel } from "../contract/Messages.support.ts"
import { pipelines } from "../contract/Deals.support.ts"
import { bodyOf, ok, receiver } from "../integrations/deliveries/Deliveries.support.ts"
import { opened } from "../support/Finalizers.ts"
import { spawn } from "../support/Process.ts"
import { eventually } from "../support/Waiting.ts"
import { startCluster } from "./Cluster.support.ts"
import { project, serviceEnv, session, startHere, unlimited } from "./Projects.support.ts"
import { type Answer, bearer, send } from "./Requests.support.ts"

const fast = {
  WEBHOOK_ALLOWED_NETWORKS: "127.0.0.0/8",
  WEBHOOK_RETRY_SCHEDULE: "50ms,100ms,200ms"
}

/** Starts a PostgreSQL with a service and its workers on it. */
export const startCell = async (name: string) => {
  const { url: databaseUrl } = await startCluster()
  const { url } = await startHere(databaseUrl, { ...fast, CELL: name }, "all")
  const query = await session(databaseUrl)
  return {
    url,
    databaseUrl,
    query,
    /** What a move may leave of a project: rows by table, publications, subscriptions and slots. */
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
          ) made WHERE name = '${nameOf(id)}'`)
      }
    }
  }
}
export type Cell = Awaited<ReturnType<typeof startCell>>

/** Opens a project with clients, a webhook for deals and a conversation over telegram, where nothing may be sent twice. */
export const openProject = async (cell: Cell, id: string, size: number) => {
  const [provider, shop] = [await opened(receiver(taken)), await opened(receiver(ok))]
  const token = await project(cell.databaseUrl, {
    project: { id, name: id, rateLimits: unlimited, defaultPipelineId: "sales", contactCapacity: 1_000_000 },
    pipelines,
    installations: [{ id: "shop", name: "Shop" }],
    channels: [telegramChannel("telegram", `http://127.0.0.1:${provider.port}`)],
    conversations: [{ id: conversations.telegram, channelId: "telegram", address: "4711" }]
  })
  await cell.query(`
    INSERT INTO clients (project_id, id, display_name, tags, status, version, created_at, updated_at)
    SELECT '${id}', 'c' || n, 'Client é ' || n, '{}', 'active', 1, now(), now() FROM generate_series(1, ${size}) n`)
  const configured = await send(`${cell.url}/api/v1/developer/integrations/shop/outbound-webhook`, {
    method: "PUT",
    headers: { ...bearer(token), "idempotency-key": "command-webhook" },
    json: { endpointUrl: shop.url, eventTypes: ["crm.deal.created.v1", "crm.deal.updated.v1"], expectedVersion: null }
  })
  assert.strictEqual(configured.status, 200)
  return { id, token, provider, shop }
}
export type Moving = Awaited<ReturnType<typeof openProject>>

/** Sends a request to one cell after the other until one of them serves the project. Without an answer it is sent again. */
export const callerOf = (cells: ReadonlyArray<{ readonly url: string }>, token: string) => {
  let at = 0
  let refusedFrom: number | undefined
  let longest = 0
  const call = async (method: string, path: string, key: string, json?: unknown): Promise<Answer> => {
    for (;;) {
      const answer = await send(`${cells[at % cells.length]?.url ?? ""}/api/v1/developer${path}`, {
        method,
        headers: { ...bearer(token), "idempotency-key": `command-${key}` },
        ...(json === undefined ? {} : { json })
      })
      // Before the copy has its key, the target does not know the token.
      if (answer.status !== 503 && answer.status !== 401) {
        if (refusedFrom !== undefined) longest = Math.max(longest, performance.now() - refusedFrom)
        refusedFrom = undefined
        return answer
      }
      refusedFrom ??= performance.now() - answer.millis
      at++
      await sleep(20)
    }
  }
  return { call, longest: () => longest }
}

const idOf = ({ body, text }: Answer): string => {
  if (typeof body === "object" && body !== null && "resourceId" in body) return String(body.resourceId)
  return assert.fail(text)
}

/** Callers that create deals, patch one deal, and send messages; with a ledger of what was acknowledged. */
export const load = async (cells: ReadonlyArray<{ readonly url: string }>, { token }: Moving) => {
  const deals = new Map<string, string>()
  const messages: Array<string> = []
  let version = 1
  let open = true
  const callers = [
    callerOf(cells, token),
    callerOf(cells, token),
    callerOf(cells, token),
    callerOf(cells, token)
  ] as const
  const patched = idOf(await callers[0].call("POST", "/crm/deals", "patched", { title: "0" }))
  deals.set("patched", patched)

  const creates = async (caller: (typeof callers)[0], name: string) => {
    for (let n = 0; open; n++, await sleep(10)) {
      const key = `${name}-${n}`
      const answer = await caller.call("POST", "/crm/deals", key, { title: key })
      assert.strictEqual(answer.status, 201, answer.text)
      deals.set(key, idOf(answer))
    }
  }
  const patches = async () => {
    for (; open; await sleep(10)) {
      const answer = await callers[2].call("PATCH", `/crm/deals/${patched}`, `patch-${version}`, {
        title: String(version)
      })
      assert.deepStrictEqual([answer.status, answer.headers["etag"]], [200, `"${version + 1}"`], answer.text)
      version++
    }
  }
  const sends = async () => {
    for (let n = 0; open; n++, await sleep(50)) {
      const answer = await callers[3].call("POST", messagesPath(conversations.telegram).slice(17), `send-${n}`, {
        text: `message ${n}.`
      })
      assert.strictEqual(answer.status, 200, answer.text)
      messages.push(`message ${n}.`)
    }
  }
  const all = Promise.all([creates(callers[0], "a"), creates(callers[1], "b"), patches(), sends()])
  return {
    deals,
    messages,
    patched,
    version: () => version,
    longest: () => Math.max(...callers.map(({ longest }) => longest())),
    stop: async () => {
      open = false
      await all
    }
  }
}
export type Load = Awaited<ReturnType<typeof load>>

/** Asserts that the cell has every acknowledged command once, and that each event and message was sent exactly once. */
export const expectLedger = async ({ query }: Cell, { id, provider, shop }: Moving, ledger: Load) => {
  const stored = await query(`SELECT id, title FROM deals WHERE project_id = '${id}' AND id <> '${ledger.patched}'`)
  assert.deepStrictEqual(
    stored.map((row) => `${String(row["title"])} ${String(row["id"])}`).toSorted(),
    [...ledger.deals]
      .filter(([key]) => key !== "patched")
      .map(([key, deal]) => `${key} ${deal}`)
      .toSorted()
  )
  const [deal] = await query(`SELECT version, title FROM deals WHERE project_id = '${id}' AND id = '${ledger.patched}'`)
  assert.deepStrictEqual([deal?.["version"], deal?.["title"]], [ledger.version(), String(ledger.version() - 1)])

  await eventually(async () => {
    const open = await query(`SELECT id FROM deliveries WHERE project_id = '${id}' AND status <> 'delivered'`)
    assert.deepStrictEqual(open, [])
  })
  const events = await query(`SELECT id FROM events WHERE project_id = '${id}'`)
  assert.strictEqual(events.length, ledger.deals.size + ledger.version() - 1)
  assert.deepStrictEqual(
    shop.hits.map((hit) => String(bodyOf(hit)["id"])).toSorted(),
    events.map((row) => String(row["id"])).toSorted()
  )
  const texts = provider.hits.map(({ body }) => /message \d+\./.exec(body)?.[0] ?? body)
  assert.deepStrictEqual(texts.toSorted(), ledger.messages.toSorted())
}

const argumentsOf = (source: Cell, target: Cell, id: string, flags: ReadonlyArray<string>) => ({
  args: ["project", "move", "--project", id, "--to", target.databaseUrl, "--json", ...flags],
  env: serviceEnv(source.databaseUrl)
})

/** Runs the mover to its end, in this process. */
export const move = async (source: Cell, target: Cell, id: string, ...flags: ReadonlyArray<string>) => {
  const { args, env } = argumentsOf(source, target, id, flags)
  const { status, stderr, stdout } = await Effect.runPromise(run(args, { env }))
  const document: unknown = status === 0 ? JSON.parse(stdout) : undefined
  const state = typeof document === "object" && document !== null && "state" in document ? document.state : undefined
  return { status, stderr, state }
}

/** Starts the mover as a process, and kills it once it reports a step. Returns whether it came that far. */
export const killAt = async (source: Cell, target: Cell, id: string, step: string) => {
  const { args, env } = argumentsOf(source, target, id, [])
  const mover = spawn(process.execPath, ["src/cli.ts", ...args], env)
  while (!mover.stderr().includes(`${step}:`) && !mover.hasExited()) await sleep(2)
  mover.kill("SIGKILL")
  await mover.exited
  assert.include(mover.stderr(), `${step}:`)
}
