/** The fields, changes of status, rules and endpoints of deals (contract §7). */
import { Schema, Struct } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { Access, Changing, Examples } from "../Access.ts"
import { batchBody, batchExample, batchOf, batchResults, identified } from "./Batches.ts"
import {
  changeBy,
  creationBy,
  filterBy,
  listOf,
  mutationProblems,
  pageQuery,
  RecordMutationHeaders,
  recordOf,
  UpsertConditions,
  upsertReceipt
} from "../Endpoints.ts"
import {
  AmountMinor,
  CalendarDate,
  CreatedAt,
  Currency,
  Instant,
  text,
  Timestamp,
  UpdatedAt,
  Version
} from "../schema/Fields.ts"
import { ClientId, DealId, MemberId, OrganizationId, PipelineId, StageId } from "../schema/Ids.ts"
import {
  DealNotFound,
  DealReferenceNotFound,
  DealStatusInvalid,
  ExternalIdTaken,
  PreconditionFailed
} from "../Problems.ts"
import { JsonBody, MaxBody } from "../Requests.ts"
import { machine, targetsOf } from "../schema/States.ts"

/** A move out of `open` sets `closedAt`. A move back to `open` clears `closedAt` and `lostReason`. */
export const dealStatuses = machine({
  states: ["open", "won", "lost"],
  moves: { win: { open: "won" }, lose: { open: "lost" }, reopen: { won: "open", lost: "open" } }
})
export const DealStatus = Schema.Literals(dealStatuses.states)
export type DealStatus = typeof DealStatus.Type

export const DealLifecycle = Schema.Literals(["active", "archived"])
export type DealLifecycle = typeof DealLifecycle.Type

/** The fields that callers write, with their types in the API, the project file and imports. */
export const dealFields = {
  title: text(1, 160).annotate({ description: "What the deal is about: 1 to 160 characters." }),
  clientId: Schema.NullOr(ClientId).annotate({
    description: "The id of the client with whom the deal is made; null if there is none."
  }),
  organizationId: Schema.NullOr(OrganizationId).annotate({
    description: "The id of the organization with which the deal is made; null if there is none."
  }),
  pipelineId: PipelineId.annotate({ description: "The id of the pipeline that the deal is in." }),
  stageId: StageId.annotate({ description: "The id of the stage that the deal is on, a stage of its pipeline." }),
  status: DealStatus.annotate({ description: "The outcome: `open` until the deal is won or lost." }),
  lifecycle: DealLifecycle.annotate({
    description: "Whether the deal is in use; an archived deal keeps its status and is listed only on request."
  }),
  amountMinor: Schema.NullOr(AmountMinor).annotate({
    description:
      "The amount in minor units of `currency`, from 0 to 2^53-1: 12.50 EUR is 1250; null if there is no amount."
  }),
  currency: Schema.NullOr(Currency).annotate({
    description:
      "The currency of `amountMinor`, a current code of ISO 4217 in capitals; null exactly when `amountMinor` is null."
  }),
  expectedCloseDate: Schema.NullOr(CalendarDate).annotate({
    description: "The date on which the deal is expected to close, `YYYY-MM-DD`; null if none is expected."
  }),
  responsibleMemberId: Schema.NullOr(MemberId).annotate({
    description: "The id of the member who is responsible for the deal; null if nobody is."
  }),
  lostReason: Schema.NullOr(text(1, 500)).annotate({
    description: "Why the deal was lost: 1 to 500 characters; null if no reason is given or the deal is not lost."
  }),
  externalId: Schema.NullOr(text(1, 160)).annotate({
    description:
      "The id of the deal in another system: 1 to 160 characters; null if it has none. No other deal of the project has it."
  })
}

/** The fields that `createDeal` does not take. They begin with fixed values, and a patch changes them. */
const setByPatch = ["status", "lifecycle", "lostReason"] as const

export const Deal = Schema.Struct({
  id: DealId,
  ...dealFields,
  closedAt: Schema.NullOr(Timestamp).annotate({ description: "When the deal was won or lost; null while it is open." }),
  version: Version,
  createdAt: CreatedAt,
  updatedAt: UpdatedAt
}).annotate({ identifier: "DeveloperDeal" })
export type Deal = typeof Deal.Type

/** The rules between the fields of a deal, by the field that is reported, and the rule of an upsert that finds no deal. */
export const dealRules = {
  currency: "is required with an amount",
  amountMinor: "is required with a currency",
  lostReason: "must be null unless the deal is lost",
  title: "is required, as no deal has this externalId"
} as const

