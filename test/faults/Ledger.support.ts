/** A ledger: what was committed, as the database and the answers to commands tell it, against what a receiver got. */
import { Schema } from "effect"
import { setTimeout as sleep } from "node:timers/promises"
import { assert } from "@effect/vitest"
import { bodyOf, type Hit, slowly } from "../integrations/Deliveries.support.ts"
import { untilNoneLeft } from "../support/UntilNoneLeft.ts"
import { type Service } from "../support/Process.ts"
import type { Answer } from "./Requests.support.ts"
import { listen, type Listening, openShop, type Shop } from "./Shop.support.ts"
import { eventually } from "../support/Waiting.ts"

const created = "crm.deal.created.v1"
const updated = "crm.deal.updated.v1"
const moved = "crm.deal.stage_changed.v1"

/** An event, so that there is one name for each. */
const nameOf = (type: string, dealId: string, version: number) => `${type} of ${dealId}, version ${version}`

const decodeReceipt = Schema.decodeUnknownSync(Schema.Struct({ resourceId: Schema.String, changed: Schema.Boolean }))

/** The names of the events that an answer vouches for. */
const promises = ({ body, headers }: Answer, types: ReadonlyArray<string>) =>
  types.map((type) => nameOf(type, decodeReceipt(body).resourceId, Number(String(headers["etag"]).replaceAll('"', ""))))

/** Callers at once. */
const lanes = 3
/** What each of them does between two deals, so that the deliverers keep up. */
const pause = 200

/**
 * Creates deals, and moves every third, for as long as it is open. Callers whose answer is lost ask again under the same
 * key until there is one; while they are impatient, they never learn what became of their commands.
 */
const trade = (shop: Shop, api: () => Pick<Service, "url">) => {
  const promised: Array<string> = []
  const state = { open: true, patient: true, replays: 0 }
  let n = 0
  const command = async (method: string, path: string, key: string, json: unknown) => {
    const ask = async () => {
      const answer = await shop.call(api(), method, path, key, json)
      // The one refusal to expect while everything dies.
      assert.notStrictEqual(answer.status, 503)
      return answer
    }
    const answer = await eventually(() =>
      ask().catch((failure: unknown) => {
        if (state.patient) throw failure
      })
    )
    if (answer === undefined) return undefined
    assert.include([200, 201], answer.status)
    if (answer.headers["idempotent-replayed"] === "true") state.replays++
    return answer
  }
  const deal = async (of: number) => {
    const first = await command("POST", "crm/deals", `ledger-create-${of}`, { title: `Deal ${of}` })
    if (first === undefined) return
    promised.push(...promises(first, [created]))
    if (of % 3 > 0) return
    const path = `crm/deals/${decodeReceipt(first.body).resourceId}`
    const second = await command("PATCH", path, `ledger-move-${of}`, { stageId: "agreed" })
    if (second !== undefined) promised.push(...promises(second, [updated, moved]))
  }
  const lane = async () => {
    for (; state.open; await sleep(pause)) await deal(n++)
  }
  const over = Promise.allSettled(Array.from({ length: lanes }, lane))
  return {
    /** The names of the events that were promised to callers. */
    promised,
    /** Answers that were lost, and told again. */
    replays: () => state.replays,
    bePatient: (patient: boolean) => {
      state.patient = patient
    },
    stop: async () => {
      state.open = false
      assert.deepStrictEqual(
        (await over).filter(({ status }) => status === "rejected"),
        []
      )
    }
  }
}

const decodeEntries = Schema.decodeUnknownSync(
  Schema.Array(
    Schema.Struct({
      id: Schema.String,
      type: Schema.String,
      at: Schema.String,
      data: Schema.fromJsonString(
        Schema.StructWithRest(
          Schema.Struct({
            deal: Schema.StructWithRest(
              Schema.Struct({ id: Schema.String, title: Schema.String, version: Schema.Int }),
              [Schema.Record(Schema.String, Schema.Unknown)]
            )
          }),
          [Schema.Record(Schema.String, Schema.Unknown)]
        )
      ),
      delivery: Schema.NullOr(Schema.String),
      status: Schema.NullOr(Schema.String)
    })
  )
)

/** Every committed event, with its delivery, should it have one. */
const entriesOf = async (shop: Shop) =>
  decodeEntries(
    await shop.query(`
      SELECT events.id, type, to_char(occurred_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS at,
        data::text AS data, deliveries.id AS delivery, status
      FROM events LEFT JOIN deliveries ON deliveries.project_id = events.project_id AND event_id = events.id
      WHERE events.project_id = '${shop.id}'`)
  )
type Entry = ReturnType<typeof decodeEntries>[number]

const eventOf = ({ data, type }: Entry) => nameOf(type, data.deal.id, data.deal.version)

