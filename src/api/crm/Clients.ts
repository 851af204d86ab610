/** The fields and endpoints of clients, the contacts of a project (contract §7). */
import { Schema, Struct } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { Access, Changing, Destructive, Examples } from "../Access.ts"
import { getClientAddresses, putClientAddresses } from "./Addresses.ts"
import { batchBody, batchExample, batchOf, batchResults, identified } from "./Batches.ts"
import {
  changeBy,
  creationBy,
  listOf,
  mutationProblems,
  pageQuery,
  RecordMutationHeaders,
  recordOf,
  UpsertConditions,
  upsertReceipt
} from "../Endpoints.ts"
import { CreatedAt, Email, Instant, Phone, text, Timestamp, UpdatedAt, Version } from "../schema/Fields.ts"
import { ClientId, MemberId, OrganizationId } from "../schema/Ids.ts"
import {
  ClientArchived,
  ClientNotFound,
  ContactCapacityExhausted,
  ExternalIdTaken,
  MemberNotFound,
  OrganizationArchived,
  OrganizationNotFound,
  PreconditionFailed
} from "../Problems.ts"
import { JsonBody, MaxBody } from "../Requests.ts"

const ClientStatus = Schema.Literals(["active", "archived"])

/** The fields that callers write, with their types in the API, the project file and imports. */
export const clientFields = {
  displayName: text(1, 160).annotate({ description: "The name under which the client is shown: 1 to 160 characters." }),
  firstName: Schema.NullOr(text(1, 100)).annotate({
    description: "The first name: 1 to 100 characters; null if it is unknown."
  }),
  lastName: Schema.NullOr(text(1, 100)).annotate({
    description: "The last name: 1 to 100 characters; null if it is unknown."
  }),
  email: Schema.NullOr(Email).annotate({
    description: "The mail address, at most 254 characters. Several clients may share it. Null if it is unknown."
  }),
  phone: Schema.NullOr(Phone).annotate({
    description: "The phone number in E.164 form, `+` and 2 to 15 digits; null if it is unknown."
  }),
  tags: Schema.Array(text(1, 160))
    .check(
      Schema.isMaxLength(100, { expected: "at most 100 tags" }),
      Schema.isUnique({ expected: "tags without repeats" })
    )
    .annotate({ description: "The tags, without repeats: at most 100, each of 1 to 160 characters." }),
  externalId: Schema.NullOr(text(1, 160)).annotate({
    description:
      "The id of the client in another system: 1 to 160 characters; null if it has none. No other client of the project has it."
  }),
  marketingConsent: Schema.Boolean.annotate({
    description: "Whether the client agreed to marketing. Campaigns send only to clients who did; false at first."
  }),
  suppressed: Schema.Boolean.annotate({
    description: "Whether no campaign may send to the client, whatever the consent; false at first."
  }),
  organizationId: Schema.NullOr(OrganizationId).annotate({
    description: "The id of the organization that the client belongs to; null if there is none."
  }),
  responsibleMemberId: Schema.NullOr(MemberId).annotate({
    description: "The id of the member who is responsible for the client; null if nobody is."
  }),
  status: ClientStatus.annotate({
    description: "Whether the client is in use; only active clients count towards the contact capacity of the project."
  })
}

/** The fields that `createClient` does not take. They begin with fixed values, and a patch changes them. */
const setByPatch = ["organizationId", "responsibleMemberId", "status"] as const

export const Client = Schema.Struct({
  id: ClientId,
  ...clientFields,
  version: Version,
  createdAt: CreatedAt,
  updatedAt: UpdatedAt,
  archivedAt: Schema.NullOr(Timestamp).annotate({
    description: "When the client was archived; null while it is active."
  })
}).annotate({ identifier: "DeveloperClient" })
export type Client = typeof Client.Type

export const ClientCreate = Schema.Struct({
  displayName: clientFields.displayName,
  ...Struct.map(Struct.omit(clientFields, ["displayName", ...setByPatch]), Schema.optionalKey)
}).annotate({ identifier: "DeveloperClientCreate" })
export type ClientCreate = typeof ClientCreate.Type

