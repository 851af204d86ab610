/** A valid request to each operation, with what the contract requires for it: the table of the `Walk` tests. */
import { Context, Effect, Layer, Redacted, Semaphore } from "effect"
import { SecretBox } from "../../src/secrets/SecretBox.ts"
import { batchOf, receiptOf, secretReceiptOf, unversionedReceiptOf } from "../support/ContractAnswers.ts"
import type { Answer } from "../support/ContractHttp.ts"
import { messageReceiptOf } from "../support/MessagingAnswers.ts"
import { bytea, put, reset } from "../support/Rows.ts"
import { secretBox } from "../support/SecretBox.ts"
import { type Parts, secretKey, type Seeded, TestServer } from "../support/TestServer.ts"
import { asContracted } from "./Operations.ts"
import { type Change, requestOf } from "./Requests.ts"
import type { Reference, Restore, Sample } from "./Sample.ts"

/** The profile and the records that make an installation ready for a preview. */
const staged = {
  importProfile: { version: 1, mappings: { contact: { name: "displayName" } } },
  stagedRecords: [{ entityType: "contact", externalId: "crm-1815", fields: { name: "Ada Lovelace", age: 36 } }]
} as const

const conversation = "0193f0cb-d4e5-4f70-8192-03a4b5c6d7e8"
const foreignConversation = "0193f0cb-d4e5-4f70-8192-03a4b5c6d7e9"

/** The records to which the samples refer. */
const fixtures: Parts = {
  project: { defaultPipelineId: "pipe_own" },
  members: [{ id: "mem_own", name: "Own" }],
  organizations: [{ id: "org_own", name: "Own" }],
  clients: [
    {
      id: "cli_own",
      displayName: "Own",
      email: "own@example.com",
      tags: ["newsletter"],
      marketingConsent: true,
      addresses: [{ channelId: "chan_own", address: "own" }]
    },
    { id: "cli_other", displayName: "Other" },
    { id: "cli_upserted", displayName: "Upserted", externalId: "shop-1" }
  ],
  channels: [{ id: "chan_own", providerType: "sandbox", displayName: "Own" }],
  segments: [{ id: "seg_own", name: "Own", clientIds: ["cli_own", "cli_other"] }],
  templates: [{ id: "tpl_own", version: 1, name: "Own", body: "Hello" }],
  campaigns: [{ id: "cmp_own", name: "Own" }],
  pipelines: [{ id: "pipe_own", name: "Own", stages: [{ id: "stage_own", name: "Own" }] }],
  deals: [
    { id: "deal_own", title: "Own", pipelineId: "pipe_own", stageId: "stage_own" },
    { id: "deal_upserted", title: "Upserted", pipelineId: "pipe_own", stageId: "stage_own", externalId: "order-1" }
  ],
  tickets: [{ id: "tic_own", subject: "Own", status: "resolved" }],
  installations: [
    { id: "ins_own", name: "Own" },
    { id: "ins_new", name: "New" },
    { id: "ins_tested", name: "Tested" },
    { id: "ins_staged", name: "Staged", ...staged }
  ],
  conversations: [{ id: conversation, channelId: "chan_own", address: "own" }]
}

/** Records of another project, with ids that the first project does not have. */
const foreign: Parts = {
  members: [{ id: "mem_foreign", name: "Foreign" }],
  organizations: [{ id: "org_foreign", name: "Foreign" }],
  clients: [{ id: "cli_foreign", displayName: "Foreign" }],
  pipelines: [{ id: "pipe_foreign", name: "Foreign", stages: [{ id: "stage_foreign", name: "Foreign" }] }],
  deals: [{ id: "deal_foreign", title: "Foreign", pipelineId: "pipe_foreign", stageId: "stage_foreign" }],
  campaigns: [{ id: "cmp_foreign", name: "Foreign" }],
  tickets: [{ id: "tic_foreign", subject: "Foreign", status: "resolved" }],
  installations: [{ id: "ins_foreign", name: "Foreign", ...staged }],
  channels: [{ id: "chan_foreign", providerType: "sandbox", displayName: "Foreign" }],
  conversations: [{ id: foreignConversation, channelId: "chan_foreign", address: "foreign" }]
}

