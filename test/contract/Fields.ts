/** Each body member and query parameter of each operation: the table of `Walk.fields.test.ts`. */
import * as Values from "./FieldValues.ts"
import type { Field } from "./FieldValues.ts"

/** Fields by their locations. */
type Fields = Readonly<Record<string, Field>>

const { digits, integer, list, orNull, queryText, queryWord, reference, text, version, word } = Values

const everybody = { contactStatus: "all", providerTypes: [], requiredTags: [], stageIds: [] }
const route = { templateId: "tpl_own", templateVersion: 1, channelId: "chan_own" }

/** The members that each command of a campaign requires. */
export const commands: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  rename: { expectedVersion: 1, name: "Spring" },
  delete: { expectedVersion: 1 },
  bind_template: { templateId: "tpl_own", templateVersion: 1 },
  bind_sender: { channelId: "chan_own" },
  set_primary_route: route,
  set_fallback_route: route,
  remove_fallback_route: {},
  freeze_audience: { filter: everybody },
  schedule: { scheduledForLocal: null, sendsPerMinute: 1 },
  duplicate: {},
  pause: {},
  resume: {},
  cancel: {}
}

const page = (longestCursor: number): Fields => ({
  "query/limit": { good: ["1", "50", "99", "100"], bad: [...digits().bad, ["101", ""], ["1000000000000", ""]] },
  "query/cursor": {
    good: ["x", "x".repeat(longestCursor)],
    bad: [
      ["", ""],
      ["x".repeat(longestCursor + 1), ""]
    ]
  }
})

const client: Fields = {
  "body/displayName": text(160),
  "body/firstName": orNull(text(100)),
  "body/lastName": orNull(text(100)),
  "body/email": orNull(Values.email),
  "body/phone": orNull(Values.phone),
  "body/tags": Values.set,
  // Repeats of one are refused, so each is taken once.
  "body/externalId": orNull(text(160)),
  "body/marketingConsent": Values.flag,
  "body/suppressed": Values.flag
}

const filters = {
  "query/externalId": queryText(160),
  "query/updatedSince": Values.instant
}

const deal: Fields = {
  "body/title": text(160),
  "body/clientId": orNull(reference("cli_own")),
  "body/organizationId": orNull(reference("org_own")),
  "body/responsibleMemberId": orNull(reference("mem_own")),
  "body/pipelineId": reference("pipe_own"),
  "body/stageId": reference("stage_own"),
  "body/amountMinor": { ...integer(0, Number.MAX_SAFE_INTEGER), beside: { currency: "EUR" } },
  "body/currency": Values.currency,
  "body/expectedCloseDate": orNull(Values.date),
  "body/externalId": orNull(text(160))
}

const without = (fields: Fields, location: string): Fields =>
  Object.fromEntries(Object.entries(fields).filter(([name]) => name !== location))

const note: Fields = { "body/body": text(10_000) }

const routed: Fields = {
  "body/templateId": reference("tpl_own"),
  "body/templateVersion": version,
  "body/channelId": reference("chan_own")
}

const upsertedClient: Fields = {
  ...without(client, "body/externalId"),
  "body/organizationId": orNull(reference("org_own")),
  "body/responsibleMemberId": orNull(reference("mem_own")),
  "body/status": word("active", "archived")
}

const addressed = (...addresses: ReadonlyArray<unknown>) =>
  addresses.map((address) => ({ channelId: "chan_own", address }))

const addresses: Field = {
  good: [
    [],
    addressed("a", "A", " ", "\u0001", "a".repeat(500), "😀".repeat(500)),
    addressed(...Array.from({ length: 20 }, (_, index) => `${index}`))
  ],
  bad: [
    ...[
      null,
      "a",
      1,
      {},
      addressed(...Array.from({ length: 21 }, (_, index) => `${index}`)),
      addressed("a", "b", "a")
    ].map((value) => [value, ""] as const),
    ...["", "a".repeat(501), "a\u0000", null, 1, undefined].map(
      (address) => [addressed("a", address), "/1/address"] as const
    ),
    [[{ channelId: "", address: "a" }], "/0/channelId"],
    [[{ address: "a" }], "/0/channelId"],
    [[{ channelId: "chan_own", address: "a", surprise: 1 }], "/0/surprise"],
    [["a"], "/0"]
  ]
}

