/** What is left of a client after its erase (contract §7): nothing, in any column of any table, and in no answer. */
import { assert, it } from "../support/Vitest.ts"
import { Effect, Fiber } from "effect"
import { eventTypes } from "../../src/api/integrations/Events.ts"
import { pruneAudiences } from "../../src/campaigns/AudiencePruner.ts"
import { eraseTexts } from "../../src/campaigns/ErasedTexts.ts"
import { receiver, serve } from "../integrations/deliveries/Deliveries.support.ts"
import { problemOf, receiptOf, secretOf } from "../support/ContractAnswers.ts"
import { callTool } from "../support/Mcp.ts"
import { messageReceiptOf } from "../support/MessagingAnswers.ts"
import { until, untilRows } from "../support/Waiting.ts"
import { callsOf as campaignsOf, everybody } from "./Campaigns.support.ts"
import * as Clients from "./Clients.support.ts"
import * as Deals from "./Deals.support.ts"
import { held, httpChannel, messagesPath } from "./Messages.support.ts"
import { columnsOfClients, echo, mark, markedIn, phone } from "./Erased.support.ts"
import { newKey } from "./Requests.ts"
import { callsOf as webhookOf } from "./Webhooks.support.ts"

const chats = {
  refusing: "0193f0cb-d4e5-4f70-8192-0000000000f1",
  waiting: "0193f0cb-d4e5-4f70-8192-0000000000f2",
  held: "0193f0cb-d4e5-4f70-8192-0000000000f3"
}

