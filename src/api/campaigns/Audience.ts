/** The audience of a campaign (contract §9). */
import { Effect, Schema } from "effect"
import { text } from "../Fields.ts"

const ids = Schema.Array(text(1, 160)).check(Schema.isMaxLength(100, { expected: "at most 100 items" }))

const oneOf = ids.annotate({ default: [], description: "At least one of them" })

const balance = Schema.Int.check(
  Schema.isBetween({ minimum: 0, maximum: 1_000_000_000 }, { expected: "an integer from 0 to 1000000000" })
)

/** The filter of an audience. Empty arrays and null do not filter; unknown ids match no client. */
export const AudienceFilter = Schema.Struct({
  contactStatus: Schema.Literals(["active", "archived", "all"]),
  segmentId: Schema.NullOr(text(1, 160))
    .annotate({ default: null, description: "The segment of the candidates; null: all clients of the project" })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed(null))),
  providerTypes: ids.annotate({ description: "Types of providers whose channels count" }),
  requiredTags: ids.annotate({ description: "All of them" }),
  stageIds: ids.annotate({ description: "An active open deal in one of them" }),
  loyaltyCardRequired: Schema.Boolean.annotate({ default: false }).pipe(
    Schema.withDecodingDefaultKey(Effect.succeed(false))
  ),
  loyaltyLevelIds: oneOf.pipe(Schema.withDecodingDefaultKey(Effect.succeed([]))),
  minimumLoyaltyBalance: Schema.NullOr(balance)
    .annotate({ default: null })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed(null))),
  readyStampOfferIds: oneOf.pipe(Schema.withDecodingDefaultKey(Effect.succeed([])))
}).annotate({ identifier: "DeveloperCampaignAudienceFilter" })
export type AudienceFilter = typeof AudienceFilter.Type

/** The reasons for an exclusion, in the order in which they are checked. The first that applies counts. */
export const exclusions = [
  "merged",
  "filter_mismatch",
  "consent_not_granted",
  "suppressed",
  "channel_unavailable",
  "duplicate"
] as const
export type Exclusion = (typeof exclusions)[number]

const count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0, { expected: "an integer from 0" }))

/** The counts of a frozen audience: `candidateCount` is `eligibleCount` plus all exclusions. */
export const Audience = Schema.Struct({
  filter: Schema.toType(AudienceFilter).annotate({ identifier: "DeveloperCampaignAudienceFrozenFilter" }),
  candidateCount: count,
  eligibleCount: count,
  exclusions: Schema.Struct({
    consent_not_granted: count,
    suppressed: count,
    merged: count,
    filter_mismatch: count,
    channel_unavailable: count,
    duplicate: count
  } satisfies Record<Exclusion, typeof count>)
}).annotate({ identifier: "DeveloperCampaignAudience" })
export type Audience = typeof Audience.Type

export const CampaignAudience = Schema.Struct({
  audience: Schema.NullOr(Audience).annotate({ description: "Null until an audience is frozen" })
}).annotate({ identifier: "DeveloperCampaignAudienceCurrentResponse" })
export type CampaignAudience = typeof CampaignAudience.Type
