/** Assertions on answers about campaigns (contract §9). */
import { assert } from "@effect/vitest"
import { Schema } from "effect"
import { CampaignAudience } from "../../src/api/campaigns/Audience.ts"
import { Campaign } from "../../src/api/campaigns/Campaign.ts"
import { Segment, Template } from "../../src/api/campaigns/Campaigns.ts"
import { assertJson, decodes, pagesOf, recordOf, versionOf } from "./ContractAnswers.ts"
import type { Answer } from "./ContractHttp.ts"

export const templatePageOf = pagesOf(Schema.toEncoded(Template))
export const segmentPageOf = pagesOf(Schema.toEncoded(Segment))

const CampaignShape = Schema.toEncoded(Campaign).check(
  Schema.makeFilter(
    ({ progress: { failed, pending, recipients, sent, skipped, unknown } }) =>
      recipients === pending + sent + failed + unknown + skipped,
    { expected: "recipients as the sum of the other members" }
  ),
  Schema.makeFilter(
    ({ progress: { failed, failures } }) => failures.reduce((sum, { count }) => sum + count, 0) <= failed,
    { expected: "no more failures than failed recipients" }
  ),
  Schema.makeFilter(
    ({ scheduledAt, scheduledForLocal, timeZone }) =>
      (scheduledAt === null) === (timeZone === null) && (scheduledForLocal === null || scheduledAt !== null),
    { expected: "a time zone and an instant exactly when it is scheduled" }
  ),
  Schema.makeFilter(
    ({ endedAt, status }) => (status === "completed" || status === "cancelled") === (endedAt !== null),
    { expected: "an end exactly when it is completed or cancelled" }
  ),
  Schema.makeFilter(
    ({ scheduledForLocal }) =>
      scheduledForLocal === null || /^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}$/.test(scheduledForLocal),
    { expected: "a local time to the minute" }
  )
)

export const campaignOf = recordOf(CampaignShape)
export const campaignPageOf = pagesOf(CampaignShape)

const decodeAudience = decodes(Schema.toEncoded(CampaignAudience))

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
