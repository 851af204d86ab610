import { Effect } from "effect"
import { HttpApiSchema } from "effect/http-api"
import { etag } from "../api/schema/Fields.ts"
import { commandHandler, groupOf, pageHandler, recordHandler, recordHandlerWith } from "../http/path/Handlers.ts"
import { makeCampaigns, makeListSegments, makeListTemplates } from "./Campaigns.ts"

export const handlers = groupOf(
  "campaigns",
  Effect.all({ segments: makeListSegments, templates: makeListTemplates, campaigns: makeCampaigns }),
  ({ segments, templates, campaigns }, handlers) =>
    handlers({
      listSegments: pageHandler((projectId, { query }) => segments(projectId, query)),
      listTemplates: pageHandler((projectId, { query }) => templates(projectId, query)),
      listCampaigns: pageHandler((projectId, { query }) => campaigns.list(projectId, query)),
      createCampaign: commandHandler((command, { payload }) => campaigns.create(command, payload)),
      getCampaign: recordHandler((projectId, { params }) => campaigns.get(projectId, params.campaignId)),
      getCampaignAudience: recordHandlerWith(
        (projectId, { params }) => campaigns.audience(projectId, params.campaignId),
        ({ audience, version }) => HttpApiSchema.withHeaders({ body: { audience }, headers: { etag: etag(version) } })
      ),
      patchCampaign: commandHandler((command, { params, payload }, { timeZone }) =>
        campaigns.run(command, params.campaignId, payload, timeZone)
      )
    })
)
