import { Effect } from "effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import { Api } from "../api/Api.ts"
import { Principal } from "../api/Authentication.ts"
import { etag } from "../api/schema/Fields.ts"
import { commandHandler, pageHandler, recordHandler } from "../platform/requests/Handlers.ts"
import { sentAsIs } from "../platform/requests/SentAsIs.ts"
import { makeCampaigns } from "./Campaigns.ts"
import { makeListSegments } from "./Segments.ts"

export const handlers = HttpApiBuilder.group(
  Api,
  "campaigns",
  Effect.fnUntraced(function* (handlers) {
    const segments = yield* makeListSegments
    const campaigns = yield* makeCampaigns
    return handlers.handleAll(
      sentAsIs({
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
    )
  })
)
