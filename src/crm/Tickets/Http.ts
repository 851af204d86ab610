/** HTTP handlers of tickets. */
import { Effect } from "effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import { Api } from "../../api/Api.ts"
import { commandHandler } from "../../platform/Handlers.ts"
import { Tickets } from "../Tickets.ts"

export const layer = HttpApiBuilder.group(Api, "tickets", (handlers) =>
  Effect.map(Tickets, (tickets) =>
    handlers.handleAll({
      rateTicket: commandHandler((command, { params, payload }) => tickets.rate(command, params.ticketId, payload))
    })
  )
)