export const ClientPatch = Schema.Struct(Struct.map(clientFields, Schema.optionalKey))
  .check(Schema.isMinProperties(1, { expected: "at least one member to change" }))
  .annotate({ identifier: "DeveloperClientPatch" })
export type ClientPatch = typeof ClientPatch.Type

/** The body of an upsert, whose external id is in the path. */
export const ClientUpsert = Schema.Struct(
  Struct.map(Struct.omit(clientFields, ["externalId"]), Schema.optionalKey)
).annotate({ identifier: "DeveloperClientUpsert" })
export type ClientUpsert = typeof ClientUpsert.Type

export const ClientBatch = batchOf(
  "Client",
  Schema.Struct({ ...identified, ...ClientUpsert.fields }).annotate({ identifier: "DeveloperClientBatchItem" })
)
export type ClientBatch = typeof ClientBatch.Type

/** What is reported at `displayName` if an upsert without it finds no client. */
export const clientRules = { displayName: "is required, as no client has this externalId" } as const

const clientFilters = Struct.map(
  { externalId: text(1, 160), email: Email, phone: Phone, updatedSince: Instant },
  Schema.optionalKey
)
export interface ClientFilters {
  readonly status: ClientStatusFilter
  readonly externalId?: string | undefined
  readonly email?: string | undefined
  readonly phone?: string | undefined
  readonly updatedSince?: string | undefined
}

export const ClientStatusFilter = Schema.Literals(["active", "archived", "all"]).annotate({ default: "all" })
export type ClientStatusFilter = typeof ClientStatusFilter.Type

/** Has no external id, so that it can be sent again. */
const createExample = {
  displayName: "Ada Lovelace",
  firstName: "Ada",
  lastName: "Lovelace",
  email: "ada@example.com",
  phone: "+442071838750",
  tags: ["newsletter"],
  marketingConsent: true
}

export const clientExample = {
  id: "cli_0193f0c8a1b27c4d9e5f60718293a4b5",
  ...createExample,
  externalId: "crm-1815",
  suppressed: false,
  organizationId: null,
  responsibleMemberId: null,
  status: "active",
  version: 1,
  createdAt: "2026-11-20T10:00:00.000Z",
  updatedAt: "2026-11-20T10:00:00.000Z",
  archivedAt: null
}

const receiptExample = { resourceId: clientExample.id, changed: true }

const upsertProblems = [
  MemberNotFound,
  OrganizationNotFound,
  ClientArchived,
  OrganizationArchived,
  ContactCapacityExhausted
] as const

const path = "/v1/developer/crm/clients"

