/** A campaign with its progress, and the endpoints that show it (contract §9). */
import { Schema } from "effect"
import { HttpApiEndpoint, OpenApi } from "effect/http-api"
import { Access, Examples } from "../Access.ts"
import { filterBy, listOf, pageQuery, recordOf } from "../Endpoints.ts"
import { CreatedAt, text, Timestamp, UpdatedAt, Version } from "../schema/Fields.ts"
import { CampaignId, ChannelId, TemplateId } from "../schema/Ids.ts"
import { CampaignNotFound } from "../Problems.ts"
import { CampaignStatus, campaignStatuses } from "./Commands.ts"

const Route = Schema.NullOr(
  Schema.Struct({
    templateId: Schema.NullOr(TemplateId).annotate({ description: "The id of the template; null until it is bound." }),
    templateVersion: Schema.NullOr(Schema.Int).annotate({
      description: "The version of the template, from 1; null until it is bound."
    }),
    channelId: Schema.NullOr(ChannelId).annotate({ description: "The id of the channel; null until it is bound." })
  })
)

const count = (what: string) => Schema.Int.annotate({ description: `The number of recipients ${what}.` })

/** The states of a recipient. A campaign is completed when no recipient is in an open state. */
export const recipientStates = {
  open: ["pending", "sending"],
  final: ["sent", "failed", "unknown", "skipped"]
} as const
type FinalState = (typeof recipientStates.final)[number]

export const failuresMax = 5

export const Progress = Schema.Struct({
  recipients: count("in all, the sum of the other members"),
  pending: count("that are not settled, including those to whom a message is being sent"),
  ...({
    sent: count("whose provider has accepted the message"),
    failed: count("that no route reaches, or whose message the providers refused"),
    unknown: count("whose provider may have accepted the message"),
    skipped: count("that withdrew consent, were suppressed, archived or merged after the freeze")
  } satisfies Record<FinalState, Schema.Top>),
  failures: Schema.Array(
    Schema.Struct({
      errorCode: Schema.String.annotate({
        description: "Why the message was refused, such as `http_403`, or `unreachable` if no route reaches the client."
      }),
      count: count("that failed with this error code")
    })
  ).annotate({
    description: `The ${failuresMax} most frequent error codes of failed recipients, the most frequent first.`
  })
})
export type Progress = typeof Progress.Type

export const Campaign = Schema.Struct({
  id: CampaignId,
  name: text(1, 160).annotate({ description: "The name of the campaign: 1 to 160 characters." }),
  status: CampaignStatus.annotate({
    description:
      "The state. It decides which commands are allowed. `completed` and `cancelled` are final, unless an operator retries the failed recipients of a completed campaign."
  }),
  primaryRoute: Route.annotate({ description: "The route that is tried first; null until a part of it is bound." }),
  fallbackRoute: Route.annotate({
    description:
      "The route that is tried if the primary route refuses, has no address or is revoked; null if there is none."
  }),
  scheduledForLocal: Schema.NullOr(Schema.String).annotate({
    description:
      "The scheduled time, `YYYY-MM-DDThh:mm` in `timeZone`; null if the campaign is not scheduled or was scheduled for now."
  }),
  timeZone: Schema.NullOr(Schema.String).annotate({
    description:
      "The time zone in which the schedule was read, of the IANA database; null until the campaign is scheduled."
  }),
  scheduledAt: Schema.NullOr(Timestamp).annotate({
    description: "The instant that the schedule means; null until the campaign is scheduled."
  }),
  sendsPerMinute: Schema.NullOr(Schema.Int).annotate({
    description: "The maximum number of messages sent per minute, 1 to 60000; null until the campaign is scheduled."
  }),
  startedAt: Schema.NullOr(Timestamp).annotate({ description: "When the campaign began to send; null before that." }),
  endedAt: Schema.NullOr(Timestamp).annotate({
    description: "When the campaign was completed or cancelled; null if it is neither."
  }),
  progress: Progress.annotate({ description: "The number of recipients by state; all 0 until the campaign runs." }),
  version: Version,
  createdAt: CreatedAt,
  updatedAt: UpdatedAt
}).annotate({ identifier: "DeveloperCampaign" })
export type Campaign = typeof Campaign.Type

const CampaignStatusFilter = Schema.Literals([...campaignStatuses, "all"])
export type CampaignStatusFilter = typeof CampaignStatusFilter.Type

const example = {
  id: "cmp_0193f0ce93d47e6f9c3d4e5f60718293",
  name: "Invitation to the spring tasting",
  status: "running",
  primaryRoute: { templateId: "tpl_tasting", templateVersion: 1, channelId: "chan_sandbox" },
  fallbackRoute: null,
  scheduledForLocal: "2026-11-20T11:00",
  timeZone: "Europe/Berlin",
  scheduledAt: "2026-11-20T10:00:00.000Z",
  sendsPerMinute: 60,
  startedAt: "2026-11-20T10:00:00.120Z",
  endedAt: null,
  progress: {
    recipients: 640,
    pending: 519,
    sent: 118,
    failed: 1,
    unknown: 0,
    skipped: 2,
    failures: [{ errorCode: "http_403", count: 1 }]
  },
  version: 6,
  createdAt: "2026-11-18T09:12:00.000Z",
  updatedAt: "2026-11-20T10:00:00.120Z"
}

const path = "/v1/developer/campaigns"
const reading = { scope: "campaigns.read", module: "campaigns", policy: "read" } as const

export const listCampaigns = HttpApiEndpoint.get("listCampaigns", path, {
  ...listOf(Campaign, {
    status: filterBy(CampaignStatusFilter.literals, "all"),
    ...pageQuery(4096)
  })
})
  .annotate(Access, reading)
  .annotate(Examples, { answer: { items: [example], nextCursor: null } })
  .annotate(OpenApi.Summary, "List campaigns")
  .annotate(OpenApi.Description, "Lists the project's campaigns, newest first, each with its state and progress.")

export const getCampaign = HttpApiEndpoint.get("getCampaign", `${path}/:campaignId`, {
  params: { campaignId: CampaignId },
  ...recordOf(Campaign, CampaignNotFound)
})
  .annotate(Access, reading)
  .annotate(Examples, { answer: example })
  .annotate(OpenApi.Summary, "Get a campaign")
  .annotate(
    OpenApi.Description,
    "Reads a campaign: its state and its progress. The states `completed` and `cancelled` are final. The `etag` is the version of the " +
      "campaign, which `rename` and `delete` take as `expectedVersion`. A campaign with the id `audience-segments` or `templates` is " +
      "shown by `listCampaigns` alone."
  )
