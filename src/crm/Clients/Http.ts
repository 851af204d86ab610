/** HTTP handlers of clients. */
import { Effect } from "effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import { Api } from "../../api/Api.ts"
import { commandHandler, pageHandler, recordHandler } from "../../platform/Handlers.ts"
import { Clients } from "../Clients.ts"

export const layer = HttpApiBuilder.group(Api, "clients", (handlers) =>
  Effect.map(Clients, (clients) =>
    handlers.handleAll({
      listClients: pageHandler((projectId, { query: { cursor, limit, status = "all" } }) =>
        clients.list(projectId, { status, limit, cursor })
      ),
      createClient: commandHandler((command, { payload }) => clients.create(command, payload)),
      getClient: recordHandler((projectId, { params }) => clients.get(projectId, params.clientId)),
      patchClient: commandHandler((command, { params, payload }) => clients.patch(command, params.clientId, payload))
    })
  )
)
