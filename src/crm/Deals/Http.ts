/** Deals over HTTP. */
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../../api/Api.ts"
import { Principal } from "../../api/Authentication.ts"
import type { Deal } from "../../api/crm/Deals.ts"
import { command } from "../../platform/idempotency/Idempotency.ts"
import { pageAnswer, receiptAnswer, recordAnswer } from "../../platform/Responses.ts"
import { Deals } from "../Deals.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "deals",
  Effect.fn(function* (handlers) {
    const deals = yield* Deals
    return handlers.handleAll({
      listDeals: Effect.fnUntraced(function* ({ query: { cursor, lifecycle, limit, status }, request }) {
        const { projectId } = yield* Principal
        return yield* pageAnswer<Deal>(request, yield* deals.list(projectId, { lifecycle, status, limit, cursor }))
      }),
      createDeal: Effect.fnUntraced(function* (request) {
        const { projectId } = yield* Principal
        return receiptAnswer(201, yield* deals.create(command(projectId, "createDeal", request), request.payload))
      }),
      getDeal: Effect.fnUntraced(function* ({ params }) {
        const { projectId } = yield* Principal
        return recordAnswer<Deal>(yield* deals.get(projectId, params.dealId))
      }),
      patchDeal: Effect.fnUntraced(function* (request) {
        const { projectId } = yield* Principal
        const { params, payload } = request
        return receiptAnswer(200, yield* deals.patch(command(projectId, "patchDeal", request), params.dealId, payload))
      })
    })
  })
)
