import { Effect } from "effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import { Api } from "../api/Api.ts"
import { etag } from "../api/schema/Fields.ts"
import { groupOf, withoutEncoding } from "../platform/requests/Groups.ts"
import {
  commandHandler,
  commandWith,
  pageHandler,
  recordHandler,
  recordHandlerWith
} from "../platform/requests/Handlers.ts"
import { upsertAnswer } from "../platform/requests/Responses.ts"
import { makeClients } from "./Clients.ts"
import { makeDirectory } from "./Directory.ts"
import { makeDeals } from "./Deals.ts"
import { makeNotes } from "./Notes.ts"
import { makeListPipelines } from "./Pipelines.ts"
import { makeListTickets, makeRateTicket } from "./Tickets.ts"

export const clients = groupOf(makeClients, (clients) =>
  HttpApiBuilder.group(Api, "clients", (handlers) =>
    handlers.handleAll(
      withoutEncoding({
        listClients: pageHandler((projectId, { query: { status = "all", ...query } }) =>
          clients.list(projectId, { status, ...query })
        ),
        createClient: commandHandler((command, { payload }) => clients.create(command, payload)),
        getClient: recordHandler((projectId, { params }) => clients.get(projectId, params.clientId)),
        patchClient: commandHandler((command, { params, payload }) => clients.patch(command, params.clientId, payload)),
        upsertClient: commandWith(
          (command, { params, payload }) => clients.upsert(command, params.externalId, payload),
          upsertAnswer
        ),
        getClientAddresses: recordHandlerWith(
          (projectId, { params }) => clients.addresses.get(projectId, params.clientId),
          ({ addresses, version }) =>
            HttpApiSchema.withHeaders({ body: { addresses }, headers: { etag: etag(version) } })
        ),
        putClientAddresses: commandHandler((command, { params, payload }) =>
          clients.addresses.put(command, params.clientId, payload)
        )
      })
    )
  )
)

export const pipelines = groupOf(makeListPipelines, (list) =>
  HttpApiBuilder.group(Api, "pipelines", (handlers) =>
    handlers.handleAll(
      withoutEncoding({ listPipelines: pageHandler((projectId, { query }) => list(projectId, query)) })
    )
  )
)

export const deals = groupOf(makeDeals, (deals) =>
  HttpApiBuilder.group(Api, "deals", (handlers) =>
    handlers.handleAll(
      withoutEncoding({
        listDeals: pageHandler((projectId, { query }) => deals.list(projectId, query)),
        createDeal: commandHandler((command, { payload }) => deals.create(command, payload)),
        getDeal: recordHandler((projectId, { params }) => deals.get(projectId, params.dealId)),
        patchDeal: commandHandler((command, { params, payload }) => deals.patch(command, params.dealId, payload)),
        upsertDeal: commandWith(
          (command, { params, payload }) => deals.upsert(command, params.externalId, payload),
          upsertAnswer
        )
      })
    )
  )
)

export const notes = groupOf(makeNotes, (notes) =>
  HttpApiBuilder.group(Api, "notes", (handlers) =>
    handlers.handleAll(
      withoutEncoding({
        listNotes: pageHandler((projectId, { params, query }) => notes.list(projectId, params.dealId, query)),
        createNote: commandHandler((command, { params, payload }, { keyId }) =>
          notes.create(command, keyId, params.dealId, payload)
        ),
        patchNote: commandHandler((command, { params: { dealId, noteId }, payload }) =>
          notes.patch(command, { dealId, id: noteId }, payload)
        ),
        deleteNote: commandHandler((command, { params: { dealId, noteId }, query }) =>
          notes.remove(command, { dealId, id: noteId }, query.expectedVersion)
        )
      })
    )
  )
)

export const directory = groupOf(makeDirectory, ({ members, organizations }) =>
  HttpApiBuilder.group(Api, "directory", (handlers) =>
    handlers.handleAll(
      withoutEncoding({
        listMembers: pageHandler((projectId, { query }) => members(projectId, query)),
        listOrganizations: pageHandler((projectId, { query }) => organizations(projectId, query))
      })
    )
  )
)

export const tickets = groupOf(Effect.all({ list: makeListTickets, rate: makeRateTicket }), ({ list, rate }) =>
  HttpApiBuilder.group(Api, "tickets", (handlers) =>
    handlers.handleAll(
      withoutEncoding({
        listTickets: pageHandler((projectId, { query }) => list(projectId, query)),
        rateTicket: commandHandler((command, { params, payload }) => rate(command, params.ticketId, payload))
      })
    )
  )
)