/** The type of the events and subscriptions of the walk, which emits none of it itself. */
const task = "crm.task.created.v1"

/** Inserts a note, or resets it to its first version. */
const putNote =
  (deal_id: string, id: string): Restore =>
  (sql, project_id) =>
    reset(sql, "notes", { project_id, id, deal_id, author_key_id: "authoringKey" })

/** Inserts a client, or resets it to its first version. */
const putClient =
  (id: string): Restore =>
  (sql, project_id) =>
    reset(sql, "clients", { project_id, id })

/** Removes the rows of a webhook. */
const removeWebhook =
  (installationId: string, tables = ["webhook_secrets", "endpoint_health", "webhooks"]): Restore =>
  (sql, projectId) =>
    Effect.forEach(
      tables,
      (table) => sql`DELETE FROM ${sql(table)} WHERE project_id = ${projectId} AND installation_id = ${installationId}`
    ).pipe(Effect.asVoid, Effect.orDie)

/** Inserts a webhook, or resets it to version 1 without secrets. */
const putWebhook =
  (installation_id: string, endpoint_url = "https://shop.example.com/"): Restore =>
  (sql, project_id) => {
    const key = "project_id, installation_id"
    return reset(sql, "webhooks", { project_id, installation_id, endpoint_url, event_types: [task] }, key).pipe(
      Effect.andThen(reset(sql, "endpoint_health", { project_id, installation_id }, key)),
      Effect.andThen(removeWebhook(installation_id, ["webhook_secrets"])(sql, project_id))
    )
  }

/** Inserts a webhook of an installation, at an endpoint where nobody listens, with a secret that signs. */
const putSignedWebhook =
  (installation_id: string): Restore =>
  (sql, project_id) =>
    Effect.gen(function* () {
      yield* putWebhook(installation_id, "http://127.0.0.1:9/")(sql, project_id)
      const owner = ["webhook", project_id, installation_id]
      const sealed = yield* (yield* SecretBox).seal(owner, Redacted.make("whsec_c2lnbnMgdGhlIHRlc3Qgb2YgYSB3ZWJob29r"))
      yield* put(sql, "webhook_secrets", { project_id, installation_id, version: 1, sealed: bytea(sealed) })
    }).pipe(Effect.provide(secretBox(secretKey)), Effect.orDie)

/** Inserts a replay that has ended, and its webhook. */
const putReplay =
  (installation_id: string, id: string): Restore =>
  (sql, project_id) =>
    Effect.andThen(
      putWebhook(installation_id)(sql, project_id),
      reset(sql, "replays", { project_id, id, installation_id, state: "completed", finished_at: "now" })
    )

/** Inserts a dead delivery and its webhook, or makes the delivery dead again. */
const putDeadDelivery =
  (installation_id: string, id: string): Restore =>
  (sql, project_id) => {
    const dead = { event_type: task, status: "dead", available_at: null, attempts: 11, finished_at: "now" }
    return putWebhook(installation_id)(sql, project_id).pipe(
      Effect.andThen(reset(sql, "events", { project_id, id, type: task })),
      Effect.andThen(reset(sql, "deliveries", { project_id, id, installation_id, event_id: id, ...dead }))
    )
  }

/** Inserts a message that was sent. */
const putMessage =
  (conversation_id: string, channel_id: string, id: string): Restore =>
  (sql, project_id) =>
    reset(sql, "messages", { project_id, id, conversation_id, channel_id })

const client = {
  displayName: "Ada Lovelace",
  firstName: "Ada",
  lastName: "Lovelace",
  email: "ada@example.com",
  phone: "+442071838750",
  tags: ["newsletter", "vip"],
  marketingConsent: true,
  suppressed: false
}

const deal = {
  title: "Espresso machines",
  clientId: "cli_own",
  organizationId: "org_own",
  pipelineId: "pipe_own",
  stageId: "stage_own",
  amountMinor: 1_250_000,
  currency: "EUR",
  expectedCloseDate: "2026-12-15",
  responsibleMemberId: "mem_own"
}

