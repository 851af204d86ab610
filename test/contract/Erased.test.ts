/** What is left of a client after its erase (contract §7): nothing, in any column of any table, and in no answer. */
import * as Clients from "./Clients.support.ts"
import * as Deals from "./Deals.support.ts"
import { assert, it, layer } from "../support/Vitest.ts"
import { Deferred, Effect, Exit, Fiber } from "effect"
import { eventTypes } from "../../src/api/integrations/Events.ts"
import { eraseTexts, pruneAudiences } from "../../src/campaigns/Retention.ts"
import { type Answering, receiver, serve, settings } from "../webhooks/delivery/Deliveries.support.ts"
import { problemOf, receiptOf, secretOf } from "../support/ContractAnswers.ts"
import { callTool } from "../support/Mcp.ts"
import { messageReceiptOf } from "../support/MessagingAnswers.ts"
import { until, untilRows } from "../support/Waiting.ts"
import { callsOf as campaignsOf, everybody } from "./Campaigns.support.ts"
import { held, httpChannel, messagesPath, script, taken } from "./Messages.support.ts"
import { columnsOfClients, echo, mark, markedIn, phone } from "./Erased.support.ts"
import { newKey } from "./Requests.ts"
import { callsOf as webhookOf } from "./Webhooks.support.ts"
import type { Answer } from "../support/ContractHttp.ts"
import { holding } from "../support/Locks.ts"
import { type Parts, TestServer } from "../support/TestServer.ts"

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

  const pass = (age: number) => Effect.repeat(eraseTexts(sql, age), { while: (more) => more })
  yield* pass(60_000)
  assert.deepStrictEqual(yield* marked, [])
  // A send whose statement began before the erase is committed after the first pass.
  yield* sql`
    INSERT INTO messages (project_id, id, conversation_id, channel_id, provider_type, address, text, status, attempts, attempting,
      attempt_log, traceparent, created_at, updated_at)
    VALUES (${projectId}, 'late', ${chats.refusing}, 'refusing', 'http', ${mark}, ${mark}, 'failed', 1, false, '[]', '', now(), now())`
  assert.lengthOf(yield* sql`SELECT FROM erasures`, 1)
  yield* pass(-60_000)
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

const conversation = "0193f0cb-d4e5-4f70-8192-0000000000c7"

/** The client `a`, whose data are marked, with a conversation and a ticket, and the client `b`. */
const parts = (url: string): Parts => ({
  channels: [httpChannel("chat", url)],
  templates: [{ id: "tpl", version: 1, name: "Hello", body: "Hello {{displayName}}" }],
  clients: [
    {
      id: "a",
      displayName: `${mark} A`,
      externalId: "shop-1",
      marketingConsent: true,
      addresses: [{ channelId: "chat", address: `${mark} a` }]
    },
    { id: "b", displayName: "B", marketingConsent: true, addresses: [{ channelId: "chat", address: "b" }] }
  ],
  conversations: [{ id: conversation, channelId: "chat", clientId: "a", address: `${mark} a` }],
  tickets: [{ id: "ticket", subject: "Broken", status: "open", clientId: "a" }],
  campaigns: [{ id: "news", name: "News" }]
})

