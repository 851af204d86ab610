/** A project with records of every kind, receivers of its events, and providers of its messages. */
import { assert } from "@effect/vitest"
import { Schema } from "effect"
import { randomBytes } from "node:crypto"
import type { EventType } from "../../src/api/integrations/Events.ts"
import { pipelines } from "../contract/Deals.support.ts"
import { bodyOf, type Hit, receiver, status } from "../webhooks/delivery/Deliveries.support.ts"
import { opened } from "../support/Finalizers.ts"
import type { Calls } from "./Mix.calls.support.ts"
import { project as applied, unlimited } from "./Projects.support.ts"
import { channelsOf, type Kind, kinds, startProvider } from "./Providers.support.ts"
import { lastingSession } from "./Shop.support.ts"

/** The value of a header of each webhook. */
export const headerValue = `Bearer ${randomBytes(24).toString("base64url")}`

export const conversations = {
  http: "0193f0cb-d4e5-7f70-8192-03a4b5c6d7e8",
  telegram: "0193f0cb-d4e5-7f70-8192-03a4b5c6d7e9"
} as const satisfies Record<Kind, string>

/** Clients that receive the campaigns of callers, and those that receive the long campaigns. */
export const recipients = ["Ada", "Grace", "Mary"]
export const crowd = Array.from({ length: 200 }, (_, n) => `Crowd-${n}`)

const eventTypes: ReadonlyArray<EventType> = [
  "crm.deal.created.v1",
  "crm.deal.updated.v1",
  "crm.deal.stage_changed.v1",
  "crm.task.created.v1"
]

const decodeMessage = Schema.decodeUnknownOption(Schema.Struct({ messageId: Schema.String }))
const decodeDead = Schema.decodeUnknownSync(
  Schema.Array(Schema.Struct({ id: Schema.String, installation: Schema.String }))
)

export const deliveryOf = ({ headers }: Hit) => String(headers["webhook-id"])

const CreatedDeal = Schema.Struct({
  type: Schema.Literal("crm.deal.created.v1"),
  data: Schema.Struct({ deal: Schema.Struct({ title: Schema.String }) })
})
const decodeCreated = Schema.decodeUnknownOption(Schema.fromJsonString(CreatedDeal))

/** Returns whether an endpoint always refuses this delivery: the creation of every tenth deal. */
const isPoison = ({ body }: Hit) => {
  const created = decodeCreated(body)
  return created._tag === "Some" && created.value.data.deal.title.endsWith("0")
}

export type Project = Awaited<ReturnType<typeof openProject>>

/** Opens a project. `apply` applies its file and issues a token, by default with this version's code. */
export const openProject = async (databaseUrl: string, apply: typeof applied = applied) => {
  const provider = await startProvider()
  const id = `p-${randomBytes(6).toString("hex")}`
  const file = {
    project: { id, name: id, defaultPipelineId: "sales", contactCapacity: 1_000_000, rateLimits: unlimited },
    clients: [{ id: "cli_file", displayName: "Client of a file" }]
  }
  const token = await apply(databaseUrl, {
    ...file,
    pipelines,
    clients: [
      ...file.clients,
      ...[...recipients, ...crowd].map((name) => ({
        id: `cli_${name}`,
        displayName: name,
        tags: [recipients.includes(name) ? "campaign" : "crowd"],
        marketingConsent: true,
        addresses: kinds.map((channelId) => ({ channelId, address: `${channelId}-${name}` }))
      }))
    ],
    deals: [{ id: "deal_own", title: "Own" }],
    tickets: [{ id: "tic_own", subject: "Own", status: "resolved" }],
    installations: ["steady", "failing"].map((installation) => ({ id: installation, name: installation })),
    channels: channelsOf(provider),
    conversations: kinds.map((kind) => ({ id: conversations[kind], channelId: kind, address: `${kind}-own` })),
    templates: kinds.map((kind) => ({ id: kind, version: 1, name: kind, body: `${kind} to {{displayName}}` })),
    campaigns: [{ id: "cmp_own", name: "Own" }, ...kinds.map((kind) => ({ id: `cmp_${kind}`, name: kind }))]
  })
  let query = await lastingSession(databaseUrl)

  /** The statuses with which each delivery was answered, in order. */
  const answered = new Map<string, ReadonlyArray<number>>()
  const retried = new Set<string>()
  const poisonous = new Set<string>()
  /** Accepts all deliveries except poison and, at the endpoint `failing`, first deliveries of stage changes. */
  const codeOf = (hit: Hit) => {
    if (isPoison(hit)) {
      poisonous.add(deliveryOf(hit))
      return 500
    }
    const refuses = hit.path.startsWith("/failing") && bodyOf(hit)["type"] === "crm.deal.stage_changed.v1"
    return refuses && !retried.has(deliveryOf(hit)) ? 503 : 200
  }
  const to = await opened(
    receiver((hit, n) => {
      const code = codeOf(hit)
      status(code)(hit, n)
      answered.set(deliveryOf(hit), [...(answered.get(deliveryOf(hit)) ?? []), code])
    })
  )

  return {
    id,
    token,
    file,
    provider,
    query: (text: string) => query(text),
    /** Queries another database from now on, to which the project has moved. */
    follow: async (databaseUrl: string) => {
      query = await lastingSession(databaseUrl)
    },
    eventTypes,
    hits: to.hits,
    answered,
    isPoison: (deliveryId: string) => poisonous.has(deliveryId),
    /** Makes the endpoint accept a delivery from now on. */
    accept: (deliveryId: string) => retried.add(deliveryId),
    urlOf: (installation: string, n: number) => `http://127.0.0.1:${to.port}/${installation}/${n}`,
    /** Returns the dead deliveries that would now be accepted, and the installations whose endpoints are parked. */
    failures: async () => {
      const dead = await query(`
        SELECT deliveries.id, installation_id AS installation FROM deliveries
          JOIN events ON events.project_id = deliveries.project_id AND events.id = event_id
        WHERE deliveries.project_id = '${id}' AND status = 'dead'
          AND NOT (type = 'crm.deal.created.v1' AND data -> 'deal' ->> 'title' LIKE '%0')`)
      const parked = await query(`
        SELECT installation_id AS installation FROM endpoint_health
        WHERE project_id = '${id}' AND parked_until > now()`)
      return { dead: decodeDead(dead), parked: parked.map(({ installation }) => String(installation)) }
    },
    /** Sends a message, whose key is its text without blanks, until an answer has its id. */
    sendMessage: async (calls: Calls, kind: Kind, text: string) => {
      const ask = { params: { conversationId: conversations[kind] }, json: { text } }
      const answer = await calls.until(
        "sendMessage",
        text.replaceAll(" ", "-"),
        ask,
        (answer) => [200, 503].includes(answer.status) && decodeMessage(answer.json)._tag === "Some"
      )
      const message = decodeMessage(answer.json)
      return { answer, messageId: message._tag === "Some" ? message.value.messageId : assert.fail("no message") }
    }
  }
}