export class ClientsGroup extends HttpApiGroup.make("clients")
  .add(
    HttpApiEndpoint.get(
      "listClients",
      path,
      listOf(Client, { status: Schema.optionalKey(ClientStatusFilter), ...clientFilters, ...pageQuery(512) })
    )
      .annotate(Access, { scope: "crm.clients.read", module: "crm", policy: "read" })
      .annotate(Examples, { answer: { items: [clientExample], nextCursor: null } })
      .annotate(OpenApi.Summary, "List clients")
      .annotate(
        OpenApi.Description,
        "Lists the project's clients, newest first. The filters combine. With `updatedSince`, it lists the clients that have changed since then, " +
          "in the order of their changes: to follow all but erasures, begin again 60 s before the newest `updatedAt` read. There is no " +
          "search by name."
      ),
    HttpApiEndpoint.post("createClient", path, {
      payload: ClientCreate,
      ...creationBy(RecordMutationHeaders, ContactCapacityExhausted, ExternalIdTaken)
    })
      .middleware(JsonBody)
      .annotate(Access, { scope: "crm.clients.write", module: "crm", policy: "write" })
      .annotate(Examples, { request: createExample, answer: receiptExample })
      .annotate(OpenApi.Summary, "Create a client")
      .annotate(
        OpenApi.Description,
        "Creates an active client, unless the project's contact capacity is exhausted, or another client has the `externalId`. Other duplicates " +
          "are not searched for."
      ),
    HttpApiEndpoint.get("getClient", `${path}/:clientId`, {
      params: { clientId: ClientId },
      ...recordOf(Client, ClientNotFound)
    })
      .annotate(Access, { scope: "crm.clients.read", module: "crm", policy: "read" })
      .annotate(Examples, { answer: clientExample })
      .annotate(OpenApi.Summary, "Get a client")
      .annotate(OpenApi.Description, "Reads one client by its id, archived ones included. The `etag` is its version."),
    HttpApiEndpoint.patch("patchClient", `${path}/:clientId`, {
      params: { clientId: ClientId },
      payload: ClientPatch,
      ...changeBy(
        RecordMutationHeaders,
        ClientNotFound,
        MemberNotFound,
        OrganizationNotFound,
        ClientArchived,
        OrganizationArchived,
        ContactCapacityExhausted,
        ExternalIdTaken
      )
    })
      .middleware(JsonBody)
      .annotate(Access, { scope: "crm.clients.write", module: "crm", policy: "write" })
      .annotate(Examples, { request: { tags: ["newsletter", "vip"], phone: null }, answer: receiptExample })
      .annotate(OpenApi.Summary, "Change a client")
      .annotate(
        OpenApi.Description,
        "Changes the given members of a client. An absent member keeps its value, `null` clears it. An archived client accepts only the body " +
          '`{"status":"active"}`, and only if the contact capacity allows another active client. A patch that changes nothing answers `changed: false`.'
      ),
    HttpApiEndpoint.put("upsertClient", `${path}/by-external-id/:externalId`, {
      params: { externalId: text(1, 160) },
      headers: { ...RecordMutationHeaders, ...UpsertConditions },
      payload: ClientUpsert,
      success: upsertReceipt,
      error: [...mutationProblems, PreconditionFailed, ...upsertProblems]
    })
      .middleware(JsonBody)
      .annotate(Access, { scope: "crm.clients.write", module: "crm", policy: "write" })
      .annotate(Examples, {
        request: { displayName: "Ada Lovelace", email: "ada@example.com" },
        answer: receiptExample
      })
      .annotate(OpenApi.Summary, "Create or change a client by its external id")
      .annotate(
        OpenApi.Description,
        "Changes the given members of the client with this external id, by the rules of patchClient (200). If no client has it, creates one, " +
          "for which `displayName` is required (201). Two upserts at the same time make one client."
      ),
    HttpApiEndpoint.post("batchClients", `${path}/batch`, {
      headers: RecordMutationHeaders,
      payload: ClientBatch,
      success: batchResults("Client", upsertProblems),
      error: mutationProblems
    })
      .middleware(JsonBody)
      .annotate(MaxBody, batchBody)
      .annotate(Changing, true)
      .annotate(Access, { scope: "crm.clients.write", module: "crm", policy: "write" })
      .annotate(Examples, {
        request: {
          items: [
            { externalId: "crm-1815", displayName: "Ada Lovelace", email: "ada@example.com" },
            { externalId: "crm-1906", marketingConsent: true }
          ]
        },
        answer: batchExample(clientExample.id, ["crm-1815", "crm-1906"], "displayName", clientRules.displayName)
      })
      .annotate(OpenApi.Summary, "Create or change up to 100 clients by their external ids")
      .annotate(
        OpenApi.Description,
        "Runs 1 to 100 upserts, each as upsertClient with the `externalId` of its item; one that fails stops no other. Answers the outcome of each, " +
          "in their order. The same request with the same key answers what has succeeded as it was, and tries the rest again. It costs one of " +
          "the rate limit for ten items or part of ten."
      ),
    HttpApiEndpoint.delete("eraseClient", `${path}/:clientId`, {
      params: { clientId: ClientId },
      ...changeBy(RecordMutationHeaders, ClientNotFound)
    })
      .annotate(Access, { scope: "crm.clients.write", module: "crm", policy: "write" })
      .annotate(Destructive, true)
      .annotate(Examples, { answer: receiptExample })
      .annotate(OpenApi.Summary, "Erase a client")
      .annotate(OpenApi.Description, "Removes a client and what identifies it. Its deals and tickets stay."),
    getClientAddresses,
    putClientAddresses
  )
  .annotate(OpenApi.Title, "CRM clients")
  .annotate(OpenApi.Description, "The contacts of a project.") {}