const open = Effect.fnUntraced(function* (answering: Answering) {
  const server = yield* TestServer
  const provider = yield* receiver(answering)
  const file = parts(provider.url)
  const seeded = yield* server.seed(file)
  const { projectId, token } = seeded
  const { sql } = server
  const campaigns = campaignsOf(server, seeded)
  const recipients = sql<{ readonly status: string }>`
    SELECT status FROM campaign_recipients WHERE project_id = ${projectId} ORDER BY client_id`.pipe(
    Effect.map((rows) => rows.map(({ status }) => status)),
    Effect.orDie
  )
  const marked = yield* markedIn(sql)
  const erase = Effect.suspend(() => server.send({ method: "DELETE", path: `${Clients.path}/a`, token, key: newKey() }))
  const pass = (age: number) => Effect.repeat(eraseTexts(sql, age), { while: (more) => more })
  /** Waits until a number of statements wait for locks. */
  const waiting = (count: number) =>
    untilRows(
      Effect.orDie(sql`
        SELECT FROM pg_stat_activity
        WHERE datname = current_database() AND (wait_event_type = 'Lock' OR wait_event = 'PgSleep')`),
      ({ length }) => length === count
    )
  let subject = 0
  const step = (json: object) => campaigns.done("news", json)
  return {
    sql,
    projectId,
    clients: Clients.callsOf(server, seeded),
    erase,
    /** Removes the texts of the erased: in a first pass, and in the last, as if a minute had passed. */
    firstPass: pass(60_000),
    lastPass: pass(-60_000),
    marked,
    recipients,
    /** The texts that the provider was sent for the client `a`. */
    sentToMarked: () => provider.hits.filter(({ body }) => body.includes(mark)).length,
    hits: () => provider.hits.length,
    /** Applies the file, with another subject of the ticket. If it has waited for a lock for too long, it is applied again. */
    applied: Effect.suspend(() =>
      server.apply(projectId, {
        ...file,
        tickets: [{ id: "ticket", subject: `${++subject}`, status: "open", clientId: "a" }]
      })
    ).pipe(Effect.exit, Effect.repeat({ until: Exit.isSuccess })),
    reply: server.send({
      method: "POST",
      path: messagesPath(conversation),
      token,
      key: newKey(),
      json: { text: `${mark} text` }
    }),
    routed: step({ operation: "set_primary_route", templateId: "tpl", templateVersion: 1, channelId: "chat" }),
    frozen: campaigns.freeze("news"),
    started: step({ operation: "schedule", scheduledForLocal: null, sendsPerMinute: 60_000 }),
    /** Makes what waits for another attempt due, until the campaign is completed. */
    completed: untilRows(
      sql`
        WITH due AS (
          UPDATE campaign_recipients SET available_at = now()
          WHERE project_id = ${projectId} AND status = 'pending' AND available_at > now()
        )
        UPDATE messages SET available_at = now()
        WHERE project_id = ${projectId} AND conversation_id IS NOT NULL AND NOT attempting AND available_at > now()`.pipe(
        Effect.andThen(campaigns.read("news")),
        Effect.orDie
      ),
      ({ status }) => status === "completed"
    ),
    /** The reply's message has ended. */
    messageEnds: (id: string) =>
      untilRows(
        Effect.orDie(sql<{ readonly status: string }>`
          SELECT status FROM messages WHERE project_id = ${projectId} AND id = ${id}`),
        ([message]) => message?.status === "failed"
      ),
    waiting,
    /** Runs an effect while a statement waits for a lock, and returns what the statement answers afterwards. */
    during: Effect.fnUntraced(function* <A, E, R>(
      lock: Effect.Effect<unknown, unknown>,
      statement: Effect.Effect<A>,
      then: Effect.Effect<unknown, E, R>
    ) {
      const { release } = yield* holding(sql, Effect.orDie(lock))
      const answer = yield* Effect.forkChild(statement)
      yield* waiting(1)
      yield* then
      yield* release
      return yield* Fiber.join(answer)
    }),
    ticket: sql`SELECT FROM tickets WHERE project_id = ${projectId} FOR UPDATE`,
    gate: sql`SELECT pg_advisory_xact_lock(hashtext(${projectId}))`
  }
})

/** Lets the changes of a table wait for the gate of their project, for longer than a statement waits for a lock. */
const gated = Effect.fnUntraced(function* (table: "messages" | "tickets") {
  const { sql } = yield* TestServer
  yield* sql`
    CREATE OR REPLACE FUNCTION wait_for_gate() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      WHILE NOT pg_try_advisory_xact_lock_shared(hashtext(NEW.project_id)) LOOP
        PERFORM pg_sleep(0.01);
      END LOOP;
      RETURN NEW;
    END $$`
  yield* sql`CREATE TRIGGER gate BEFORE INSERT OR UPDATE ON ${sql(table)} FOR EACH ROW EXECUTE FUNCTION wait_for_gate()`
  yield* Effect.addFinalizer(() => Effect.orDie(sql`DROP TRIGGER gate ON ${sql(table)}`))
})

