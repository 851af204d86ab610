/** Campaigns over HTTP. */
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../api/Api.ts"
import { Principal } from "../api/Authentication.ts"
import type { CampaignAudience } from "../api/campaigns/Audience.ts"
import type { Segment } from "../api/campaigns/Campaigns.ts"
import { etag } from "../api/Fields.ts"
import { command } from "../platform/idempotency/Idempotency.ts"
import { jsonAnswer, pageAnswer, receiptAnswer } from "../platform/Responses.ts"
import { Campaigns } from "./Campaigns.ts"
import { Segments } from "./Segments.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "campaigns",
  Effect.fn(function* (handlers) {
    const segments = yield* Segments
    const campaigns = yield* Campaigns
    return handlers.handleAll({
      listSegments: Effect.fnUntraced(function* ({ query: { cursor, limit }, request }) {
        const { projectId } = yield* Principal
        return yield* pageAnswer<Segment>(request, yield* segments.list(projectId, { limit, cursor }))
      }),
      getCampaignAudience: Effect.fnUntraced(function* ({ params }) {
        const { projectId } = yield* Principal
        const { audience, version } = yield* campaigns.current(projectId, params.campaignId)
        return jsonAnswer(200, { audience } satisfies CampaignAudience, { etag: etag(version) })
      }),
      patchCampaign: Effect.fnUntraced(function* (request) {
        const { projectId, timeZone } = yield* Principal
        const { params, payload } = request
        return receiptAnswer(
          200,
          yield* campaigns.run(command(projectId, "patchCampaign", request), params.campaignId, payload, timeZone)
        )
      })
    })
  })
)
