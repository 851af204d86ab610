/** HTTP handlers of deals. */
import { Effect } from "effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import { Api } from "../../api/Api.ts"
import { commandHandler, pageHandler, recordHandler } from "../../platform/Handlers.ts"
import { Deals } from "../Deals.ts"

export const layer = HttpApiBuilder.group(Api, "deals", (handlers) =>
  Effect.map(Deals, (deals) =>
    handlers.handleAll({
      listDeals: pageHandler((projectId, { query: { cursor, lifecycle, limit, status } }) =>
        deals.list(projectId, { lifecycle, status, limit, cursor })
      ),
      createDeal: commandHandler((command, { payload }) => deals.create(command, payload)),
      getDeal: recordHandler((projectId, { params }) => deals.get(projectId, params.dealId)),
      patchDeal: commandHandler((command, { params, payload }) => deals.patch(command, params.dealId, payload))
    })
  )
)