it.live("an erased client is in no column of the database and in no answer", function* () {
  const server = yield* serve({ WEBHOOK_KEEP_ALLOWED_ANSWERS: "true" })
  const { sql } = server
  const [refusing, hook] = [yield* receiver(echo(422)), yield* receiver(echo(500))]
  const waiting = held(echo(422))
  const holding = yield* receiver(waiting.answering)
  const seeded = yield* server.seed({
    project: { defaultPipelineId: "sales" },
    pipelines: Deals.pipelines,
    installations: [{ id: "shop", name: "Shop" }],
    channels: [
      httpChannel("refusing", refusing.url),
      httpChannel("waiting", "http://127.0.0.1:9/"),
      httpChannel("held", holding.url)
    ],
    templates: [{ id: "tpl", version: 1, name: "Hello", body: "Hello {{displayName}}, {{firstName}} {{lastName}}" }],
    campaigns: ["kept", "deleted"].map((id) => ({ id, name: id }))
  })
  const { projectId, token } = seeded
  const { create, patch } = Clients.callsOf(server, seeded)

  const marked = yield* markedIn(sql)

  secretOf(
    yield* webhookOf(server, seeded, "shop").configure({ endpointUrl: hook.url, eventTypes, expectedVersion: null })
  )
  const named = { displayName: `${mark} D`, firstName: `${mark} F`, lastName: `${mark} L`, tags: [`${mark} T`] }
  const { resourceId: clientId } = receiptOf(
    yield* create({ ...named, email: `${mark}@example.com`, phone, externalId: "shop-1815", marketingConsent: true }),
    201
  )
  yield* server.apply(projectId, {
    project: { defaultPipelineId: "sales" },
    clients: [
      {
        id: clientId,
        displayName: named.displayName,
        loyalty: { cardNumber: `${mark} card`, levelId: null, balance: 1 },
        addresses: [{ channelId: "refusing", address: `${mark} address` }]
      }
    ],
    segments: [{ id: "seg", name: "Segment", clientIds: [clientId] }],
    conversations: Object.entries(chats).map(([channelId, id]) => ({
      id,
      channelId,
      clientId,
      address: `${mark} ${channelId}`
    }))
  })
  const deal = { title: "Machine", clientId }
  const { resourceId: dealId } = receiptOf(
    yield* server.send({ method: "POST", path: Deals.path, token, key: newKey(), json: deal }),
    201
  )
  const campaigns = campaignsOf(server, seeded)
  for (const id of ["kept", "deleted"]) {
    yield* campaigns.done(id, {
      operation: "set_primary_route",
      templateId: "tpl",
      templateVersion: 1,
      channelId: "refusing"
    })
    yield* campaigns.done(id, { operation: "freeze_audience", filter: everybody })
    yield* campaigns.done(id, { operation: "schedule", scheduledForLocal: null, sendsPerMinute: 60_000 })
    yield* untilRows(campaigns.read(id), ({ status }) => status === "completed")
  }
  const { version } = yield* campaigns.read("deleted")
  yield* campaigns.done("deleted", { operation: "delete", expectedVersion: version })
  // Its recipients are removed, and its messages are not.
  yield* Effect.repeat(pruneAudiences(sql, new Date(Date.now() - 3_600_000)), { while: (more) => more })
  const send = (conversationId: string) => {
    const json = { text: `${mark} text` }
    return server.send({ method: "POST", path: messagesPath(conversationId), token, key: newKey(), json })
  }
  problemOf(yield* send(chats.refusing), 409, "provider_conflict")
  const { messageId } = messageReceiptOf(yield* send(chats.waiting))
  const sending = yield* Effect.forkChild(send(chats.held))
  yield* until(() => holding.hits.length === 1)
  const open = sql`SELECT FROM deliveries WHERE project_id = ${projectId} AND finished_at IS NULL`
  const delivered = untilRows(Effect.orDie(open), ({ length }) => length === 0)
  yield* delivered
  // The endpoint's last failure is to be that of an event of the client.
  receiptOf(yield* patch(clientId, { lastName: `${mark} M` }), 200)
  yield* delivered

  assert.sameMembers(yield* marked, columnsOfClients)

  const erasing = yield* server.send({ method: "DELETE", path: `${Clients.path}/${clientId}`, token, key: newKey() })
  receiptOf(erasing, 200)
  const waited = sql<{ readonly status: string; readonly attempts: number }>`
    SELECT status, attempts FROM messages WHERE project_id = ${projectId} AND id = ${messageId}`
  const [before] = yield* waited

  // What was stored before shows nothing any more, at once.
  const hookPath = "integrations/shop/outbound-webhook"
  const deliveries = yield* sql<{ readonly id: string; readonly type: string }>`
    SELECT deliveries.id, type FROM deliveries JOIN events ON events.project_id = deliveries.project_id AND events.id = event_id
    WHERE deliveries.project_id = ${projectId} AND type <> 'crm.client.erased.v1'`
  assert.includeMembers(
    deliveries.map(({ type }) => type),
    ["crm.client.created.v1", "crm.client.updated.v1"]
  )
  const paths = [
    "crm/clients",
    "crm/deals?lifecycle=all",
    "crm/tickets",
    "messaging/conversations",
    "campaigns",
    "campaigns/audience-segments",
    "campaigns/kept/audience",
    hookPath,
    `${hookPath}/deliveries`,
    `messaging/conversations/${chats.waiting}/messages/${messageId}`
  ]
  for (const path of paths) {
    const { status, text } = yield* server.send({ path: `/api/v1/developer/${path}`, token })
    assert.strictEqual(status, 200, text)
    assert.notMatch(text, new RegExp(`${mark}|${phone.slice(1)}`))
  }

  const now = () => Date.now()
  const pass = (horizon: number) => Effect.repeat(eraseTexts(sql, new Date(horizon)), { while: (more) => more })
  yield* pass(now() - 60_000)
  assert.deepStrictEqual(yield* marked, [])
  // A send whose statement began before the erase is committed after the first pass.
  yield* sql`
    INSERT INTO messages (project_id, id, conversation_id, channel_id, provider_type, address, text, status, attempts, attempting,
      attempt_log, traceparent, created_at, updated_at)
    VALUES (${projectId}, 'late', ${chats.refusing}, 'refusing', 'http', ${mark}, ${mark}, 'failed', 1, false, '[]', '', now(), now())`
  assert.lengthOf(yield* sql`SELECT FROM erasures`, 1)
  yield* pass(now() + 60_000)
  assert.lengthOf(yield* sql`SELECT FROM erasures`, 0)

  // What was in flight is recorded without what the provider has repeated, and what waited is not sent.
  waiting.letGo()
  problemOf(yield* Fiber.join(sending), 409, "provider_conflict")
  yield* sql`UPDATE messages SET available_at = now() WHERE project_id = ${projectId} AND available_at IS NOT NULL`
  yield* untilRows(Effect.orDie(waited), ([row]) => row?.status === "failed")
  assert.strictEqual((yield* waited)[0]?.attempts, before?.attempts)
  assert.deepStrictEqual(yield* marked, [])

  for (const { id, type } of deliveries) {
    const { structuredContent } = yield* callTool(server.url, token, "getDelivery", {
      installationId: "shop",
      deliveryId: id
    })
    assert.notMatch(JSON.stringify(structuredContent), new RegExp(`${mark}|${phone.slice(1)}`))
    if (type.startsWith("crm.client.")) {
      assert.deepNestedInclude(structuredContent, {
        "event.data": { client: { id: clientId, externalId: "shop-1815" } }
      })
    }
  }
  assert.isNull((yield* Deals.callsOf(server, seeded).read(dealId)).clientId)
})
