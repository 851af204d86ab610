/** HTTP handlers of clients. */
import { Effect } from "effect"
import { commandHandler, handlersOf, pageHandler, recordHandler } from "../../platform/requests/Handlers.ts"
import { Clients } from "../Clients.ts"

export const handlers = handlersOf("clients", (define) =>
  Effect.map(Clients, (clients) =>
    define({
      listClients: pageHandler((projectId, { query: { cursor, limit, status = "all" } }) =>
        clients.list(projectId, { status, limit, cursor })
      ),
      createClient: commandHandler((command, { payload }) => clients.create(command, payload)),
      getClient: recordHandler((projectId, { params }) => clients.get(projectId, params.clientId)),
      patchClient: commandHandler((command, { params, payload }) => clients.patch(command, params.clientId, payload))
    })
  )
)
