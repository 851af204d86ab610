/** A project with a webhook for its deals, a receiver, and queries of their state in the database. */
import { randomBytes } from "node:crypto"
import { assert } from "@effect/vitest"
import type { EventType } from "../../src/api/integrations/Events.ts"
import { pipelines } from "../contract/Deals.support.ts"
import { type Answering, bodyOf, receiver } from "../webhooks/delivery/Deliveries.support.ts"
import { opened } from "../support/Finalizers.ts"
import { type Service } from "../support/Process.ts"
import { project, session, unlimited } from "./Projects.support.ts"
import { command } from "./Requests.support.ts"
import { eventually } from "../support/Waiting.ts"

/** Starts a receiver whose answers can be changed. */
export const listen = async (first: Answering) => {
  let answer = first
  const shop = await opened(receiver((hit, n) => answer(hit, n)))
  return {
    ...shop,
    answerWith: (next: Answering) => {
      answer = next
      for (const { response } of shop.hits) if (!response.writableEnded && !response.destroyed) response.end()
    },
    /** Returns the arrivals of each event. */
    seen: () => Map.groupBy(shop.hits, (hit) => String(bodyOf(hit)["id"]))
  }
}

/** Opens a session for SQL text that reconnects when it breaks; a statement may then run twice. */
export const lastingSession = async (databaseUrl: string) => {
  let query = await session(databaseUrl)
  return (text: string) =>
    eventually(async () => {
      try {
        return await query(text)
      } catch (failure) {
        query = await session(databaseUrl)
        throw failure
      }
    })
}

type Api = Pick<Service, "url">

type Headers = Readonly<Record<string, string>>

/** Opens a new project whose webhook is subscribed to the events of deals, with queries of its records. */
export const openShop = async (
  databaseUrl: string,
  api: Api,
  url: string,
  eventTypes: ReadonlyArray<EventType> = ["crm.deal.created.v1"]
) => {
  const id = `p-${randomBytes(6).toString("hex")}`
  const token = await project(databaseUrl, {
    pipelines,
    installations: [{ id: "shop", name: "Shop" }],
    project: { id, name: id, defaultPipelineId: "sales", rateLimits: unlimited }
  })
  const query = await lastingSession(databaseUrl)
  const call = (of: Api, method: string, path: string, key: string, json: unknown, headers: Headers = {}) =>
    command(`${of.url}/api/v1/developer/${path}`, token, key, { method, headers, json })
  const configured = await call(api, "PUT", "integrations/shop/outbound-webhook", "configure-1", {
    endpointUrl: url,
    eventTypes,
    expectedVersion: null
  })
  assert.strictEqual(configured.status, 200)
  const count = async (what: string) => Number((await query(`SELECT count(*) FROM ${what}`))[0]?.["count"])
  const ids = async (text: string) => (await query(text)).map((row) => String(row["id"]))
  const ofProject = `WHERE project_id = '${id}'`
  return {
    id,
    token,
    query,
    call,
    /** The answer that configured the webhook; its body has the signing secret. */
    configured,
    /** Creates a deal; retries under the same key until it succeeds. */
    create: (key: string, of = api, headers: Headers = {}) =>
      eventually(async () => {
        const { status } = await call(of, "POST", "crm/deals", key, { title: key }, headers)
        assert.strictEqual(status, 201)
      }),
    deals: () => count(`deals ${ofProject}`),
    inState: (...states: ReadonlyArray<string>) =>
      count(`deliveries ${ofProject} AND status IN (${states.map((state) => `'${state}'`).join()})`),
    inFlight: async () => Number((await query(`SELECT in_flight FROM endpoint_health ${ofProject}`))[0]?.["in_flight"]),
    events: () => ids(`SELECT id FROM events ${ofProject}`),
    /** Makes the endpoint rest, as if its last answer had asked for it: claims find nothing. */
    rest: () => query(`UPDATE endpoint_health SET resting_until = 'infinity' ${ofProject}`),
    resume: () => query(`UPDATE endpoint_health SET resting_until = NULL ${ofProject}`),
    /** Makes pending deliveries due for long, also for a claim that has begun before and does not name their endpoint. */
    age: async () => {
      await query(
        `UPDATE deliveries SET available_at = available_at - interval '1 hour' ${ofProject} AND status = 'pending'`
      )
      await query(`UPDATE endpoint_health SET next_due_at = now() - interval '1 hour' ${ofProject}`)
    },
    /** Returns the deliveries that are leased. */
    leased: () => ids(`SELECT id FROM deliveries ${ofProject} AND status = 'delivering'`),
    /** Returns the deliveries without an outcome. */
    unfinished: () => ids(`SELECT id FROM deliveries ${ofProject} AND status IN ('pending', 'delivering')`),
    /** Ends every lease. Returns these deliveries and those that were just taken over. */
    endLeases: () =>
      ids(`
        WITH ended AS (
          UPDATE deliveries SET leased_until = now() ${ofProject} AND status = 'delivering' RETURNING id
        )
        SELECT id FROM ended
        UNION SELECT id FROM deliveries ${ofProject} AND attempt_log->-1->>'errorCode' = 'lease_lost'
          AND (attempt_log->-1->>'finishedAt')::timestamptz > now() - interval '10 seconds'`)
  }
}
export type Shop = Awaited<ReturnType<typeof openShop>>
