import { Effect } from "effect"
import { HttpApiSchema } from "effect/http-api"
import { itemsPerToken } from "../api/crm/Batches.ts"
import { etag } from "../api/schema/Fields.ts"
import { type Command, command } from "../commands/Command.ts"
import {
  batchAnswer,
  type Batched,
  commandHandler,
  commandWith,
  groupOf,
  pageHandler,
  recordHandler,
  recordHandlerWith,
  upsertAnswer
} from "../http/path/Handlers.ts"
import { makeCharge } from "../http/limits/RateLimits.ts"
import { makeClients } from "./Clients.ts"
import { makeListMembers, makeListOrganizations, makeListPipelines } from "./Directory.ts"
import { makeDeals } from "./Deals.ts"
import { makeNotes } from "./Notes.ts"
import { makeListTickets, makeRateTicket } from "./Tickets.ts"

/** Makes a function that runs a batch, after it has taken what the batch costs. */
const makeBatchHandler = Effect.map(
  makeCharge,
  (charge) =>
    <
      Request extends Parameters<typeof command>[1] & { readonly payload: { readonly items: ReadonlyArray<object> } },
      Done,
      E
    >(
      run: (command: Command, request: Request) => Effect.Effect<Batched<Done>, E>
    ) =>
      commandWith(
        (command, request: Request) =>
          Effect.andThen(charge(Math.ceil(request.payload.items.length / itemsPerToken)), run(command, request)),
        batchAnswer<Done>
      )
)

export const clients = groupOf(
  "clients",
  Effect.all([makeClients, makeBatchHandler]),
  ([clients, batchHandler], handlers) =>
    handlers({
      listClients: pageHandler((projectId, { query: { status = "all", ...query } }) =>
        clients.list(projectId, { status, ...query })
      ),
      createClient: commandHandler((command, { payload }) => clients.create(command, payload)),
      getClient: recordHandler((projectId, { params }) => clients.get(projectId, params.clientId)),
      patchClient: commandHandler((command, { params, payload }) => clients.patch(command, params.clientId, payload)),
      eraseClient: commandHandler((command, { params }) => clients.erase(command, params.clientId)),
      upsertClient: commandWith(
        (command, { params, payload }) => clients.upsert(command, params.externalId, payload),
        upsertAnswer
      ),
      batchClients: batchHandler((command, { payload }) => clients.batch(command, payload)),
      getClientAddresses: recordHandlerWith(
        (projectId, { params }) => clients.addresses.get(projectId, params.clientId),
        ({ addresses, version }) => HttpApiSchema.withHeaders({ body: { addresses }, headers: { etag: etag(version) } })
      ),
      putClientAddresses: commandHandler((command, { params, payload }) =>
        clients.addresses.put(command, params.clientId, payload)
      )
    })
)

export const deals = groupOf("deals", Effect.all([makeDeals, makeBatchHandler]), ([deals, batchHandler], handlers) =>
  handlers({
    listDeals: pageHandler((projectId, { query }) => deals.list(projectId, query)),
    createDeal: commandHandler((command, { payload }) => deals.create(command, payload)),
    getDeal: recordHandler((projectId, { params }) => deals.get(projectId, params.dealId)),
    patchDeal: commandHandler((command, { params, payload }) => deals.patch(command, params.dealId, payload)),
    upsertDeal: commandWith(
      (command, { params, payload }) => deals.upsert(command, params.externalId, payload),
      upsertAnswer
    ),
    batchDeals: batchHandler((command, { payload }) => deals.batch(command, payload))
  })
)

export const notes = groupOf("notes", makeNotes, (notes, handlers) =>
  handlers({
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

export const directory = groupOf(
  "directory",
  Effect.all([makeListMembers, makeListOrganizations]),
  ([members, organizations], handlers) =>
    handlers({
      listMembers: pageHandler((projectId, { query }) => members(projectId, query)),
      listOrganizations: pageHandler((projectId, { query }) => organizations(projectId, query))
    })
)

export const pipelines = groupOf("pipelines", makeListPipelines, (list, handlers) =>
  handlers({ listPipelines: pageHandler((projectId, { query }) => list(projectId, query)) })
)

export const tickets = groupOf(
  "tickets",
  Effect.all({ list: makeListTickets, rate: makeRateTicket }),
  ({ list, rate }, handlers) =>
    handlers({
      listTickets: pageHandler((projectId, { query }) => list(projectId, query)),
      rateTicket: commandHandler((command, { params, payload }) => rate(command, params.ticketId, payload))
    })
)
