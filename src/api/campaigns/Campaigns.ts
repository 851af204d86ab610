/** Endpoints of segments and campaigns. One endpoint takes all commands (contract §9). */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { Access, Destructive, Examples } from "../Access.ts"
import { changeBy, creationBy, listOf, MutationHeaders, pageQuery, recordOf } from "../Endpoints.ts"
import { CreatedAt, text, UpdatedAt } from "../schema/Fields.ts"
import { CampaignId, SegmentId, TemplateId } from "../schema/Ids.ts"
import {
  CampaignNotFound,
  CampaignNotReady,
  CampaignReferenceNotFound,
  CampaignStateConflict,
  ScheduleInvalid,
  VersionConflict
} from "../Problems.ts"
import { JsonBody } from "../Requests.ts"
import { CampaignAudience } from "./Audience.ts"
import { getCampaign, listCampaigns } from "./Campaign.ts"
import { CampaignCommand, CampaignCreate, describeMoves, type Operation, operations } from "./Commands.ts"

/** A named list of clients that a campaign can select as its candidates. */
export const Segment = Schema.Struct({
  id: SegmentId,
  name: text(1, 160).annotate({ description: "The name of the segment: 1 to 160 characters." }),
  description: Schema.NullOr(text(0, 1000)).annotate({
    description: "What the segment is for: at most 1000 characters; null if it has no description."
  }),
  contactCount: Schema.Int.annotate({ description: "The number of its clients, archived and merged ones included." }),
  createdAt: CreatedAt,
  updatedAt: UpdatedAt
}).annotate({ identifier: "DeveloperCampaignSegment" })
export type Segment = typeof Segment.Type

/** A version of a template of messages. */
export const Template = Schema.Struct({
  id: TemplateId,
  version: Schema.Int.annotate({ description: "The version, from 1. A route names it as `templateVersion`." }),
  name: text(1, 160).annotate({ description: "The name of the template: 1 to 160 characters." }),
  body: text(1, 4096).annotate({ description: "The text of the message: 1 to 4096 characters." })
}).annotate({ identifier: "DeveloperCampaignTemplate" })
export type Template = typeof Template.Type

const filterExample = {
  contactStatus: "active",
  segmentId: "seg_tasting",
  providerTypes: ["sandbox"],
  requiredTags: ["newsletter"],
  stageIds: [],
  loyaltyCardRequired: false,
  loyaltyLevelIds: [],
  minimumLoyaltyBalance: null,
  readyStampOfferIds: []
}

const segmentExample = {
  id: "seg_tasting",
  name: "Tasting last spring",
  description: "Whoever came to the tasting",
  contactCount: 812,
  createdAt: "2026-11-20T10:00:00.000Z",
  updatedAt: "2026-11-20T10:00:00.000Z"
}

const audienceExample = {
  filter: filterExample,
  candidateCount: 812,
  eligibleCount: 640,
  exclusions: {
    consent_not_granted: 51,
    suppressed: 4,
    merged: 7,
    filter_mismatch: 88,
    channel_unavailable: 19,
    duplicate: 3
  }
}

const route = { templateId: "tpl_tasting", templateVersion: 1, channelId: "chan_sandbox" }

/** An example of each command. Viewers show the first. */
const commandExamples: { readonly [O in Operation]: { readonly operation: O; readonly [member: string]: unknown } } = {
  freeze_audience: { operation: "freeze_audience", filter: filterExample },
  rename: { operation: "rename", expectedVersion: 1, name: "Invitation to the spring tasting" },
  bind_template: { operation: "bind_template", templateId: route.templateId, templateVersion: route.templateVersion },
  bind_sender: { operation: "bind_sender", channelId: route.channelId },
  set_primary_route: { operation: "set_primary_route", ...route },
  set_fallback_route: { operation: "set_fallback_route", ...route },
  remove_fallback_route: { operation: "remove_fallback_route" },
  schedule: { operation: "schedule", scheduledForLocal: "2030-04-02T10:00", sendsPerMinute: 60 },
  duplicate: { operation: "duplicate", name: "Invitation to the autumn tasting" },
  pause: { operation: "pause" },
  resume: { operation: "resume" },
  cancel: { operation: "cancel" },
  delete: { operation: "delete", expectedVersion: 1 }
}

const path = "/v1/developer/campaigns"
const reading = { scope: "campaigns.read", module: "campaigns", policy: "read" } as const

const table = operations.map((operation) => `- \`${operation}\`: ${describeMoves(operation)}`).join("\n")

