/** What an operator gives to an integrator, a receiver that keeps the newest versions, and the outcomes of calls. */
import { assert } from "@effect/vitest"
import { isProblem, type Problem, verifyWebhookPromise, type WebhookEvent, WebhookInvalid } from "../../src/client.ts"
import { pipelines } from "../contract/Deals.support.ts"
import { status } from "../webhooks/delivery/Deliveries.support.ts"
import { project, unlimited } from "./Projects.support.ts"
import { channelsOf, kinds, type Provider } from "./Providers.support.ts"
import { listen } from "./Shop.support.ts"

/** Applies the file of a project, whose one installation is `shop`. Returns a token with all scopes. */
export const operate = (databaseUrl: string, provider: Provider): Promise<string> =>
  project(databaseUrl, {
    pipelines,
    project: { defaultPipelineId: "sales", rateLimits: unlimited },
    channels: channelsOf(provider),
    conversations: [{ id: "0193f0cb-d4e5-7f70-8192-03a4b5c6d7e8", channelId: "http", address: "asks" }],
    templates: kinds.map((kind) => ({ id: kind, version: 1, name: kind, body: `${kind} to {{displayName}}` })),
    installations: [
      {
        id: "shop",
        name: "Shop",
        importProfile: { version: 1, mappings: { contact: { name: "displayName" } } },
        stagedRecords: [
          { entityType: "contact", externalId: "shop-0", fields: { name: "Customer 0, moved" } },
          { entityType: "contact", externalId: "shop-1", fields: { name: "Customer 1" } },
          { entityType: "contact", externalId: "shop-new", fields: { name: "Somebody new" } }
        ]
      }
    ]
  })

/** Starts a receiver of webhooks that is out of service at first. Each delivery needs a valid signature and the header. */
export const startReceiver = async (authorization: string) => {
  let secret: string | undefined
  const refused: Array<unknown> = []
  const events = new Map<string, WebhookEvent>()
  const newest = new Map<string, number>()
  const { url } = await listen(async (hit, n) => {
    if (secret === undefined) return status(503)(hit, n)
    try {
      assert.strictEqual(hit.headers.authorization, authorization)
      const event = await verifyWebhookPromise({ body: hit.body, headers: hit.headers, secrets: secret })
      events.set(event.id, event)
      if ("deal" in event.data) {
        const { id, version } = event.data.deal
        newest.set(id, Math.max(version, newest.get(id) ?? 0))
      }
    } catch (failure) {
      // The test event has a type of its own.
      if (!(failure instanceof WebhookInvalid) || failure.reason !== "type_unknown") refused.push(failure)
    }
    status(204)(hit, n)
  })
  return {
    url,
    /** Ends the outage. */
    open: (signingSecret: string) => {
      secret = signingSecret
    },
    /** The events that have arrived, each once. */
    events: () => [...events.values()],
    /** The newest version of each deal that has arrived. */
    deals: () => [...newest].map(([id, version]) => ({ id, version })),
    /** The deliveries that could not be trusted. */
    refused
  }
}

/** Returns the results of batches, none of which is a problem. */
export const done = async <Result extends object>(results: AsyncIterable<Result>) => {
  type Done = Exclude<Result, { readonly problem: unknown }>
  const isDone = (result: Result): result is Done => !("problem" in result)
  const all: Array<Done> = []
  for await (const result of results) all.push(isDone(result) ? result : assert.fail(JSON.stringify(result)))
  return all
}

/** Returns the problem of a call that has to be refused. */
export const refusal = async <Code extends Problem["_tag"]>(code: Code, call: Promise<unknown>) => {
  const failure = await call.then(
    () => assert.fail(`no ${code}`),
    (failure: unknown) => failure
  )
  return isProblem(failure, code) ? failure : assert.fail(`not ${code}: ${String(failure)}`)
}

/** Returns ids and versions in one order, to compare lists. */
export const versionsOf = (records: ReadonlyArray<{ readonly id: string; readonly version: number }>) =>
  records.map(({ id, version }) => `${id} at ${version}`).sort()
