/** Compares the answers to callers with the database, and both with the deliveries and sends that were received. */
import { assert } from "@effect/vitest"
import { Schema } from "effect"
import { operations } from "../../src/api/campaigns/Commands.ts"
import { bodyOf, isSignedWith } from "../webhooks/delivery/Deliveries.support.ts"
import { eventually, untilNoneLeft } from "../support/Waiting.ts"
import { batchSize, type Scene } from "./Mix.callers.support.ts"
import { deliveryOf } from "./Mix.project.support.ts"
import { kinds } from "./Providers.support.ts"

/** Statements for the state of each record by its id, in the format of the ledger. */
const states = {
  clients: "SELECT id, format('%s, %s, version %s', display_name, status, version) AS state FROM clients",
  deals: "SELECT id, format('%s, %s, %s, version %s', title, stage_id, status, version) AS state FROM deals",
  notes: "SELECT id, format('%s, version %s', body, version) AS state FROM notes",
  tickets: "SELECT id, format('%s, %s, version %s', rating_score, rating_comment, version) AS state FROM tickets",
  webhooks: "SELECT installation_id AS id, format('%s, version %s', endpoint_url, version) AS state FROM webhooks",
  campaigns: "SELECT id, format('%s, %s, version %s', name, status, version) AS state FROM campaigns"
} as const
const tables = ["clients", "deals", "notes", "tickets", "webhooks", "campaigns"] as const satisfies ReadonlyArray<
  keyof typeof states
>

const decodeStates = Schema.decodeUnknownSync(Schema.Array(Schema.Struct({ id: Schema.String, state: Schema.String })))

const byName = (entries: Iterable<readonly [string, string]>) =>
  [...entries].map(([id, state]) => `${id}: ${state}`).sort()

const decodeEvents = Schema.decodeUnknownSync(
  Schema.Array(Schema.Struct({ id: Schema.String, type: Schema.String, record: Schema.String, version: Schema.String }))
)

const decodeDeliveries = Schema.decodeUnknownSync(
  Schema.Array(
    Schema.Struct({ id: Schema.String, event: Schema.String, installation: Schema.String, status: Schema.String })
  )
)

const decodeMessages = Schema.decodeUnknownSync(
  Schema.Array(Schema.Struct({ id: Schema.String, text: Schema.String, status: Schema.String }))
)

const count = async ({ project }: Scene, what: string) =>
  Number((await project.query(`SELECT count(*) FROM ${what}`))[0]?.["count"])

/** Waits until every mutation was answered and every operation on campaigns was sent, however slow the machine is. */
export const everyCommand = ({ calls, ledger, mutations }: Scene) =>
  eventually(() => {
    assert.includeMembers([...calls.counts.answered.keys()], [...mutations])
    assert.sameMembers([...ledger.campaignOperations], [...operations])
  })

/** Waits until nothing is in flight, and no dead delivery is left to retry. */
export const settled = async (scene: Scene) => {
  const { project } = scene
  const ofProject = `WHERE project_id = '${project.id}'`
  await untilNoneLeft(async () => {
    const open = await count(scene, `deliveries ${ofProject} AND status IN ('pending', 'delivering')`)
    return open + (await project.failures()).dead.length
  })
  // What is left of long campaigns follows at once.
  await project.query(
    `UPDATE campaigns SET sends_per_minute = 60000, next_send_at = NULL ${ofProject} AND status = 'running'`
  )
  await untilNoneLeft(() => count(scene, `messages ${ofProject} AND available_at IS NOT NULL`))
  await untilNoneLeft(() =>
    count(scene, `campaigns ${ofProject} AND scheduled_for < now() AND status IN ('scheduled', 'running')`)
  )
}

/** Asserts that every record has the state after its last command, and that no other records exist. */
const expectRecords = async ({ ledger, project }: Scene) => {
  const ofProject = `WHERE project_id = '${project.id}'`
  for (const table of tables) {
    const rows = decodeStates(await project.query(`${states[table]} ${ofProject}`))
    assert.deepStrictEqual(byName(rows.map(({ id, state }) => [id, state])), byName(ledger[table]), table)
  }
  const [counted] = await project.query(`
    SELECT active_clients AS counter, (SELECT count(*) FROM clients ${ofProject} AND status = 'active') AS active
    FROM projects ${ofProject}`)
  assert.strictEqual(String(counted?.["counter"]), String(counted?.["active"]))
  const titles = (await project.query(`SELECT title FROM tasks ${ofProject}`)).map(({ title }) => String(title))
  assert.lengthOf(titles, new Set(titles).size)
  assert.deepStrictEqual(
    ledger.tasks.created.filter((title) => !titles.includes(title)),
    []
  )
  const tried = new Set([...ledger.tasks.created, ...ledger.tasks.failed])
  assert.deepStrictEqual(
    titles.filter((title) => !tried.has(title)),
    []
  )
}

