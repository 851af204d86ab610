/** Callers of a project that moves, and the ledger of what was acknowledged to them. */
import { assert } from "@effect/vitest"
import { setTimeout as sleep } from "node:timers/promises"
import { conversations, messagesPath } from "../contract/Messages.support.ts"
import { bodyOf } from "../integrations/deliveries/Deliveries.support.ts"
import { eventually } from "../support/Waiting.ts"
import type { Cell, Moving } from "./Move.support.ts"
import { type Answer, bearer, send } from "./Requests.support.ts"

type Service = Pick<Cell, "url">

/** Whether a send ended without its outcome. Without the message's id it did not begin, as while the project is fenced. */
const isUnclear = ({ body }: Answer) =>
  typeof body === "object" && body !== null && "messageId" in body && body.messageId !== null

/** Sends a request to one cell after the other until one of them serves the project. Without an answer it is sent again. */
export const callerOf = (cells: ReadonlyArray<Service>, token: string) => {
  let at = 0
  let refusedFrom: number | undefined
  let longest = 0
  const call = async (method: string, path: string, key: string, json?: unknown): Promise<Answer> => {
    for (;;) {
      const began = performance.now()
      const answer = await send(`${cells[at % cells.length]?.url ?? ""}/api/v1/developer${path}`, {
        method,
        headers: { ...bearer(token), "idempotency-key": `command-${key}` },
        ...(json === undefined ? {} : { json })
      }).catch(() => undefined)
      // Before the copy has its key, the target does not know the token.
      if (answer !== undefined && answer.status !== 401 && (answer.status !== 503 || isUnclear(answer))) {
        if (refusedFrom !== undefined) longest = Math.max(longest, performance.now() - refusedFrom)
        refusedFrom = undefined
        return answer
      }
      refusedFrom ??= began
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
export const load = async (cells: ReadonlyArray<Service>, { token }: Moving) => {
  const deals = new Map<string, string>()
  const messages = { sent: new Array<string>(), unclear: new Array<string>() }
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
    for (let n = 0; open; n++, await sleep(25)) {
      const key = `${name}-${n}`
      const answer = await caller.call("POST", "/crm/deals", key, { title: key })
      assert.strictEqual(answer.status, 201, answer.text)
      deals.set(key, idOf(answer))
    }
  }
  const patches = async () => {
    for (; open; await sleep(25)) {
      const answer = await callers[2].call("PATCH", `/crm/deals/${patched}`, `patch-${version}`, {
        title: String(version)
      })
      assert.deepStrictEqual([answer.status, answer.headers["etag"]], [200, `"${version + 1}"`], answer.text)
      version++
    }
  }
  const sends = async () => {
    for (let n = 0; open; n++, await sleep(50)) {
      const text = `message ${n}.`
      const answer = await callers[3].call("POST", messagesPath(conversations.telegram).slice(17), `send-${n}`, {
        text
      })
      if (answer.status !== 503) assert.strictEqual(answer.status, 200, answer.text)
      messages[answer.status === 200 ? "sent" : "unclear"].push(text)
    }
  }
  const all = Promise.all([creates(callers[0], "a"), creates(callers[1], "b"), patches(), sends()])
  return {
    deals,
    messages,
    patched,
    version: () => version,
    longest: () => Math.max(...callers.map(({ longest }) => longest())),
    /** Waits until commands go on. */
    goesOn: () => {
      const before = deals.size
      return eventually(() => assert.isAbove(deals.size, before + 20))
    },
    stop: async () => {
      open = false
      await all
    }
  }
}
export type Load = Awaited<ReturnType<typeof load>>

/** Returns the number of recipients of the campaign by status. */
export const recipientsOf = async ({ query }: Pick<Cell, "query">, { id }: Moving) => {
  const rows = await query(`
    SELECT status, count(*)::int AS count FROM campaign_recipients WHERE project_id = '${id}' GROUP BY status`)
  return Object.fromEntries(rows.map(({ count, status }) => [String(status), Number(count)]))
}

/** Waits until a campaign goes on that is under way: it has sent messages, and has some to send. */
export const campaignGoesOn = async (cell: Pick<Cell, "query">, moving: Moving) => {
  const before = await recipientsOf(cell, moving)
  assert.isAbove(before["pending"] ?? 0, 0)
  await eventually(async () => assert.isAbove((await recipientsOf(cell, moving))["sent"] ?? 0, before["sent"] ?? 0))
}

/** Texts that a provider took. */
const textsOf = ({ provider }: Moving, pattern: RegExp) =>
  provider.hits.flatMap(({ body }) => pattern.exec(body)?.[0] ?? []).toSorted()

/**
 * Asserts that the cell has every acknowledged command once, and that each event, message and recipient was sent to exactly
 * once. With `deaths`, a call whose process died has no outcome: its event is sent again, its message is not.
 */
export const expectLedger = async (cell: Pick<Cell, "query">, moving: Moving, ledger: Load, deaths = false) => {
  const { audience, id, shop } = moving
  const { query } = cell
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
  const delivered = shop.hits.map((hit) => String(bodyOf(hit)["id"])).toSorted()
  assert.deepStrictEqual(
    deaths ? [...new Set(delivered)] : delivered,
    events.map((row) => String(row["id"])).toSorted()
  )

  const { sent, unclear } = ledger.messages
  const texts = textsOf(moving, /message \d+\./)
  assert.deepStrictEqual(
    texts.filter((text) => !unclear.includes(text)),
    sent.toSorted()
  )

  // The rest of the campaign at once.
  await query(`UPDATE campaigns SET sends_per_minute = 60000, next_send_at = NULL WHERE project_id = '${id}'`)
  await eventually(async () => {
    const open = await query(`SELECT id FROM campaigns WHERE project_id = '${id}' AND status <> 'completed'`)
    assert.deepStrictEqual(open, [])
  })
  const { sent: reached = 0, unknown = 0, ...others } = await recipientsOf(cell, moving)
  assert.deepStrictEqual([reached + unknown, others], [audience.length, {}])
  const news = textsOf(moving, /news for Recipient-\d+/)
  assert.deepStrictEqual(news, [...new Set(news)])
  assert.isAtLeast(news.length, reached)
  assert.deepStrictEqual(texts, [...new Set(texts)])
  if (!deaths) assert.deepStrictEqual([unclear, unknown], [[], 0])
}
