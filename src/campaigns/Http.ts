/** HTTP handlers of campaigns. */
import { Effect } from "effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import { Api } from "../api/Api.ts"
import { Principal } from "../api/Authentication.ts"
import { etag } from "../api/Fields.ts"
import { command } from "../platform/idempotency/Idempotency.ts"
import { pageAnswer, receiptAnswer } from "../platform/Responses.ts"
import { Campaigns } from "./Campaigns.ts"
import { Segments } from "./Segments.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "campaigns",
  Effect.fn(function* (handlers) {
    const segments = yield* Segments
    const campaigns = yield* Campaigns
    return handlers.handleAll({
      listSegments: ({ query: { cursor, limit }, request }) =>
        Principal.use(({ projectId }) =>
          Effect.flatMap(segments.list(projectId, { limit, cursor }), (page) => pageAnswer(page, request))
        ),
      getCampaignAudience: ({ params }) =>
        Principal.use(({ projectId }) =>
          Effect.map(campaigns.current(projectId, params.campaignId), ({ audience, version }) =>
            HttpApiSchema.withHeaders({ body: { audience }, headers: { etag: etag(version) } })
          )
        ),
      patchCampaign: (request) =>
        Principal.use(({ projectId, timeZone }) =>
          Effect.map(
            campaigns.run(command(projectId, request), request.params.campaignId, request.payload, timeZone),
            receiptAnswer
          )
        )
    })
  })
)