/** Asserts that each answered command, and each item of a batch, has one key, and that no other keys exist. */
const expectKeys = async (scene: Scene) => {
  const { calls, project } = scene
  const batches = ["batchClients", "batchDeals"].map((name) => calls.counts.answered.get(name) ?? 0)
  const items = batches.reduce((sum, count) => sum + count * batchSize, 0)
  assert.strictEqual(
    await count(scene, `idempotency_keys WHERE project_id = '${project.id}'`),
    calls.answered() + items
  )
}

/** Asserts that each change emitted its events once, and that each event goes to each installation once. */
const expectEvents = async ({ ledger, project }: Scene) => {
  const ofProject = `WHERE project_id = '${project.id}'`
  const events = decodeEvents(
    await project.query(`
      SELECT id, type, coalesce(data -> 'deal' ->> 'id', data -> 'task' ->> 'id') AS record,
        coalesce(data -> 'deal' ->> 'version', '1') AS version FROM events ${ofProject}`)
  )
  const names = events.map(({ record, type, version }) => `${type} of ${record}, version ${version}`)
  const tasks = (await project.query(`SELECT id FROM tasks ${ofProject}`)).map(
    ({ id }) => `crm.task.created.v1 of ${String(id)}, version 1`
  )
  assert.deepStrictEqual(names.sort(), [...ledger.events, ...tasks].sort())

  const deliveries = decodeDeliveries(
    await project.query(`
      SELECT id, event_id AS event, installation_id AS installation, status FROM deliveries ${ofProject}`)
  )
  assert.deepStrictEqual(
    deliveries.map(({ event, installation }) => `${event} to ${installation}`).sort(),
    events.flatMap(({ id }) => [`${id} to failing`, `${id} to steady`]).sort()
  )
  return { events: events.length, deliveries, typeOf: new Map(events.map(({ id, type }) => [id, type])) }
}

/** Asserts that each arrival has a valid signature, and that each delivery is delivered or dead, as its answers imply. */
const expectArrivals = (
  { ledger, project }: Scene,
  { deliveries, typeOf }: Awaited<ReturnType<typeof expectEvents>>
) => {
  const known = new Map(deliveries.map((delivery) => [delivery.id, delivery]))
  /** The secret of each installation that signed its last arrival: it is tried first, as there may be hundreds of secrets. */
  const last = new Map<string, string>()
  for (const hit of project.hits) {
    const delivery = known.get(deliveryOf(hit)) ?? assert.fail(`There is no delivery ${deliveryOf(hit)}`)
    const { id, installationId, type } = bodyOf(hit)
    assert.deepStrictEqual(
      [id, installationId, type],
      [delivery.event, delivery.installation, typeOf.get(delivery.event)]
    )
    const { installation } = delivery
    const secrets = [last.get(installation) ?? [], ...(ledger.secrets.get(installation) ?? [])].flat()
    const secret = secrets.find((secret) => isSignedWith(secret, hit))
    last.set(installation, secret ?? assert.fail(`No secret of ${installation} verifies ${delivery.id}`))
  }
  for (const { event, id, status } of deliveries) {
    const codes = project.answered.get(id) ?? []
    const poison = codes.length > 0 && project.isPoison(id)
    assert.strictEqual(status, poison ? "dead" : "delivered", `${id} of ${event}: ${codes.join()}`)
    if (!poison) assert.include(codes, 200, id)
  }
  return {
    dead: deliveries.filter(({ status }) => status === "dead").length,
    again: deliveries.filter(({ id }) => (project.answered.get(id) ?? []).filter((code) => code === 200).length > 1)
      .length
  }
}