/** The body in which an event has to arrive. */
const toldAs = ({ at, data, id, type }: Entry, projectId: string) => ({
  id,
  type,
  timestamp: at,
  projectId,
  installationId: "shop",
  data
})

/** Each change has happened once, whole, and as it was promised. */
const expectPromisesKept = async (entries: ReadonlyArray<Entry>, promised: ReadonlyArray<string>, shop: Shop) => {
  const names = entries.map(eventOf)
  const known = new Set(names)
  assert.lengthOf(names, known.size)
  assert.deepStrictEqual(
    promised.filter((name) => !known.has(name)),
    []
  )
  const titles = entries.filter(({ type }) => type === created).map(({ data }) => data.deal.title)
  assert.lengthOf(titles, new Set(titles).size)
  assert.lengthOf(titles, await shop.deals())
  const of = (wanted: string) =>
    entries
      .filter(({ type }) => type === wanted)
      .map(({ data }) => data.deal.id)
      .sort()
  assert.deepStrictEqual(of(moved), of(updated))
}

export const deliveryOf = ({ headers }: Hit) => String(headers["webhook-id"])

/** Everything that is in the ledger has arrived as it is, was acknowledged, and nothing else has. */
const expectAllArrived = (entries: ReadonlyArray<Entry>, hits: ReadonlyArray<Hit>, projectId: string) => {
  const arrived = Map.groupBy(hits, deliveryOf)
  const answered = new Set(hits.filter(({ response }) => response.writableFinished).map(deliveryOf))
  assert.deepStrictEqual(
    entries.filter(({ status }) => status !== "delivered"),
    []
  )
  assert.deepStrictEqual(
    entries.filter(({ delivery }) => !answered.has(String(delivery))),
    []
  )
  assert.deepStrictEqual([...arrived.keys()].sort(), entries.map(({ delivery }) => delivery).sort())
  for (const entry of entries) {
    const bodies = (arrived.get(String(entry.delivery)) ?? []).map(bodyOf)
    assert.deepStrictEqual(
      bodies,
      bodies.map(() => toldAs(entry, projectId))
    )
  }
  return arrived
}

/** What a ledger came to. */
export interface Balance {
  readonly events: number
  /** Events of commands that no caller knows to have succeeded. */
  readonly unknown: number
  /** Commands that had succeeded before their caller asked again. */
  readonly replays: number
  readonly arrived: number
  /** Arrivals beyond the first of each delivery. */
  readonly duplicates: number
}

/** Opens a shop with a stream of commands, and the ledger of it. `api` is the one that serves at the moment. */
export const openLedger = async (databaseUrl: string, api: () => Pick<Service, "url">) => {
  const usual = slowly(10)
  const receiver: Listening = await listen(usual)
  const shop = await openShop(databaseUrl, api(), receiver.url, [created, updated, moved])
  const commands = trade(shop, api)
  const excuses = new Map<string, number>()
  return {
    shop,
    receiver,
    /** The receiver answers what it holds, and what comes. */
    answer: () => receiver.answerWith(usual),
    /** Whether callers ask again when an answer is lost. */
    bePatient: commands.bePatient,
    /** Each of these deliveries may arrive once more: it was under way when its worker was killed. */
    excuse: (deliveries: ReadonlyArray<string>) => {
      for (const id of deliveries) excuses.set(id, (excuses.get(id) ?? 0) + 1)
    },
    /** Waits for deliveries that have not come before. */
    goesOn: () => {
      const before = new Set(receiver.hits.map(deliveryOf)).size
      return eventually(() => assert.isAbove(new Set(receiver.hits.map(deliveryOf)).size, before + 10))
    },
    /** Takes no more commands, waits until everything is told, and holds the one side against the other. */
    balance: async (): Promise<Balance> => {
      await commands.stop()
      await untilNoneLeft(() => shop.inState("pending", "delivering"))
      assert.strictEqual(await shop.inFlight(), 0)
      const entries = await entriesOf(shop)
      await expectPromisesKept(entries, commands.promised, shop)
      const arrived = expectAllArrived(entries, receiver.hits, shop.id)
      const tooMany = [...arrived].filter(([id, hits]) => hits.length > 1 + (excuses.get(id) ?? 0))
      assert.deepStrictEqual(
        tooMany.map(([id, hits]) => ({ id, times: hits.length, excused: excuses.get(id) ?? 0 })),
        []
      )
      return {
        events: entries.length,
        unknown: entries.length - commands.promised.length,
        replays: commands.replays(),
        arrived: receiver.hits.length,
        duplicates: receiver.hits.length - entries.length
      }
    }
  }
}
export type Ledger = Awaited<ReturnType<typeof openLedger>>
