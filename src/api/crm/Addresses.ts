/** The addresses of a client on channels, with their endpoints (contract §7). */
import { Schema } from "effect"
import { HttpApiEndpoint, OpenApi } from "effect/http-api"
import { Access, Examples } from "../Access.ts"
import { changeBy, RecordMutationHeaders, recordOf } from "../Endpoints.ts"
import { text } from "../schema/Fields.ts"
import { ChannelId, ClientId } from "../schema/Ids.ts"
import { ChannelNotFound, ClientArchived, ClientNotFound } from "../Problems.ts"
import { JsonBody } from "../Requests.ts"

/** An address, with its types in the API and the project file. */
export const Address = Schema.Struct({
  channelId: ChannelId.annotate({
    description: "The id of the channel that reaches the address: the `channelId` of a source of listSources."
  }),
  address: text(1, 500).annotate({
    description: "The client's address on the channel, in the form of its provider: 1 to 500 characters."
  })
}).annotate({ identifier: "DeveloperClientAddress" })

/** The addresses of an answer. A project file can give a client more of them than a request. */
export const ClientAddresses = Schema.Struct({
  addresses: Schema.Array(Address).annotate({
    description: "The addresses in their order. Of several on one channel, a campaign sends to the first."
  })
}).annotate({ identifier: "DeveloperClientAddresses" })
export type ClientAddresses = typeof ClientAddresses.Type

const ClientAddressesPut = Schema.Struct({
  addresses: Schema.Array(Address)
    .check(
      Schema.isMaxLength(20, { expected: "at most 20 addresses" }),
      Schema.isUnique({ expected: "addresses without repeats" })
    )
    .annotate({
      description:
        "All addresses in their order, without repeats: at most 20. Of several on one channel, a campaign sends to the first."
    })
}).annotate({ identifier: "DeveloperClientAddressesPut" })

const example = { addresses: [{ channelId: "chan_sandbox", address: "mara" }] }

const path = "/v1/developer/crm/clients/:clientId/addresses"

export const getClientAddresses = HttpApiEndpoint.get("getClientAddresses", path, {
  params: { clientId: ClientId },
  ...recordOf(ClientAddresses, ClientNotFound)
})
  .annotate(Access, { scope: "crm.clients.read", module: "crm", policy: "read" })
  .annotate(Examples, { answer: example })
  .annotate(OpenApi.Summary, "Get the addresses of a client")
  .annotate(
    OpenApi.Description,
    "Reads the addresses at which campaigns reach a client. The `etag` is the version of the client."
  )

export const putClientAddresses = HttpApiEndpoint.put("putClientAddresses", path, {
  params: { clientId: ClientId },
  payload: ClientAddressesPut,
  ...changeBy(RecordMutationHeaders, ClientNotFound, ChannelNotFound, ClientArchived)
})
  .middleware(JsonBody)
  .annotate(Access, { scope: "crm.clients.write", module: "crm", policy: "write" })
  .annotate(Examples, { request: example, answer: { resourceId: "cli_mara", changed: false } })
  .annotate(OpenApi.Summary, "Replace the addresses of a client")
  .annotate(
    OpenApi.Description,
    "Replaces all addresses of a client, and raises its version. If they are the same, `changed` is false. Campaigns reach a client who " +
      "has an address and `marketingConsent`. An archived client is refused. No event is emitted."
  )
