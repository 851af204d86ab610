/** HTTP handlers of clients. */
import { Effect } from "effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import { Api } from "../../api/Api.ts"
import { Principal } from "../../api/Authentication.ts"
import { command } from "../../platform/idempotency/Idempotency.ts"
import { pageAnswer, receiptAnswer, recordAnswer } from "../../platform/Responses.ts"
import { Clients } from "../Clients.ts"

export const layer = HttpApiBuilder.group(Api, "clients", (handlers) =>
  Effect.map(Clients, (clients) =>
    handlers.handleAll({
      listClients: ({ query: { cursor, limit, status = "all" }, request }) =>
        Principal.use(({ projectId }) =>
          Effect.flatMap(clients.list(projectId, { status, limit, cursor }), (page) => pageAnswer(page, request))
        ),
      createClient: (request) =>
        Principal.use(({ projectId }) =>
          Effect.map(clients.create(command(projectId, request), request.payload), receiptAnswer)
        ),
      getClient: ({ params }) =>
        Principal.use(({ projectId }) => Effect.map(clients.get(projectId, params.clientId), recordAnswer)),
      patchClient: (request) =>
        Principal.use(({ projectId }) =>
          Effect.map(
            clients.patch(command(projectId, request), request.params.clientId, request.payload),
            receiptAnswer
          )
        )
    })
  )
)