const dealReferences: ReadonlyArray<Reference> = [
  { at: ["body", "clientId"], foreign: "cli_foreign", code: "deal_reference_not_found" },
  { at: ["body", "organizationId"], foreign: "org_foreign", code: "deal_reference_not_found" },
  { at: ["body", "pipelineId"], foreign: "pipe_foreign", code: "deal_reference_not_found" },
  { at: ["body", "stageId"], foreign: "stage_foreign", code: "deal_reference_not_found" },
  { at: ["body", "responsibleMemberId"], foreign: "mem_foreign", code: "deal_reference_not_found" }
]

const noteReferences: ReadonlyArray<Reference> = [
  { at: ["path", "dealId"], foreign: "deal_foreign", code: "note_not_found" },
  { at: ["path", "noteId"], foreign: "note_foreign", code: "note_not_found" }
]

const installationReference: Reference = {
  at: ["path", "installationId"],
  foreign: "ins_foreign",
  code: "installation_not_found"
}

const conversationReference: Reference = {
  at: ["path", "conversationId"],
  foreign: foreignConversation,
  code: "conversation_not_found",
  form: "uuid"
}

const campaignReference: Reference = { at: ["path", "campaignId"], foreign: "cmp_foreign", code: "campaign_not_found" }

/** Samples by operation, each with what the contract's table says of it. The walk fails if one is missing here.
 * `expectedProjectId` differs by project and is left out; `Walk` sets it. */