const isSet = (value: unknown) => value !== undefined && value !== null

/** Returns the field that is missing if only one of amount and currency is set. */
export const missingOfMoney = (deal: { readonly amountMinor?: unknown; readonly currency?: unknown }) =>
  isSet(deal.amountMinor) === isSet(deal.currency) ? undefined : isSet(deal.currency) ? "amountMinor" : "currency"

export const DealCreate = Schema.Struct({
  title: dealFields.title,
  ...Struct.map(Struct.omit(dealFields, ["title", ...setByPatch]), Schema.optionalKey)
})
  .check(
    Schema.makeFilter(
      (deal) => {
        const member = missingOfMoney(deal)
        return member === undefined ? undefined : { path: [member], issue: dealRules[member] }
      },
      // This rule is checked even if members have faults.
      { "~structural": true }
    )
  )
  .annotate({ identifier: "DeveloperDealCreate" })
export type DealCreate = typeof DealCreate.Type

export const DealPatch = Schema.Struct(Struct.map(dealFields, Schema.optionalKey))
  .check(Schema.isMinProperties(1, { expected: "at least one member to change" }))
  .annotate({ identifier: "DeveloperDealPatch" })
export type DealPatch = typeof DealPatch.Type

/** The body of an upsert, whose external id is in the path. */
export const DealUpsert = Schema.Struct(
  Struct.map(Struct.omit(dealFields, ["externalId"]), Schema.optionalKey)
).annotate({ identifier: "DeveloperDealUpsert" })
export type DealUpsert = typeof DealUpsert.Type

export const DealBatch = batchOf(
  "Deal",
  Schema.Struct({ ...identified, ...DealUpsert.fields }).annotate({ identifier: "DeveloperDealBatchItem" })
)
export type DealBatch = typeof DealBatch.Type

const DealFilters = Schema.Struct({
  lifecycle: filterBy([...DealLifecycle.literals, "all"], "active"),
  status: filterBy([...DealStatus.literals, "all"], "all"),
  ...Struct.map(
    { externalId: text(1, 160), clientId: ClientId, stageId: StageId, updatedSince: Instant },
    Schema.optionalKey
  )
})
export type DealFilters = typeof DealFilters.Type

/** Has no external id, so that it can be sent again. */
const createExample = {
  title: "Espresso machines for the harbour",
  clientId: "cli_mara",
  amountMinor: 1250000,
  currency: "EUR",
  expectedCloseDate: "2026-12-15"
}

export const dealExample = {
  id: "deal_0193f0c9b2c37d5e8f60718293a4b5c6",
  ...createExample,
  externalId: "order-1042",
  organizationId: null,
  pipelineId: "pipe_sales",
  stageId: "stage_new",
  status: "open",
  lifecycle: "active",
  responsibleMemberId: null,
  lostReason: null,
  closedAt: null,
  version: 1,
  createdAt: "2026-11-20T10:00:00.000Z",
  updatedAt: "2026-11-20T10:00:00.000Z"
}

const receiptExample = { resourceId: dealExample.id, changed: true }

