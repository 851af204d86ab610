/** Clients over HTTP. */
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../../api/Api.ts"
import { Principal } from "../../api/Authentication.ts"
import type { Client } from "../../api/crm/Clients.ts"
import { pageAnswer, receiptAnswer, recordAnswer } from "../../platform/Responses.ts"
import { command } from "../../platform/idempotency/Idempotency.ts"
import { Clients } from "../Clients.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "clients",
  Effect.fn(function* (handlers) {
    const clients = yield* Clients
    return handlers.handleAll({
      listClients: Effect.fnUntraced(function* ({ query: { cursor, limit, status = "all" }, request }) {
        const { projectId } = yield* Principal
        return yield* pageAnswer<Client>(request, yield* clients.list(projectId, { status, limit, cursor }))
      }),
      createClient: Effect.fnUntraced(function* (request) {
        const { projectId } = yield* Principal
        return receiptAnswer(201, yield* clients.create(command(projectId, "createClient", request), request.payload))
      }),
      getClient: Effect.fnUntraced(function* ({ params }) {
        const { projectId } = yield* Principal
        return recordAnswer<Client>(yield* clients.get(projectId, params.clientId))
      }),
      patchClient: Effect.fnUntraced(function* (request) {
        const { projectId } = yield* Principal
        const { params, payload } = request
        return receiptAnswer(
          200,
          yield* clients.patch(command(projectId, "patchClient", request), params.clientId, payload)
        )
      })
    })
  })
)
