/** HTTP handlers of tickets. */
import { Effect } from "effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import { Api } from "../../api/Api.ts"
import { Principal } from "../../api/Authentication.ts"
import { command } from "../../platform/idempotency/Idempotency.ts"
import { receiptAnswer } from "../../platform/Responses.ts"
import { Tickets } from "../Tickets.ts"

export const layer = HttpApiBuilder.group(Api, "tickets", (handlers) =>
  Effect.map(Tickets, (tickets) =>
    handlers.handleAll({
      rateTicket: (request) =>
        Principal.use(({ projectId }) =>
          Effect.map(tickets.rate(command(projectId, request), request.params.ticketId, request.payload), receiptAnswer)
        )
    })
  )
)
