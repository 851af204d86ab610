/** HTTP handlers of deals. */
import { Effect } from "effect"
import { commandHandler, handlersOf, pageHandler, recordHandler } from "../../platform/requests/Handlers.ts"
import { Deals } from "../Deals.ts"

export const handlers = handlersOf("deals", (define) =>
  Effect.map(Deals, (deals) =>
    define({
      listDeals: pageHandler((projectId, { query: { cursor, lifecycle, limit, status } }) =>
        deals.list(projectId, { lifecycle, status, limit, cursor })
      ),
      createDeal: commandHandler((command, { payload }) => deals.create(command, payload)),
      getDeal: recordHandler((projectId, { params }) => deals.get(projectId, params.dealId)),
      patchDeal: commandHandler((command, { params, payload }) => deals.patch(command, params.dealId, payload))
    })
  )
)