export const samples: Readonly<Record<string, Sample>> = asContracted({
  getCredential: {},
  listMembers: {
    query: { limit: "10", cursor: null }
  },
  listOrganizations: {
    query: { limit: "10", cursor: null }
  },
  listClients: {
    query: {
      status: "active",
      externalId: "crm-1815",
      email: "ada@example.com",
      phone: "+442071838750",
      updatedSince: "2026-11-20T10:00:00Z",
      limit: "10",
      cursor: null
    }
  },
  createClient: {
    body: client,
    required: ["displayName"],
    refusals: ["contact_capacity_exhausted", "external_id_taken"]
  },
  getClient: {
    params: { clientId: "cli_own" },
    references: [{ at: ["path", "clientId"], foreign: "cli_foreign", code: "client_not_found" }]
  },
  patchClient: {
    params: { clientId: "cli_own" },
    // A create with an external id can be sent once.
    body: {
      ...client,
      externalId: "crm-1815",
      organizationId: "org_own",
      responsibleMemberId: "mem_own",
      status: "active"
    },
    required: [],
    references: [
      { at: ["path", "clientId"], foreign: "cli_foreign", code: "client_not_found" },
      { at: ["body", "responsibleMemberId"], foreign: "mem_foreign", code: "member_not_found" },
      { at: ["body", "organizationId"], foreign: "org_foreign", code: "organization_not_found" }
    ],
    refusals: ["client_archived", "organization_archived", "contact_capacity_exhausted", "external_id_taken"]
  },
  upsertClient: {
    params: { externalId: "shop-1" },
    body: { ...client, organizationId: "org_own", responsibleMemberId: "mem_own", status: "active" },
    required: [],
    references: [
      { at: ["body", "responsibleMemberId"], foreign: "mem_foreign", code: "member_not_found" },
      { at: ["body", "organizationId"], foreign: "org_foreign", code: "organization_not_found" }
    ],
    refusals: ["client_archived", "organization_archived", "contact_capacity_exhausted"]
  },
  batchClients: {
    body: {
      items: [
        { externalId: "shop-1", ...client, organizationId: "org_own", responsibleMemberId: "mem_own", status: "active" }
      ]
    },
    required: ["items"],
    receipt: "batch"
  },
  eraseClient: {
    params: { clientId: "cli_erased" },
    references: [{ at: ["path", "clientId"], foreign: "cli_foreign", code: "client_not_found" }],
    restore: putClient("cli_erased")
  },
  getClientAddresses: {
    params: { clientId: "cli_own" },
    references: [{ at: ["path", "clientId"], foreign: "cli_foreign", code: "client_not_found" }]
  },
  putClientAddresses: {
    params: { clientId: "cli_other" },
    body: { addresses: [{ channelId: "chan_own", address: "other" }] },
    required: ["addresses"],
    references: [
      { at: ["path", "clientId"], foreign: "cli_foreign", code: "client_not_found" },
      {
        at: ["body", "addresses"],
        foreign: "chan_foreign",
        code: "channel_not_found",
        holding: (channelId) => [{ channelId, address: "other" }]
      }
    ],
    refusals: ["client_archived"]
  },
  listPipelines: {
    query: { limit: "10", cursor: null }
  },
  listDeals: {
    query: {
      lifecycle: "active",
      status: "open",
      externalId: "order-1042",
      clientId: "cli_own",
      stageId: "stage_own",
      updatedSince: "2026-11-20T10:00:00Z",
      limit: "10",
      cursor: null
    }
  },
  createDeal: {
    body: deal,
    required: ["title"],
    references: dealReferences,
    refusals: ["external_id_taken"]
  },
  getDeal: {
    params: { dealId: "deal_own" },
    references: [{ at: ["path", "dealId"], foreign: "deal_foreign", code: "deal_not_found" }]
  },
  patchDeal: {
    params: { dealId: "deal_own" },
    // A repeated `lost` is not a move, so the sample can be sent again.
    body: { ...deal, externalId: "order-1042", status: "lost", lifecycle: "active", lostReason: "No budget this year" },
    required: [],
    references: [{ at: ["path", "dealId"], foreign: "deal_foreign", code: "deal_not_found" }, ...dealReferences],
    refusals: ["deal_status_invalid", "external_id_taken"]
  },
  upsertDeal: {
    params: { externalId: "order-1" },
    body: { ...deal, status: "lost", lifecycle: "active", lostReason: "No budget this year" },
    required: [],
    references: dealReferences,
    refusals: ["deal_status_invalid"]
  },
  batchDeals: {
    body: {
      items: [
        { externalId: "order-1", ...deal, status: "lost", lifecycle: "active", lostReason: "No budget this year" }
      ]
    },
    required: ["items"],
    receipt: "batch"
  },
  listNotes: {
    params: { dealId: "deal_own" },
    query: { limit: "10", cursor: null },
    references: [{ at: ["path", "dealId"], foreign: "deal_foreign", code: "deal_not_found" }]
  },
  createNote: {
    params: { dealId: "deal_own" },
    body: { body: "Wants to see it at work first." },
    required: ["body"],
    references: [{ at: ["path", "dealId"], foreign: "deal_foreign", code: "note_not_found" }]
  },
  patchNote: {
    params: { dealId: "deal_own", noteId: "note_own" },
    body: { body: "Has seen it at work.", expectedVersion: 1 },
    required: ["body", "expectedVersion"],
    references: noteReferences,
    refusals: ["version_conflict"],
    restore: putNote("deal_own", "note_own")
  },
  deleteNote: {
    params: { dealId: "deal_own", noteId: "note_own" },
    query: { expectedVersion: "1" },
    references: noteReferences,
    refusals: ["version_conflict"],
    restore: putNote("deal_own", "note_own")
  },
  listTickets: {
    query: { status: "resolved", clientId: "cli_own", limit: "10", cursor: null }
  },
  rateTicket: {
    params: { ticketId: "tic_own" },
    body: { score: 4, comment: "Solved on the second call." },
    required: ["score"],
    references: [{ at: ["path", "ticketId"], foreign: "tic_foreign", code: "ticket_not_found" }],
    refusals: ["ticket_not_rateable", "rating_customer_owned"]
  },
  listInstallations: {
    query: { limit: "10", cursor: null }
  },
  getWebhook: {
    params: { installationId: "ins_own" },
    references: [installationReference],
    refusals: ["webhook_not_found"],
    restore: putWebhook("ins_own")
  },
  listDeliveries: {
    params: { installationId: "ins_own" },
    query: { status: "dead", eventType: "crm.task.created.v1", limit: "10", cursor: null },
    references: [installationReference],
    restore: putDeadDelivery("ins_own", "dlv_own")
  },
  getDelivery: {
    params: { installationId: "ins_own", deliveryId: "dlv_own" },
    references: [
      installationReference,
      { at: ["path", "deliveryId"], foreign: "dlv_foreign", code: "delivery_not_found" }
    ],
    restore: putDeadDelivery("ins_own", "dlv_own")
  },
  configureWebhook: {
    params: { installationId: "ins_new" },
    body: {
      endpointUrl: "https://shop.example.com/hooks",
      eventTypes: ["crm.task.created.v1", "crm.task.completed.v1"],
      headers: { "x-shop": "north" },
      expectedVersion: null
    },
    required: ["endpointUrl", "eventTypes", "expectedVersion"],
    receipt: "secret",
    references: [installationReference],
    refusals: ["version_conflict", "webhook_reference_invalid"],
    restore: removeWebhook("ins_new")
  },
  rotateWebhookSecret: {
    params: { installationId: "ins_own" },
    body: { expectedVersion: 1 },
    required: ["expectedVersion"],
    receipt: "secret",
    references: [installationReference],
    refusals: ["version_conflict", "webhook_state_conflict"],
    restore: putWebhook("ins_own")
  },
  retryDelivery: {
    params: { installationId: "ins_own", deliveryId: "dlv_own" },
    receipt: "unversioned",
    references: [
      installationReference,
      { at: ["path", "deliveryId"], foreign: "dlv_foreign", code: "webhook_reference_invalid", status: 400 }
    ],
    refusals: ["webhook_state_conflict"],
    restore: putDeadDelivery("ins_own", "dlv_own")
  },
  testWebhook: {
    policy: "write",
    params: { installationId: "ins_tested" },
    references: [installationReference],
    refusals: ["webhook_state_conflict"],
    restore: putSignedWebhook("ins_tested")
  },
  replayDeliveries: {
    params: { installationId: "ins_own" },
    body: {
      since: "2026-11-20T10:00:00Z",
      until: "2026-11-20T12:00:00Z",
      status: "dead",
      eventTypes: ["crm.task.created.v1"]
    },
    required: ["since", "status"],
    receipt: "unversioned",
    references: [installationReference],
    refusals: ["webhook_state_conflict"],
    restore: putWebhook("ins_own")
  },
  getReplay: {
    params: { installationId: "ins_own", replayId: "rpl_own" },
    references: [installationReference, { at: ["path", "replayId"], foreign: "rpl_foreign", code: "replay_not_found" }],
    restore: putReplay("ins_own", "rpl_own")
  },
  previewImport: {
    params: { installationId: "ins_staged" },
    references: [installationReference],
    refusals: ["installation_not_ready"]
  },
  listSources: {
    query: { limit: "10", cursor: null, expectedProjectId: null },
    refusals: ["project_mismatch"]
  },
  listConversations: {
    query: { clientId: "cli_own", sourceId: "src_own", limit: "10", cursor: null, expectedProjectId: null },
    refusals: ["project_mismatch"]
  },
  getConversationSource: {
    params: { conversationId: conversation },
    query: { expectedProjectId: null },
    references: [conversationReference],
    refusals: ["project_mismatch"]
  },
  getMessage: {
    params: { conversationId: conversation, messageId: "msg_own" },
    query: { expectedProjectId: null },
    references: [
      conversationReference,
      { at: ["path", "messageId"], foreign: "msg_foreign", code: "message_not_found" }
    ],
    refusals: ["project_mismatch"],
    restore: putMessage(conversation, "chan_own", "msg_own")
  },
  sendMessage: {
    policy: "messages",
    params: { conversationId: conversation },
    body: { text: "Your machine is ready." },
    required: ["text"],
    receipt: "message",
    references: [conversationReference],
    refusals: ["project_mismatch", "provider_conflict", "provider_outcome_unknown"]
  },
  listSegments: {
    query: { limit: "10", cursor: null }
  },
  listTemplates: {
    query: { limit: "10", cursor: null }
  },
  listCampaigns: {
    query: { status: "draft", limit: "10", cursor: null }
  },
  createCampaign: {
    body: { name: "Spring" },
    required: ["name"]
  },
  getCampaign: {
    params: { campaignId: "cmp_own" },
    references: [campaignReference]
  },
  getCampaignAudience: {
    params: { campaignId: "cmp_own" },
    references: [campaignReference]
  },
  patchCampaign: {
    params: { campaignId: "cmp_own" },
    body: {
      operation: "freeze_audience",
      filter: {
        contactStatus: "active",
        segmentId: "seg_own",
        providerTypes: ["sandbox"],
        requiredTags: ["newsletter"],
        stageIds: ["stage_own"],
        loyaltyCardRequired: false,
        loyaltyLevelIds: ["level"],
        minimumLoyaltyBalance: 0,
        readyStampOfferIds: ["offer"]
      }
    },
    required: ["operation", "filter"],
    discriminator: "operation",
    references: [campaignReference],
    refusals: [
      "campaign_reference_not_found",
      "campaign_state_conflict",
      "campaign_not_ready",
      "version_conflict",
      "schedule_invalid"
    ]
  }
})

