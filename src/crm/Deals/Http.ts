/** HTTP handlers of deals. */
import { Effect } from "effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import { Api } from "../../api/Api.ts"
import { Principal } from "../../api/Authentication.ts"
import { command } from "../../platform/idempotency/Idempotency.ts"
import { pageAnswer, receiptAnswer, recordAnswer } from "../../platform/Responses.ts"
import { Deals } from "../Deals.ts"

export const layer = HttpApiBuilder.group(Api, "deals", (handlers) =>
  Effect.map(Deals, (deals) =>
    handlers.handleAll({
      listDeals: ({ query: { cursor, lifecycle, limit, status }, request }) =>
        Principal.use(({ projectId }) =>
          Effect.flatMap(deals.list(projectId, { lifecycle, status, limit, cursor }), (page) =>
            pageAnswer(page, request)
          )
        ),
      createDeal: (request) =>
        Principal.use(({ projectId }) =>
          Effect.map(deals.create(command(projectId, request), request.payload), receiptAnswer)
        ),
      getDeal: ({ params }) =>
        Principal.use(({ projectId }) => Effect.map(deals.get(projectId, params.dealId), recordAnswer)),
      patchDeal: (request) =>
        Principal.use(({ projectId }) =>
          Effect.map(deals.patch(command(projectId, request), request.params.dealId, request.payload), receiptAnswer)
        )
    })
  )
)
