/** HTTP handlers of campaigns. */
import { Effect } from "effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import { Api } from "../api/Api.ts"
import { Principal } from "../api/Authentication.ts"
import { etag } from "../api/Fields.ts"
import { commandHandler, pageHandler } from "../platform/Handlers.ts"
import { Campaigns } from "./Campaigns.ts"
import { Segments } from "./Segments.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "campaigns",
  Effect.fn(function* (handlers) {
    const segments = yield* Segments
    const campaigns = yield* Campaigns
    return handlers.handleAll({
      listSegments: pageHandler((projectId, { query: { cursor, limit } }) =>
        segments.list(projectId, { limit, cursor })
      ),
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
