/**
 * The whole job of an integrator, by the typed client alone: customers, orders, webhooks with an outage, replies, campaigns, an
 * import, an erasure. An operator gives a project file and a token; the service is killed in the middle of a batch and of campaigns
 * (contract §5, §7 to §11).
 */
import { assert } from "@effect/vitest"
import { describe, it } from "vitest"
import { createClient, followChangesPromise, sendBatchesPromise } from "../../src/client.ts"
import { settings } from "../webhooks/delivery/Deliveries.support.ts"
import { freePort, startService } from "../support/Process.ts"
import { eventually } from "../support/Waiting.ts"
import { done, operate, refusal, startReceiver, versionsOf } from "./Job.support.ts"
import { database, serviceEnv } from "./Projects.support.ts"
import { accept, acceptSilently, kinds, startProvider } from "./Providers.support.ts"

const customers = Array.from({ length: 300 }, (_, n) => ({
  externalId: `shop-${n}`,
  displayName: `Customer ${n}`,
  email: `customer-${n}@example.com`,
  tags: ["shop"],
  marketingConsent: n % 2 === 0
}))
const addressed = customers.slice(0, 40)
const recipients = addressed.filter(({ marketingConsent }) => marketingConsent)
const orders = 40

const shop = { installationId: "shop" }
const authorization = "Bearer of-the-shop"

/** Starts a service that can be killed, and then serves at the same URL. */
const start = async (databaseUrl: string) => {
  const PORT = String(await freePort())
  const launch = () => startService({ env: { ...serviceEnv(databaseUrl), ...settings, PROVIDER_TIMEOUT: "5s", PORT } })
  let service = await launch()
  return {
    url: service.url,
    kill: () => {
      service.kill("SIGKILL")
      return service.exited
    },
    restart: async () => {
      service = await launch()
    }
  }
}