const upsertedDeal: Fields = {
  ...without(deal, "body/externalId"),
  "body/lostReason": { ...orNull(text(500)), beside: { status: "lost" } },
  "body/status": word("open", "won", "open", "lost"),
  "body/lifecycle": word("active", "archived")
}

/** The items of a batch: each value of each field of an upsert. */
const batched = (fields: Fields, required: string): Field => {
  const values = Object.entries({ ...fields, "body/externalId": text(160) }).map(([location, field]) => ({
    member: location.slice("body/".length),
    ...field
  }))
  const item = (member: string, value: unknown, more: object = {}, id = member) => ({
    externalId: id,
    [required]: "A",
    ...more,
    [member]: value
  })
  const other = { externalId: "other" }
  return {
    good: [
      Array.from({ length: 100 }, (_, index) => item(required, "A", {}, `${index}`)),
      ...values.map(({ beside, good, member }) =>
        good.map((value, index) => item(member, value, beside, `${member} ${index}`))
      )
    ],
    bad: [
      ...[[], null, "a", 1, {}].map((value) => [value, ""] as const),
      [Array.from({ length: 101 }, (_, index) => ({ externalId: `${index}` })), ""],
      [[other, {}], "/1/externalId"],
      [[other, "a"], "/1"],
      [[other, { externalId: "a", surprise: 1 }], "/1/surprise"],
      [[other, { externalId: "a" }, other], "/2/externalId"],
      ...values.flatMap(({ bad, beside, member }) =>
        bad
          // An amount without a currency breaks a rule of the record, which is a problem of its item.
          .filter(([value]) => value !== null || !["amountMinor", "currency"].includes(member))
          .map(([value, below]) => [[other, item(member, value, beside)], `/1/${member}${below}`] as const)
      )
    ]
  }
}

const subscriptions: Field = {
  good: [["crm.deal.created.v1"], Array<string>(20).fill("crm.task.created.v1")],
  bad: [
    ...[[], Array<string>(21).fill("crm.deal.created.v1"), null, "crm.deal.created.v1", 1, {}].map(
      (types) => [types, ""] as const
    ),
    ...["", "crm.deal.deleted.v1", "crm.deal.created", "CRM.DEAL.CREATED.V1", "crm.deal.created.v1 ", 1, null].map(
      (type) => [["crm.deal.created.v1", type], "/1"] as const
    )
  ]
}

/** No instants, in a query or in a body. */
const instants: Field["bad"] = [...Values.instant.bad, ...[null, 1, true, [], {}].map((value) => [value, ""] as const)]

