import { Effect } from "effect"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import { Principal } from "../api/Authentication.ts"
import { etag } from "../api/schema/Fields.ts"
import { commandHandler, handlersOf, pageHandler, recordHandler } from "../platform/requests/Handlers.ts"
import { makeCampaigns } from "./Campaigns.ts"
import { makeListSegments } from "./Segments.ts"

export const handlers = handlersOf(
  "campaigns",
  Effect.fn(function* (define) {
    const segments = yield* makeListSegments
    const campaigns = yield* makeCampaigns
    return define({
      listSegments: pageHandler((projectId, { query }) => segments(projectId, query)),
      listCampaigns: pageHandler((projectId, { query }) => campaigns.list(projectId, query)),
      getCampaign: recordHandler((projectId, { params }) => campaigns.get(projectId, params.campaignId)),
      getCampaignAudience: ({ params }) =>
        Principal.use(({ projectId }) =>
          Effect.map(campaigns.current(projectId, params.campaignId), ({ audience, version }) =>
            HttpApiSchema.withHeaders({ body: { audience }, headers: { etag: etag(version) } })
          )
        ),
      patchCampaign: commandHandler((command, { params, payload }, { timeZone }) =>
        campaigns.run(command, params.campaignId, payload, timeZone)
      )
    })
  })
)