const moves = dealStatuses.states
  .map(
    (from) =>
      `\`${from}\` → ${targetsOf(dealStatuses, from)
        .map((to) => `\`${to}\``)
        .join(" or ")}`
  )
  .join(", ")

const upsertProblems = [DealReferenceNotFound, DealStatusInvalid] as const

const path = "/v1/developer/crm/deals"

export class DealsGroup extends HttpApiGroup.make("deals")
  .add(
    HttpApiEndpoint.get("listDeals", path, {
      ...listOf(Deal, { ...DealFilters.fields, ...pageQuery(512) })
    })
      .annotate(Access, { scope: "crm.deals.read", module: "crm", policy: "read" })
      .annotate(Examples, { answer: { items: [dealExample], nextCursor: null } })
      .annotate(OpenApi.Summary, "List deals")
      .annotate(
        OpenApi.Description,
        "Lists the project's deals, newest first. By default, `lifecycle` is `active` and `status` is `all`; the filters combine. With " +
          "`updatedSince`, it lists the deals that have changed since then, in the order of their changes: to follow all changes, begin again " +
          "60 s before the newest `updatedAt` that was read, with `lifecycle=all`."
      ),
    HttpApiEndpoint.post("createDeal", path, {
      payload: DealCreate,
      ...creationBy(RecordMutationHeaders, DealReferenceNotFound, ExternalIdTaken)
    })
      .middleware(JsonBody)
      .annotate(Access, { scope: "crm.deals.write", module: "crm", policy: "write" })
      .annotate(Examples, { request: createExample, answer: receiptExample })
      .annotate(OpenApi.Summary, "Create a deal")
      .annotate(
        OpenApi.Description,
        "Creates an open deal. Without `pipelineId`, it is on the project's default pipeline; without `stageId`, on the first stage of " +
          "the pipeline. Amount and currency are set together or not at all. An `externalId` that another deal has is refused. Emits `crm.deal.created.v1`."
      ),
    HttpApiEndpoint.get("getDeal", `${path}/:dealId`, {
      params: { dealId: DealId },
      ...recordOf(Deal, DealNotFound)
    })
      .annotate(Access, { scope: "crm.deals.read", module: "crm", policy: "read" })
      .annotate(Examples, { answer: dealExample })
      .annotate(OpenApi.Summary, "Get a deal")
      .annotate(OpenApi.Description, "Reads one deal by its id, archived ones included. The `etag` is its version."),
    HttpApiEndpoint.patch("patchDeal", `${path}/:dealId`, {
      params: { dealId: DealId },
      payload: DealPatch,
      ...changeBy(RecordMutationHeaders, DealNotFound, DealReferenceNotFound, DealStatusInvalid, ExternalIdTaken)
    })
      .middleware(JsonBody)
      .annotate(Access, { scope: "crm.deals.write", module: "crm", policy: "write" })
      .annotate(Examples, { request: { status: "lost", lostReason: "No budget this year" }, answer: receiptExample })
      .annotate(OpenApi.Summary, "Change a deal")
      .annotate(
        OpenApi.Description,
        "Changes the given members of a deal, for example its stage. An absent member keeps its value, `null` clears it. Rules between " +
          "members apply to the resulting deal. " +
          `The status can move ${moves}. A move to \`won\` or \`lost\` sets \`closedAt\`; a move to \`open\` clears \`closedAt\` and \`lostReason\`. ` +
          "A new `pipelineId` without a `stageId` moves the deal to the first stage of that pipeline. A change emits `crm.deal.updated.v1`, and " +
          "also `crm.deal.stage_changed.v1` if the stage changed. A patch that changes nothing answers `changed: false`."
      ),
    HttpApiEndpoint.put("upsertDeal", `${path}/by-external-id/:externalId`, {
      params: { externalId: text(1, 160) },
      headers: { ...RecordMutationHeaders, ...UpsertConditions },
      payload: DealUpsert,
      success: upsertReceipt,
      error: [...mutationProblems, PreconditionFailed, ...upsertProblems]
    })
      .middleware(JsonBody)
      .annotate(Access, { scope: "crm.deals.write", module: "crm", policy: "write" })
      .annotate(Examples, { request: { title: "Order 1042", stageId: "stage_new" }, answer: receiptExample })
      .annotate(OpenApi.Summary, "Create or change a deal by its external id")
      .annotate(
        OpenApi.Description,
        "Changes the given members of the deal with this external id, by the rules of patchDeal (200). If no deal has it, creates one, for " +
          "which `title` is required (201). Two upserts at the same time make one deal. Emits the events of a create or a patch."
      ),
    HttpApiEndpoint.post("batchDeals", `${path}/batch`, {
      headers: RecordMutationHeaders,
      payload: DealBatch,
      success: batchResults("Deal", upsertProblems),
      error: mutationProblems
    })
      .middleware(JsonBody)
      .annotate(MaxBody, batchBody)
      .annotate(Changing, true)
      .annotate(Access, { scope: "crm.deals.write", module: "crm", policy: "write" })
      .annotate(Examples, {
        request: {
          items: [
            { externalId: "order-1042", title: "Order 1042", amountMinor: 1250000, currency: "EUR" },
            { externalId: "order-1043", status: "won" }
          ]
        },
        answer: batchExample(dealExample.id, ["order-1042", "order-1043"], "title", dealRules.title)
      })
      .annotate(OpenApi.Summary, "Create or change up to 100 deals by their external ids")
      .annotate(
        OpenApi.Description,
        "Runs 1 to 100 upserts, each as upsertDeal with the `externalId` of its item; one that fails stops no other. Answers the outcome of each, " +
          "in their order. The same request with the same key answers what has succeeded as it was, and tries the rest again. It costs one of " +
          "the rate limit for ten items or part of ten."
      )
  )
  .annotate(OpenApi.Title, "CRM deals")
  .annotate(OpenApi.Description, "Deals in pipelines, with their stages and amounts. Their changes emit events.") {}