/** Fields by operation, and by command where the body has variants. The walk fails if one is missing here. */
export const fields: Readonly<Record<string, Fields>> = {
  listClients: {
    "query/status": queryWord("active", "archived", "all"),
    ...filters,
    "query/email": Values.inQuery(Values.email),
    "query/phone": Values.inQuery(Values.phone),
    ...page(512)
  },
  createClient: client,
  patchClient: { ...client, ...upsertedClient },
  upsertClient: upsertedClient,
  batchClients: { "body/items": batched(upsertedClient, "displayName") },
  putClientAddresses: { "body/addresses": addresses },
  listDeals: {
    "query/lifecycle": queryWord("active", "archived", "all"),
    "query/status": queryWord("open", "won", "lost", "all"),
    ...filters,
    "query/clientId": queryText(160),
    "query/stageId": queryText(160),
    ...page(512)
  },
  listMembers: page(512),
  listOrganizations: page(512),
  listTickets: {
    "query/status": queryWord("open", "pending", "resolved", "closed", "all"),
    "query/clientId": queryText(160),
    ...page(512)
  },
  listConversations: {
    "query/clientId": queryText(160),
    "query/sourceId": queryText(160),
    "query/expectedProjectId": queryText(160),
    ...page(2_048)
  },
  createCampaign: { "body/name": text(160) },
  listTemplates: page(4_096),
  listPipelines: page(512),
  createDeal: deal,
  patchDeal: { ...deal, ...upsertedDeal },
  upsertDeal: upsertedDeal,
  batchDeals: { "body/items": batched(upsertedDeal, "title") },
  listNotes: page(512),
  createNote: note,
  patchNote: { ...note, "body/expectedVersion": version },
  deleteNote: { "query/expectedVersion": digits("1") },
  rateTicket: { "body/score": integer(1, 5), "body/comment": orNull(text(1_000)) },
  listInstallations: page(512),
  listDeliveries: {
    "query/status": queryWord("pending", "delivered", "dead", "all"),
    "query/eventType": queryWord(
      "crm.deal.created.v1",
      "crm.deal.updated.v1",
      "crm.deal.stage_changed.v1",
      "crm.task.created.v1",
      "crm.task.completed.v1"
    ),
    ...page(512)
  },
  replayDeliveries: {
    "body/since": { good: ["2026-11-20T10:00:00.5+01:00", "0001-01-01T00:00:00Z"], bad: instants },
    "body/until": { good: ["2026-11-20T12:00:00Z", "9999-12-31T23:59:59.999Z"], bad: instants },
    "body/status": word("dead", "delivered", "all"),
    "body/eventTypes": subscriptions
  },
  configureWebhook: {
    "body/endpointUrl": {
      good: ["https://shop.example.com/"],
      bad: ["", "x", "/", `https://shop.example.com/${"a".repeat(2_024)}`, null, 1, ["x"], {}].map((url) => [url, ""])
    },
    "body/eventTypes": subscriptions,
    "body/headers": {
      good: [{}, { "x-shop": "1" }, { Authorization: "Bearer a b" }],
      bad: [
        ...[null, "x", 1, ["x"], Object.fromEntries(Array.from({ length: 11 }, (_, n) => [`x-${n}`, "1"]))].map(
          (headers): [unknown, string] => [headers, ""]
        ),
        ...["", "ä", "\n", "\u007f", "a".repeat(1_025), 1, null, ["a"]].map((value): [unknown, string] => [
          { "x-shop": value },
          "/x-shop"
        ]),
        [{ Host: "a" }, "/Host"]
      ]
    },
    "body/expectedVersion": { ...orNull(version), good: [null] }
  },
  rotateWebhookSecret: { "body/expectedVersion": version },
  sendMessage: { "body/text": text(4_096), "body/expectedProjectId": text(160) },
  listSources: { "query/expectedProjectId": queryText(160), ...page(2_048) },
  getConversationSource: { "query/expectedProjectId": queryText(160) },
  getMessage: { "query/expectedProjectId": queryText(160) },
  listCampaigns: {
    "query/status": queryWord("draft", "scheduled", "running", "paused", "completed", "cancelled", "all"),
    ...page(4_096)
  },
  listSegments: page(4_096),
  "patchCampaign rename": { "body/expectedVersion": version, "body/name": text(160) },
  "patchCampaign delete": { "body/expectedVersion": version },
  "patchCampaign bind_template": { "body/templateId": reference("tpl_own"), "body/templateVersion": version },
  "patchCampaign bind_sender": { "body/channelId": reference("chan_own") },
  "patchCampaign set_primary_route": routed,
  "patchCampaign set_fallback_route": routed,
  "patchCampaign schedule": {
    "body/scheduledForLocal": orNull(Values.localTime),
    "body/sendsPerMinute": integer(1, 60_000)
  },
  "patchCampaign duplicate": { "body/name": text(160) },
  "patchCampaign freeze_audience": {
    "body/filter": { good: [everybody], bad: [null, "x", 1, [], true].map((filter) => [filter, ""]) },
    "body/filter/contactStatus": word("active", "archived", "all"),
    "body/filter/segmentId": orNull(reference("seg_own")),
    "body/filter/providerTypes": list,
    "body/filter/requiredTags": list,
    "body/filter/stageIds": list,
    "body/filter/loyaltyCardRequired": Values.flag,
    "body/filter/loyaltyLevelIds": list,
    "body/filter/minimumLoyaltyBalance": orNull(integer(0, 1_000_000_000)),
    "body/filter/readyStampOfferIds": list
  }
}
