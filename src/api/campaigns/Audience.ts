/** The filter of a campaign's audience, and the numbers of clients that it selects and leaves out (contract §9). */
import { Effect, Schema } from "effect"
import { text } from "../schema/Fields.ts"

const ids = Schema.Array(text(1, 160)).check(Schema.isMaxLength(100, { expected: "at most 100 items" }))

const oneOf = (what: string) =>
  ids
    .annotate({ default: [], description: `${what}: at most 100 ids of 1 to 160 characters; empty does not filter.` })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed([])))

const balance = Schema.Int.check(
  Schema.isBetween({ minimum: 0, maximum: 1_000_000_000 }, { expected: "an integer from 0 to 1000000000" })
)

/** The filter of an audience. Empty arrays and null do not filter; unknown ids match no client. */
export const AudienceFilter = Schema.Struct({
  contactStatus: Schema.Literals(["active", "archived", "all"]).annotate({
    description: "The status of the clients; `all` does not filter."
  }),
  segmentId: Schema.NullOr(text(1, 160))
    .annotate({
      default: null,
      description:
        "The id of the segment whose clients are the candidates, 1 to 160 characters; null for all clients of the project."
    })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed(null))),
  providerTypes: ids.annotate({
    description:
      "A client must be reachable over a channel of one of these provider types: at most 100, each of 1 to 160 characters; empty does not filter."
  }),
  requiredTags: ids.annotate({
    description:
      "The tags that a client must have, all of them: at most 100, each of 1 to 160 characters; empty does not filter."
  }),
  stageIds: ids.annotate({
    description:
      "A client must have an active open deal on one of these stages: at most 100 ids of 1 to 160 characters; empty does not filter."
  }),
  loyaltyCardRequired: Schema.Boolean.annotate({
    default: false,
    description: "Whether a client must have a loyalty card; false does not filter."
  }).pipe(Schema.withDecodingDefaultKey(Effect.succeed(false))),
  loyaltyLevelIds: oneOf("A client must have one of these loyalty levels"),
  minimumLoyaltyBalance: Schema.NullOr(balance)
    .annotate({
      default: null,
      description: "The minimum loyalty balance of a client, in points from 0 to 1,000,000,000; null does not filter."
    })
    .pipe(Schema.withDecodingDefaultKey(Effect.succeed(null))),
  readyStampOfferIds: oneOf("One of these stamp offers must be ready for the client")
}).annotate({ identifier: "DeveloperCampaignAudienceFilter" })
export type AudienceFilter = typeof AudienceFilter.Type

/** The reasons for an exclusion, in the order in which they are checked. Only the first reason that applies is counted. */
export const exclusions = [
  "merged",
  "filter_mismatch",
  "consent_not_granted",
  "suppressed",
  "channel_unavailable",
  "duplicate"
] as const
type Exclusion = (typeof exclusions)[number]

const count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0, { expected: "an integer from 0" }))
const countOf = (what: string) => count.annotate({ description: `The number of ${what}, from 0.` })

/**
 * The filter and the counts of an audience at the time when its recipients were stored (frozen). `candidateCount` is
 * `eligibleCount` plus all exclusions.
 */
export const Audience = Schema.Struct({
  filter: Schema.toType(AudienceFilter)
    .annotate({ identifier: "DeveloperCampaignAudienceFrozenFilter" })
    .annotateKey({ description: "The filter that the audience was frozen with." }),
  candidateCount: countOf("candidates: the clients of the segment, or of the project"),
  eligibleCount: countOf("clients that the campaign is sent to"),
  exclusions: Schema.Struct({
    consent_not_granted: countOf("clients without a consent to marketing"),
    suppressed: countOf("clients whose address is suppressed"),
    merged: countOf("clients that were merged into others"),
    filter_mismatch: countOf("clients that the filter leaves out"),
    channel_unavailable: countOf("clients without an address on an active channel of one of `providerTypes`"),
    duplicate: countOf("clients that share an address with an earlier eligible client")
  } satisfies Record<Exclusion, typeof count>).annotate({
    description: "The candidates that are left out, each counted under the first reason that applies."
  })
}).annotate({ identifier: "DeveloperCampaignAudience" })
export type Audience = typeof Audience.Type

export const CampaignAudience = Schema.Struct({
  audience: Schema.NullOr(Audience).annotate({
    description: "The audience that was frozen last; null if none was frozen."
  })
}).annotate({ identifier: "DeveloperCampaignAudienceCurrentResponse" })
export type CampaignAudience = typeof CampaignAudience.Type