/** Asserts that an answer is a receipt of the sample's kind; returns the receipt. */
export const receiptOfSample = ({ receipt, status }: Sample, answer: Answer) => {
  if (receipt === "secret") return secretReceiptOf(answer)
  if (receipt === "batch") return batchOf(answer)
  if (receipt === "message") {
    const { replayed, ...message } = messageReceiptOf(answer)
    return { ...message, resourceId: message.messageId, changed: true, version: null, replayed }
  }
  return receipt === "unversioned" ? unversionedReceiptOf(answer, status) : receiptOf(answer, status)
}

/** The sender of a request: a project, and one of its tokens or none. */
interface Caller {
  readonly projectId: string
  readonly token: string | undefined
}

/** The projects of the walk. */
export class World extends Context.Service<
  World,
  {
    /** A project with every record to which the samples refer. */
    readonly own: Seeded
    /** Seeds a project like `own`; each given part replaces the whole part. */
    readonly seed: (parts?: Parts) => Effect.Effect<Seeded>
    /** Restores the records that a sample needs, so that it can succeed again. */
    readonly restore: (sample: Sample, projectId: string) => Effect.Effect<void>
    /**
     * Restores the records of a sample, then sends it with a change. Requests that need records restored are sent one
     * at a time, as each would find the records of another's restore.
     */
    readonly ask: (sample: Sample, caller: Caller, change?: Change) => Effect.Effect<Answer>
  }
