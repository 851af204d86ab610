/** Strict schemas of the answers about campaigns (contract §9). */
import { assert } from "@effect/vitest"
import { Schema } from "effect"
import { assertJson, decodes, pagesOf, recordOf, Timestamp, versionOf } from "./ContractAnswers.ts"
import type { Answer } from "./ContractHttp.ts"

const Count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

export const segmentPageOf = pagesOf(
  Schema.Struct({
    id: Schema.NonEmptyString,
    name: Schema.NonEmptyString,
    description: Schema.NullOr(Schema.String),
    contactCount: Count,
    createdAt: Timestamp,
    updatedAt: Timestamp
  })
)

const Route = Schema.NullOr(
  Schema.Struct({
    templateId: Schema.NullOr(Schema.NonEmptyString),
    templateVersion: Schema.NullOr(Schema.Int),
    channelId: Schema.NullOr(Schema.NonEmptyString)
  })
)

const CampaignShape = Schema.Struct({
  id: Schema.NonEmptyString,
  name: Schema.NonEmptyString,
  status: Schema.Literals(["draft", "scheduled", "running", "paused", "completed", "cancelled"]),
  primaryRoute: Route,
  fallbackRoute: Route,
  scheduledForLocal: Schema.NullOr(
    Schema.String.check(Schema.isPattern(/^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}$/))
  ),
  sendsPerMinute: Schema.NullOr(Schema.Int),
  startedAt: Schema.NullOr(Timestamp),
  endedAt: Schema.NullOr(Timestamp),
  progress: Schema.Struct({
    recipients: Count,
    pending: Count,
    sent: Count,
    failed: Count,
    unknown: Count,
    skipped: Count
  }).check(
    Schema.makeFilter(
      ({ failed, pending, recipients, sent, skipped, unknown }) =>
        recipients === pending + sent + failed + unknown + skipped,
      { expected: "recipients as the sum of the other members" }
    )
  ),
  version: Schema.Int,
  createdAt: Timestamp,
  updatedAt: Timestamp
}).check(
  Schema.makeFilter(
    ({ endedAt, status }) => (status === "completed" || status === "cancelled") === (endedAt !== null),
    { expected: "an end exactly when it is completed or cancelled" }
  )
)

export const campaignOf = recordOf(CampaignShape)
export const campaignPageOf = pagesOf(CampaignShape)

const FilterShape = Schema.Struct({
  contactStatus: Schema.Literals(["active", "archived", "all"]),
  segmentId: Schema.NullOr(Schema.NonEmptyString),
  providerTypes: Schema.Array(Schema.NonEmptyString),
  requiredTags: Schema.Array(Schema.NonEmptyString),
  stageIds: Schema.Array(Schema.NonEmptyString),
  loyaltyCardRequired: Schema.Boolean,
  loyaltyLevelIds: Schema.Array(Schema.NonEmptyString),
  minimumLoyaltyBalance: Schema.NullOr(Count),
  readyStampOfferIds: Schema.Array(Schema.NonEmptyString)
})

const AudienceShape = Schema.Struct({
  filter: FilterShape,
  candidateCount: Count,
  eligibleCount: Count,
  exclusions: Schema.Struct({
    consent_not_granted: Count,
    suppressed: Count,
    merged: Count,
    filter_mismatch: Count,
    channel_unavailable: Count,
    duplicate: Count
  })
})
export type AudienceShape = typeof AudienceShape.Type

const decodeAudience = decodes(Schema.Struct({ audience: Schema.NullOr(AudienceShape) }))

/** Asserts that an answer is the audience of a campaign with consistent counts; returns it with the campaign's version. */
export const audienceOf = (answer: Answer) => {
  assertJson(answer, 200)
  const { audience } = decodeAudience(answer.json)
  if (audience !== null) {
    const excluded = Object.values(audience.exclusions).reduce((sum, count) => sum + count, 0)
    assert.strictEqual(audience.candidateCount, audience.eligibleCount + excluded, answer.text)
  }
  return { audience, version: versionOf(answer) }
}