export class CampaignsGroup extends HttpApiGroup.make("campaigns")
  .add(
    HttpApiEndpoint.get("listSegments", `${path}/audience-segments`, listOf(Segment, pageQuery(4096)))
      .annotate(Access, reading)
      .annotate(Examples, { answer: { items: [segmentExample], nextCursor: null } })
      .annotate(OpenApi.Summary, "List the audience segments")
      .annotate(
        OpenApi.Description,
        "Lists the segments, newest first. An audience can have the clients of a segment as its candidates."
      ),
    HttpApiEndpoint.get("listTemplates", `${path}/templates`, listOf(Template, pageQuery(4096)))
      .annotate(Access, reading)
      .annotate(Examples, {
        answer: {
          items: [{ id: "tpl_tasting", version: 1, name: "Tasting", body: "Come and taste our new roasts." }],
          nextCursor: null
        }
      })
      .annotate(OpenApi.Summary, "List the templates")
      .annotate(
        OpenApi.Description,
        "Lists the versions of the project's templates, ordered by id, the newest version first. A route of a campaign names a " +
          "template by its `id` and `version`."
      ),
    listCampaigns,
    HttpApiEndpoint.post("createCampaign", path, {
      payload: CampaignCreate,
      ...creationBy(MutationHeaders)
    })
      .middleware(JsonBody)
      .annotate(Access, { scope: "campaigns.write", module: "campaigns", policy: "write" })
      .annotate(Examples, {
        request: { name: "Invitation to the spring tasting" },
        answer: { resourceId: "cmp_0193f0ce93d47e6f9c3d4e5f60718293", changed: true }
      })
      .annotate(OpenApi.Summary, "Create a campaign")
      .annotate(
        OpenApi.Description,
        "Creates a campaign as a draft without routes and audience. `patchCampaign` composes and schedules it. `resourceId` is its id."
      ),
    getCampaign,
    HttpApiEndpoint.get("getCampaignAudience", `${path}/:campaignId/audience`, {
      params: { campaignId: CampaignId },
      ...recordOf(CampaignAudience, CampaignNotFound)
    })
      .annotate(Access, reading)
      .annotate(Examples, { answer: { audience: audienceExample } })
      .annotate(OpenApi.Summary, "Get the frozen audience")
      .annotate(
        OpenApi.Description,
        "Reads how many recipients a campaign has: the counts of the audience that was frozen last, without the identities of recipients. The `etag` is the " +
          "version of the campaign, which `rename` and `delete` take as `expectedVersion`."
      ),
    HttpApiEndpoint.patch("patchCampaign", `${path}/:campaignId`, {
      params: { campaignId: CampaignId },
      payload: CampaignCommand,
      ...changeBy(
        MutationHeaders,
        CampaignNotFound,
        CampaignReferenceNotFound,
        CampaignStateConflict,
        CampaignNotReady,
        VersionConflict,
        ScheduleInvalid
      )
    })
      .middleware(JsonBody)
      .annotate(Access, { scope: "campaigns.write", module: "campaigns", policy: "write" })
      .annotate(Destructive, true)
      .annotate(Examples, {
        requests: commandExamples,
        answer: { resourceId: "cmp_0193f0ce93d47e6f9c3d4e5f60718293", changed: true }
      })
      .annotate(OpenApi.Summary, "Command a campaign")
      .annotate(
        OpenApi.Description,
        "Changes, schedules, pauses, resumes, cancels, copies or deletes a campaign: runs the command that `operation` " +
          "selects. Each command is allowed in these states, and moves the campaign as " +
          `shown:\n\n${table}\n\nIn every other state the command answers \`campaign_state_conflict\`. A command that ` +
          "changes nothing answers `changed: false`; `freeze_audience` always takes a new snapshot, in up to 30 s. If there are several " +
          "conflicts, the first in this order is reported: state, version, references (missing ones, then a revoked channel), schedule, readiness.\n\n" +
          "`schedule` takes a time in the project's time zone, or null for now. A past time, an impossible date, or a " +
          "time that a change to daylight-saving time skips is `schedule_invalid`; of a time that occurs twice, the earlier " +
          "one is meant. `schedule` needs a complete primary route and a frozen audience with eligible recipients. `duplicate` copies the " +
          "routes. Without a `name`, the copy gets the old name with ` copy` added. `resourceId` and `etag` belong to the copy."
      )
  )
  .annotate(OpenApi.Title, "Campaigns")
  .annotate(
    OpenApi.Description,
    "Segments, campaigns with their progress and their commands, and the counts of frozen audiences."
  ) {}
