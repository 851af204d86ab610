/** Tickets over HTTP. */
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../../api/Api.ts"
import { Principal } from "../../api/Authentication.ts"
import { command } from "../../platform/idempotency/Idempotency.ts"
import { receiptAnswer } from "../../platform/Responses.ts"
import { Tickets } from "../Tickets.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "tickets",
  Effect.fn(function* (handlers) {
    const tickets = yield* Tickets
    return handlers.handleAll({
      rateTicket: Effect.fnUntraced(function* (request) {
        const { projectId } = yield* Principal
        const { params, payload } = request
        return receiptAnswer(
          200,
          yield* tickets.rate(command(projectId, "rateTicket", request), params.ticketId, payload)
        )
      })
    })
  })
)
