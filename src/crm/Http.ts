import { Effect } from "effect"
import { commandHandler, handlersOf, pageHandler, recordHandler } from "../platform/requests/Handlers.ts"
import { makeClients } from "./Clients.ts"
import { makeDeals } from "./Deals.ts"
import { makeNotes } from "./Notes.ts"
import { makeListPipelines } from "./Pipelines.ts"
import { makeRateTicket } from "./Tickets.ts"

export const clients = handlersOf("clients", (define) =>
  Effect.map(makeClients, (clients) =>
    define({
      listClients: pageHandler((projectId, { query: { status = "all", ...query } }) =>
        clients.list(projectId, { status, ...query })
      ),
      createClient: commandHandler((command, { payload }) => clients.create(command, payload)),
      getClient: recordHandler((projectId, { params }) => clients.get(projectId, params.clientId)),
      patchClient: commandHandler((command, { params, payload }) => clients.patch(command, params.clientId, payload))
    })
  )
)

export const pipelines = handlersOf("pipelines", (define) =>
  Effect.map(makeListPipelines, (list) =>
    define({ listPipelines: pageHandler((projectId, { query }) => list(projectId, query)) })
  )
)

export const deals = handlersOf("deals", (define) =>
  Effect.map(makeDeals, (deals) =>
    define({
      listDeals: pageHandler((projectId, { query }) => deals.list(projectId, query)),
      createDeal: commandHandler((command, { payload }) => deals.create(command, payload)),
      getDeal: recordHandler((projectId, { params }) => deals.get(projectId, params.dealId)),
      patchDeal: commandHandler((command, { params, payload }) => deals.patch(command, params.dealId, payload))
    })
  )
)

export const notes = handlersOf("notes", (define) =>
  Effect.map(makeNotes, (notes) =>
    define({
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

export const tickets = handlersOf("tickets", (define) =>
  Effect.map(makeRateTicket, (rate) =>
    define({
      rateTicket: commandHandler((command, { params, payload }) => rate(command, params.ticketId, payload))
    })
  )
)