layer(TestServer.layer(settings), { excludeTestServices: true })("the erase of a client", (it) => {
  it.effect("leaves nothing of a campaign and of a reply that began while it waited", function* () {
    const provider = held(script(echo(429), echo(429), echo(429), taken))
    const at = yield* open(provider.answering)
    yield* at.routed
    const erased = yield* at.during(
      at.ticket,
      at.erase,
      Effect.gen(function* () {
        yield* at.frozen
        yield* at.started
        yield* Effect.forkScoped(at.reply)
        yield* until(() => at.hits() === 3)
      })
    )
    receiptOf(erased, 200)
    provider.letGo()
    yield* at.completed
    assert.deepStrictEqual(yield* at.recipients, ["skipped", "sent"])
    yield* at.lastPass
    assert.deepStrictEqual(yield* at.marked, [])
    // The attempts that were in flight, and none after them.
    assert.strictEqual(at.sentToMarked(), 2)
  })

  it.effect("leaves nothing of messages whose statements began before it and end after it", function* () {
    const at = yield* open(taken)
    yield* gated("messages")
    yield* at.routed
    yield* at.frozen
    yield* at.during(
      at.gate,
      at.started,
      Effect.gen(function* () {
        yield* Effect.forkScoped(at.reply)
        yield* at.waiting(2)
        receiptOf(yield* at.erase, 200)
        yield* at.firstPass
      })
    )
    yield* at.completed
    // A release that has waited for longer than a statement may take is made again, without the client.
    const [marked, other] = yield* at.recipients
    assert.include(["sent", "skipped"], marked)
    assert.strictEqual(other, "sent")
    yield* at.lastPass
    assert.deepStrictEqual(yield* at.marked, [])
  })

  it.effect("holds for messages that wait, also if a project file makes the client again", function* () {
    const at = yield* open(script(echo(429), echo(429), echo(429), taken))
    const { messageId } = messageReceiptOf(yield* at.reply)
    yield* at.routed
    yield* at.frozen
    yield* at.started
    yield* until(() => at.hits() === 3)
    receiptOf(yield* at.erase, 200)
    yield* untilRows(at.firstPass.pipe(Effect.andThen(at.marked), Effect.orDie), ({ length }) => length === 0)
    yield* at.applied
    yield* at.completed
    yield* at.messageEnds(messageId)
    assert.deepStrictEqual(yield* at.recipients, ["skipped", "sent"])
    assert.strictEqual(at.hits(), 4)
    receiptOf(yield* at.erase, 200)
    yield* at.lastPass
    assert.deepStrictEqual(yield* at.marked, [])
  })

  it.effect("comes before or after a project file with the client, as a whole", function* () {
    const at = yield* open(taken)
    yield* gated("tickets")
    const done = yield* Deferred.make<Answer>()
    // The file waits for the gate, and the erase for the file.
    yield* at.during(at.gate, at.applied, Effect.forkScoped(Deferred.complete(done, at.erase)))
    receiptOf(yield* Deferred.await(done), 200)
    yield* at.lastPass
    assert.deepStrictEqual(yield* at.marked, [])

    yield* at.applied
    yield* at.during(at.gate, at.erase, Effect.forkScoped(at.applied))
    yield* untilRows(Effect.orDie(at.clients.get("a")), ({ status }) => status === 200)
    assert.deepInclude(yield* at.clients.read("a"), { version: 1, externalId: "shop-1", displayName: `${mark} A` })
    receiptOf(yield* at.erase, 200)
    problemOf(yield* at.erase, 404, "client_not_found")
    yield* at.lastPass
    assert.deepStrictEqual(yield* at.marked, [])
  })
})