/** Asserts that each message was sent once; without idempotency keys the outcome may be unknown, but not a second send. */
const expectMessages = async ({ ledger, calls, project }: Scene) => {
  const rows = decodeMessages(
    await project.query(
      `SELECT id, text, status FROM messages WHERE project_id = '${project.id}' AND campaign_id IS NULL`
    )
  )
  assert.deepStrictEqual(byName(rows.map(({ id, text }) => [text, id])), byName(ledger.messages))
  for (const { id, status, text } of rows) {
    const kind = kinds.find((name) => text.endsWith(name)) ?? assert.fail(text)
    const { calls: called, keys, taken } = project.provider.entry(text, kind)
    if (kind === "http") {
      assert.deepStrictEqual([status, keys, taken.length], ["sent", [id], 1], text)
    } else {
      assert.include(["sent", "unknown"], status, text)
      assert.isAtMost(called, 1, text)
      if (status === "sent") assert.lengthOf(taken, 1, text)
    }
    // A repeated request gets the same answer.
    const answer = await project.sendMessage(calls, kind, text)
    assert.deepStrictEqual([answer.messageId, answer.answer.status], [id, status === "sent" ? 200 : 503], text)
  }
  return rows.filter(({ status }) => status === "unknown").length
}

/**
 * Asserts that each started campaign sent once to each of its recipients, or that the outcome is unknown, and that its messages
 * and its progress say so. Returns how many calls were repeated with the same key, and of those that may not be repeated, how many
 * have an outcome and how many have none; some messages of unknown outcome had no call.
 */
const expectCampaigns = async ({ ledger, project }: Scene) => {
  const ofProject = `project_id = '${project.id}'`
  const messages = Map.groupBy(
    decodeMessages(
      await project.query(`SELECT id, text, status FROM messages WHERE ${ofProject} AND campaign_id IS NOT NULL`)
    ),
    ({ text }) => text
  )
  assert.deepStrictEqual(new Map([...messages].map(([text, { length }]) => [text, length])), ledger.campaignTexts)
  const sends = { repeated: 0, once: 0, unanswered: 0, unknown: 0 }
  for (const [text, all] of messages) {
    const kind = text.startsWith("http") ? "http" : "telegram"
    const { calls, keys, taken } = project.provider.entry(text, kind)
    const sent = all.filter(({ status }) => status === "sent")
    if (kind === "http") {
      assert.lengthOf(sent, all.length, text)
      assert.sameMembers(
        [...keys],
        all.map(({ id }) => id),
        text
      )
      assert.lengthOf(taken, all.length, text)
      sends.repeated += calls - all.length
    } else {
      assert.isAtMost(calls, all.length, text)
      assert.isAtLeast(taken.length, sent.length, text)
      for (const { status } of all) assert.include(["sent", "unknown"], status, text)
      sends.once += sent.length
      sends.unanswered += calls - sent.length
      sends.unknown += all.length - sent.length
    }
  }
  const differing = await project.query(`
    SELECT recipient.*, messages.status FROM campaign_recipients AS recipient
      JOIN messages ON messages.project_id = recipient.project_id AND messages.id = recipient.message_id
    WHERE recipient.${ofProject} AND recipient.status <> messages.status`)
  assert.deepStrictEqual(differing, [])
  const miscounted = await project.query(`
    SELECT * FROM audiences, LATERAL (
      SELECT count(*) FILTER (WHERE status = 'sent') AS sent, count(*) FILTER (WHERE status = 'failed') AS failed,
        count(*) FILTER (WHERE status = 'unknown') AS unknown, count(*) FILTER (WHERE status = 'skipped') AS skipped
      FROM campaign_recipients
      WHERE campaign_recipients.project_id = audiences.project_id AND campaign_recipients.audience_id = audiences.id
    ) counted
    WHERE ${ofProject} AND (sent_count, failed_count, unknown_count, skipped_count)
      IS DISTINCT FROM (sent, failed, unknown, skipped)`)
  assert.deepStrictEqual(miscounted, [])
  return sends
}

/** Makes all comparisons; returns the totals. */
export const balance = async (scene: Scene) => {
  await expectKeys(scene)
  await expectRecords(scene)
  const events = await expectEvents(scene)
  const { again, dead } = expectArrivals(scene, events)
  const unknown = await expectMessages(scene)
  const ofCampaigns = await expectCampaigns(scene)
  await eventually(async () => {
    assert.strictEqual(
      await count(scene, `endpoint_health WHERE project_id = '${scene.project.id}' AND in_flight <> 0`),
      0
    )
  })
  return { events: events.events, deliveries: events.deliveries.length, dead, again, unknown, ofCampaigns }
}
