/** A project whose webhook is told of its deals, by a service in a process of its own. */
import { Effect, Exit, Scope } from "effect"
import { randomBytes } from "node:crypto"
import { expect } from "vitest"
import { pipelines } from "../contract/Deals.support.ts"
import { type Answering, bodyOf, receiver } from "../integrations/Deliveries.support.ts"
import { defer, eventually, type Service } from "../support/Process.ts"
import { project, session } from "./Projects.support.ts"
import { bearer, send } from "./Requests.support.ts"

/** A receiver that may be told to answer in another way. */
export const listen = async (first: Answering) => {
  const scope = Scope.makeUnsafe()
  defer(() => Effect.runPromise(Scope.close(scope, Exit.void)))
  let answer = first
  const opened = receiver((hit, n) => answer(hit, n))
  const shop = await Effect.runPromise(Scope.provide(opened, scope))
  return {
    ...shop,
    answerWith: (next: Answering) => {
      answer = next
      for (const { response } of shop.hits) if (!response.writableEnded && !response.destroyed) response.end()
    },
    /** How often each event came. */
    seen: () => Map.groupBy(shop.hits, (hit) => String(bodyOf(hit)["id"]))
  }
}

interface ShopOptions {
  readonly eventTypes?: ReadonlyArray<string>
}

/** A project of the test's own whose webhook is told of deals, and what its ledger says. */
export const openShopIn = async (
  databaseUrl: string,
  api: Service,
  endpointUrl: string,
  { eventTypes = ["crm.deal.created.v1"] }: ShopOptions = {}
) => {
  const id = `p-${randomBytes(6).toString("hex")}`
  const plenty = { limit: 1_000_000, windowSeconds: 1 }
  const rateLimits = { read: plenty, write: plenty, messages: plenty }
  const installations = [{ id: "shop", name: "Shop" }]
  const token = await project(databaseUrl, {
    pipelines,
    installations,
    project: { id, name: id, defaultPipelineId: "sales", rateLimits }
  })
  const query = await session(databaseUrl)
  const call = (
    of: Service,
    method: string,
    path: string,
    key: string,
    json: unknown,
    headers: Readonly<Record<string, string>> = {}
  ) =>
    send(`${of.url}/api/v1/developer/${path}`, {
      method,
      headers: { ...bearer(token), "idempotency-key": key, ...headers },
      json
    })
  const configured = await call(api, "PUT", "integrations/shop/outbound-webhook", "configure-1", {
    endpointUrl,
    eventTypes,
    expectedVersion: null
  })
  expect(configured.status).toBe(200)
  const count = async (what: string) => Number((await query(`SELECT count(*) FROM ${what}`))[0]?.["count"])
  const ofUs = `WHERE project_id = '${id}'`
  return {
    projectId: id,
    token,
    query,
    /** What configured the webhook; its body tells the signing secret. */
    configured,
    /** Creates a deal, trying again under the same key for as long as it takes. */
    create: (key: string, of = api, headers: Readonly<Record<string, string>> = {}) =>
      eventually(async () => {
        const { status } = await call(of, "POST", "crm/deals", key, { title: key }, headers)
        expect(status).toBe(201)
      }),
    deals: () => count(`deals ${ofUs}`),
    inState: (...states: ReadonlyArray<string>) =>
      count(`deliveries ${ofUs} AND status IN (${states.map((state) => `'${state}'`).join()})`),
    inFlight: async () => Number((await query(`SELECT in_flight FROM endpoint_health ${ofUs}`))[0]?.["in_flight"]),
    events: async () => (await query(`SELECT id FROM events ${ofUs}`)).map((row) => String(row["id"])),
    /** As if the time of every lease had passed. */
    endLeases: () => query(`UPDATE deliveries SET available_at = now() ${ofUs} AND status = 'delivering'`)
  }
}
export type Shop = Awaited<ReturnType<typeof openShopIn>>