describe("the job of an integrator", () => {
  it("is done by the public API alone, with kill -9 in the middle of a batch and of campaigns", async () => {
    const databaseUrl = await database()
    const provider = await startProvider()
    const token = await operate(databaseUrl, provider)
    const { kill, restart, url: baseUrl } = await start(databaseUrl)
    const api = createClient({ baseUrl, token })
    const since = new Date().toISOString()
    const clients = () => Array.fromAsync(api.clients.listClients.items({ query: { limit: 100, status: "all" } }))
    const deals = () => Array.fromAsync(api.deals.listDeals.items({ query: { limit: 100, lifecycle: "all" } }))

    // Customers. The process is killed when a part of the second batch is stored, and the same run is repeated.
    let batches = 0
    const dying = createClient({
      baseUrl,
      token,
      retry: false,
      fetch: async (input, init) => {
        const answer = fetch(input, init)
        if (++batches !== 2) return answer
        answer.catch(() => undefined)
        await eventually(async () => assert.isAbove((await clients()).length, 100))
        await kill()
        throw new TypeError("The process is gone")
      }
    })
    const sync = (by: typeof api) =>
      done(sendBatchesPromise(by.clients.batchClients, customers, { key: "job-customers" }))
    const [cut] = await Promise.allSettled([sync(dying)])
    assert.deepStrictEqual([cut.status, batches], ["rejected", 2])
    await restart()
    const synced = await sync(api)
    assert.deepStrictEqual(
      synced.map(({ changed, created, externalId }) => ({ changed, created, externalId })),
      customers.map(({ externalId }) => ({ changed: true, created: true, externalId }))
    )
    assert.deepStrictEqual(await sync(api), synced)
    const idOf = new Map<string | null, string>(synced.map(({ externalId, resourceId }) => [externalId, resourceId]))
    const clientId = (externalId: string) => idOf.get(externalId) ?? assert.fail(externalId)
    const stored = await clients()
    assert.lengthOf(stored, customers.length)
    for (const { externalId, id } of stored) assert.strictEqual(idOf.get(externalId), id)

    const sources = await Array.fromAsync(api.messaging.listSources.items())
    for (const { displayName, externalId } of addressed) {
      const addresses = sources.map(({ channelId }) => ({ channelId, address: `${channelId}-${displayName}` }))
      await api.clients.putClientAddresses({
        params: { clientId: clientId(externalId) },
        payload: { addresses }
      })
    }

    // A webhook whose receiver is out of service.
    const receiver = await startReceiver(authorization)
    const { body: webhook } = await api.webhooks.configureWebhook({
      params: shop,
      payload: {
        endpointUrl: receiver.url,
        eventTypes: ["crm.deal.created.v1", "crm.deal.updated.v1", "crm.deal.stage_changed.v1", "crm.client.erased.v1"],
        headers: { authorization },
        expectedVersion: null
      }
    })
    const deliveries = (status: "dead" | "pending") =>
      Array.fromAsync(api.webhooks.listDeliveries.items({ params: shop, query: { status, limit: 100 } }))

    // Orders and moves, which are followed while they are made.
    const followed: Array<{ readonly id: string; readonly version: number }> = []
    const follow = async () => {
      const read = (updatedSince: string) =>
        api.deals.listDeals.items({ query: { updatedSince, lifecycle: "all", limit: 10 } })
      for await (const { id, version } of followChangesPromise(read, { since, every: "50 millis" })) {
        followed.push({ id, version })
        if (followed.filter(({ version }) => version === 2).length === orders) return
      }
    }
    const order = (n: number) => ({
      title: `Order ${n}`,
      clientId: clientId(`shop-${n}`),
      amountMinor: 100 * n,
      currency: "EUR"
    })
    const make = async () => {
      const { body: first } = await api.deals.upsertDeal({ params: { externalId: "order-0" }, payload: order(0) })
      // With more failures at once the endpoint is paused, and nothing is dead yet.
      await eventually(async () => assert.lengthOf(await deliveries("dead"), 1))
      const items = Array.from({ length: orders }, (_, n) => ({ externalId: `order-${n}`, ...order(n) }))
      const ordered = await done(sendBatchesPromise(api.deals.batchDeals, items, { key: "job-orders" }))
      assert.strictEqual(ordered[0]?.resourceId, first.resourceId)
      assert.deepStrictEqual(
        ordered.map(({ created }) => created),
        items.map((_, n) => n > 0)
      )
      for (const { resourceId: dealId } of ordered) {
        const { headers } = await api.deals.getDeal({ params: { dealId } })
        const atVersion = { params: { dealId }, headers: { "if-match": headers.etag } }
        await api.deals.patchDeal({ ...atVersion, payload: { stageId: "agreed" } })
        if (dealId !== first.resourceId) continue
        const late = api.deals.patchDeal({ ...atVersion, payload: { stageId: "closing" } })
        assert.strictEqual((await refusal("precondition_failed", late)).currentVersion, 2)
      }
    }
    await Promise.all([follow(), make()])
    assert.deepStrictEqual([...new Set(versionsOf(followed))], versionsOf(followed))
    const moved = await deals()
    assert.lengthOf(moved, orders)
    for (const { stageId, version } of moved) assert.deepStrictEqual([stageId, version], ["agreed", 2])

    // The outage ends: an answer to the test event ends the pause of the endpoint, and what is dead is replayed.
    const health = async () => (await api.webhooks.getWebhook({ params: shop })).body.health.state
    await eventually(async () => assert.strictEqual(await health(), "parked"))
    receiver.open(webhook.signingSecret ?? assert.fail("no secret"))
    assert.strictEqual((await api.webhooks.testWebhook({ params: shop })).body.statusCode, 204)
    assert.notStrictEqual(await health(), "parked")
    await eventually(async () => assert.deepStrictEqual(await deliveries("pending"), []))
    const { length: made } = await deliveries("dead")
    const { body: replay } = await api.webhooks.replayDeliveries({ params: shop, payload: { since, status: "dead" } })
    await eventually(async () => {
      const { body } = await api.webhooks.getReplay({ params: { ...shop, replayId: replay.resourceId } })
      assert.deepStrictEqual([body.state, body.made], ["completed", made])
    })
    await eventually(() => assert.lengthOf(receiver.events(), 3 * orders))
    assert.deepStrictEqual(versionsOf(receiver.deals()), versionsOf(moved))

    // A reply.
    const [conversation] = await Array.fromAsync(api.messaging.listConversations.items())
    const params = { conversationId: conversation?.id ?? assert.fail("no conversation") }
    const { body: reply } = await api.messaging.sendMessage({ params, payload: { text: "It is ready." } })
    assert.strictEqual(reply.deliveryStatus, "sent")
    assert.lengthOf(provider.entry("It is ready.", "http").taken, 1)

    // A campaign over each provider. The process is killed while both have calls that they have accepted and do not answer.
    const calls = new Map(kinds.map((kind) => [kind, 0]))
    const isHeld = (count = 0) => count > 5
    provider.answerWith((call) => {
      calls.set(call.kind, (calls.get(call.kind) ?? 0) + 1)
      if (isHeld(calls.get(call.kind))) acceptSilently(call)
      else accept(call)
    })
    const templates = await Array.fromAsync(api.campaigns.listTemplates.items())
    const campaigns = await Promise.all(
      kinds.map(async (kind) => {
        const [template, source] = [
          templates.find(({ name }) => name === kind),
          sources.find((of) => of.providerType === kind)
        ]
        if (template === undefined || source === undefined) return assert.fail(kind)
        const { body } = await api.campaigns.createCampaign({ payload: { name: `News over ${kind}` } })
        const params = { campaignId: body.resourceId }
        const route = { templateId: template.id, templateVersion: template.version, channelId: source.channelId }
        const filter = { contactStatus: "active", providerTypes: [kind], requiredTags: ["shop"], stageIds: [] } as const
        await api.campaigns.patchCampaign({ params, payload: { operation: "set_primary_route", ...route } })
        await api.campaigns.patchCampaign({ params, payload: { operation: "freeze_audience", filter } })
        const frozen = await api.campaigns.getCampaignAudience({ params })
        assert.strictEqual(frozen.body.audience?.eligibleCount, recipients.length)
        return { kind, params }
      })
    )
    const now = { operation: "schedule", scheduledForLocal: null, sendsPerMinute: 60_000 } as const
    await Promise.all(campaigns.map(({ params }) => api.campaigns.patchCampaign({ params, payload: now })))
    await eventually(() => assert.isTrue([...calls.values()].every(isHeld)))
    await kill()
    provider.answerWith(accept)
    await restart()
    for (const { kind, params } of campaigns) {
      const { sent, unknown, ...others } = await eventually(async () => {
        const { body } = await api.campaigns.getCampaign({ params })
        assert.strictEqual(body.status, "completed", JSON.stringify(body.progress))
        return body.progress
      })
      assert.deepStrictEqual([others.recipients, sent + unknown], [recipients.length, recipients.length])
      const taken = recipients.map(({ displayName }) => provider.entry(`${kind} to ${displayName}`, kind).taken.length)
      assert.isAtMost(Math.max(...taken), 1)
      // A call with a key is repeated. Without one, a call that was cut stays unknown, whether or not it has arrived.
      if (kind === "telegram") assert.isAbove(unknown, 0)
      else assert.strictEqual(unknown, 0)
      assert.isAtMost(taken.filter((count) => count === 0).length, unknown)
    }

    // The import, an erasure, and all that has changed.
    const { body: preview } = await api.preview.previewImport({ params: shop })
    assert.deepStrictEqual(preview.estimatedChanges, { create: 1, update: 1, skip: 1 })

    const erased = { params: { clientId: clientId("shop-3") } }
    await api.clients.eraseClient(erased)
    await refusal("client_not_found", api.clients.getClient(erased))
    // The deal of the client is changed, too.
    await eventually(async () => assert.deepStrictEqual(versionsOf(receiver.deals()), versionsOf(await deals())))
    await eventually(() => {
      const [event, ...others] = receiver.events().filter(({ type }) => type === "crm.client.erased.v1")
      assert.deepStrictEqual<unknown>(event?.data, { client: { id: erased.params.clientId, externalId: "shop-3" } })
      assert.deepStrictEqual(others, [])
    })
    const read = (updatedSince: string) =>
      api.clients.listClients.items({ query: { updatedSince, status: "all", limit: 50 } })
    const changed = await Array.fromAsync(followChangesPromise(read, { since }))
    assert.lengthOf(changed, customers.length - 1)
    assert.deepStrictEqual(versionsOf(changed), versionsOf(await clients()))
    assert.deepStrictEqual(receiver.refused, [])
  })
})