>()("developer-api-service/test/contract/Samples/World") {
  static readonly layerNoDeps = Layer.effect(
    World,
    Effect.gen(function* () {
      const server = yield* TestServer
      const restore = (sample: Sample, projectId: string) => sample.restore?.(server.sql, projectId) ?? Effect.void
      const seed = Effect.fnUntraced(function* (parts?: Parts) {
        const seeded = yield* server.seed({
          ...fixtures,
          ...parts,
          project: { ...fixtures.project, ...parts?.project }
        })
        yield* Effect.forEach(Object.values(samples), (sample) => restore(sample, seeded.projectId))
        return seeded
      })
      const other = yield* server.seed(foreign)
      yield* putNote("deal_foreign", "note_foreign")(server.sql, other.projectId)
      yield* putDeadDelivery("ins_foreign", "dlv_foreign")(server.sql, other.projectId)
      yield* putReplay("ins_foreign", "rpl_foreign")(server.sql, other.projectId)
      yield* putMessage(foreignConversation, "chan_foreign", "msg_foreign")(server.sql, other.projectId)
      const alone = yield* Semaphore.make(1)
      return {
        own: yield* seed(),
        seed,
        restore,
        ask: (sample, { projectId, token }, change) => {
          const answer = server.send(requestOf(sample, token, change))
          return sample.restore === undefined
            ? answer
            : alone.withPermit(Effect.andThen(sample.restore(server.sql, projectId), answer))
        }
      }
    })
  )

  /** A server in the role `api`, which sends no deliveries. */
  static readonly layer = World.layerNoDeps.pipe(Layer.provideMerge(TestServer.layer({}, "api")))
}
