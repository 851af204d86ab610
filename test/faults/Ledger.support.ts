/** A ledger: compares the committed events and the answers to commands with what a receiver got. */
import { Schema } from "effect"
import { assert } from "@effect/vitest"
import { bodyOf, type Hit, slowly } from "../integrations/deliveries/Deliveries.support.ts"
import { untilNoneLeft } from "../support/UntilNoneLeft.ts"
import { type Api, makeCalls } from "./Mix.calls.support.ts"
import { runCallers } from "./Mix.callers.support.ts"
import { listen, type Listening, openShop, type Shop } from "./Shop.support.ts"
import { eventually } from "../support/Waiting.ts"

const created = "crm.deal.created.v1"
const updated = "crm.deal.updated.v1"
const moved = "crm.deal.stage_changed.v1"

/** Returns the name of an event; each event has exactly one. */
const nameOf = (type: string, dealId: string, version: number) => `${type} of ${dealId}, version ${version}`

/** Number of concurrent callers. */
const lanes = 3
/** Pause of a caller between two deals in milliseconds, so that the workers keep up. */
const pause = 200

/** The outcome of a command whose answer was lost is not known. */
const lost = new Error("The answer was lost")

/**
 * Creates deals, and moves every third, until it is stopped. If an answer is lost, the caller repeats the command under the
 * same key until there is an answer, or, while `retryLost` is off, gives up without knowing the outcome.
 */
const streamCommands = ({ token }: Shop, api: () => Api) => {
  const acknowledged: Array<string> = []
  let retry = true
  const leave = () => {
    if (!retry) throw lost
  }
  const calls = makeCalls({ api, leave }, token)
  const { failed, run } = runCallers()
  const deal = async (lane: number, n: number) => {
    const { resourceId } = await calls.command("createDeal", { json: { title: `Deal ${lane}-${n}` } }, { version: 1 })
    acknowledged.push(nameOf(created, resourceId, 1))
    if (n % 3 > 0) return
    const move = { params: { dealId: resourceId }, json: { stageId: "agreed" } }
    await calls.command("patchDeal", move, { version: 2 })
    acknowledged.push(nameOf(updated, resourceId, 2), nameOf(moved, resourceId, 2))
  }
  const stops = Array.from({ length: lanes }, (_, lane) =>
    run(
      (n) =>
        deal(lane, n).catch((failure: unknown) => {
          if (failure !== lost) throw failure
        }),
      pause
    )
  )
  return {
    /** The names of the events that answers have acknowledged. */
    acknowledged,
    /** Number of answers that were lost and then replayed. */
    replays: () => calls.counts.replayed,
    retryLost: (on: boolean) => {
      retry = on
    },
    stop: () => Promise.race([failed, Promise.all(stops.map((stop) => stop()))])
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
      status: Schema.NullOr(Schema.String),
      attempts: Schema.NullOr(Schema.Array(Schema.Unknown))
    })
  )
)

/** Returns every committed event, with its delivery if it has one. */
const entriesOf = async (shop: Shop) =>
  decodeEntries(
    await shop.query(`
      SELECT events.id, type, to_char(occurred_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS at,
        data::text AS data, deliveries.id AS delivery, status, attempt_log AS attempts
      FROM events LEFT JOIN deliveries ON deliveries.project_id = events.project_id AND event_id = events.id
      WHERE events.project_id = '${shop.id}'`)
  )
type Entry = ReturnType<typeof decodeEntries>[number]

const eventOf = ({ data, type }: Entry) => nameOf(type, data.deal.id, data.deal.version)

/** Returns the body with which an event has to arrive. */
const bodyFor = ({ at, data, id, type }: Entry, projectId: string) => ({
  id,
  type,
  timestamp: at,
  projectId,
  installationId: "shop",
  data
})

/** Asserts that each change happened once, completely, and as acknowledged. */
const expectAcknowledged = async (entries: ReadonlyArray<Entry>, acknowledged: ReadonlyArray<string>, shop: Shop) => {
  const names = entries.map(eventOf)
  const known = new Set(names)
  assert.lengthOf(names, known.size)
  assert.deepStrictEqual(
    acknowledged.filter((name) => !known.has(name)),
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

/** Asserts that each event of the ledger arrived unchanged and was answered, and that nothing else arrived. */
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
      bodies.map(() => bodyFor(entry, projectId))
    )
  }
  return arrived
}

/** The totals of a ledger. */
export interface Balance {
  readonly events: number
  /** Events of commands whose success no caller knows. */
  readonly unknown: number
  /** Commands that had succeeded before their caller repeated them. */
  readonly replays: number
  readonly arrived: number
  /** Arrivals beyond the first of each delivery. */
  readonly duplicates: number
}

/** Opens a shop with a stream of commands, and the ledger of it. `api` returns the service that currently runs. */
export const openLedger = async (databaseUrl: string, api: () => Api) => {
  const usual = slowly(10)
  const receiver: Listening = await listen(usual)
  const shop = await openShop(databaseUrl, api(), receiver.url, [created, updated, moved])
  const commands = streamCommands(shop, api)
  const allowed = new Map<string, number>()
  const allow = (id: string) => void allowed.set(id, (allowed.get(id) ?? 0) + 1)
  return {
    shop,
    receiver,
    /** Makes the receiver answer the held requests and all later ones. */
    answer: () => receiver.answerWith(usual),
    /** Sets whether callers repeat a command whose answer is lost. */
    retryLost: commands.retryLost,
    /** Permits each of these deliveries to arrive once more: its worker was killed before it was recorded. */
    allowDuplicates: (deliveries: ReadonlyArray<string>) => deliveries.forEach(allow),
    /** Permits each delivery that was sent and is not recorded to arrive once more, whether or not its claim was flushed. */
    allowUnrecorded: async () => {
      const arrived = new Set(receiver.hits.map(deliveryOf))
      for (const id of await shop.unfinished()) if (arrived.has(id)) allow(id)
    },
    /** Waits until more than ten new deliveries have arrived. */
    untilProgress: () => {
      const before = new Set(receiver.hits.map(deliveryOf)).size
      return eventually(() => assert.isAbove(new Set(receiver.hits.map(deliveryOf)).size, before + 10))
    },
    /** Stops the commands, waits until everything is delivered, and compares both sides. */
    balance: async (): Promise<Balance> => {
      await commands.stop()
      await untilNoneLeft(() => shop.inState("pending", "delivering"))
      assert.strictEqual(await shop.inFlight(), 0)
      const entries = await entriesOf(shop)
      await expectAcknowledged(entries, commands.acknowledged, shop)
      const arrived = expectAllArrived(entries, receiver.hits, shop.id)
      const tooMany = entries
        .map(({ attempts, delivery }) => ({
          attempts,
          arrivals: arrived.get(String(delivery))?.map(({ at }) => new Date(at).toISOString()) ?? [],
          allowed: allowed.get(String(delivery)) ?? 0
        }))
        .filter(({ allowed, arrivals }) => arrivals.length > 1 + allowed)
      assert.deepStrictEqual(tooMany, [])
      return {
        events: entries.length,
        unknown: entries.length - commands.acknowledged.length,
        replays: commands.replays(),
        arrived: receiver.hits.length,
        duplicates: receiver.hits.length - entries.length
      }
    }
  }
}
export type Ledger = Awaited<ReturnType<typeof openLedger>>
