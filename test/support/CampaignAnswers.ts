/** Strict schemas of the answers about campaigns (contract §9). */
import { assert } from "@effect/vitest"
import { Schema } from "effect"
import { assertJson, decodes, pagesOf, Timestamp, versionOf } from "./ContractAnswers.ts"
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
