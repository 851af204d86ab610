/** HTTP handlers of tickets. */
import { Effect } from "effect"
import { commandHandler, handlersOf } from "../../platform/requests/Handlers.ts"
import { Tickets } from "../Tickets.ts"

export const handlers = handlersOf("tickets", (define) =>
  Effect.map(Tickets, (tickets) =>
    define({
      rateTicket: commandHandler((command, { params, payload }) => tickets.rate(command, params.ticketId, payload))
    })
  )
)
