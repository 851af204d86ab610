/** Assertions on answers about installations, webhooks and deliveries (contract §10). */
import { Schema } from "effect"
import { Delivery, DeliveryDetails } from "../../src/api/integrations/Deliveries.ts"
import { Installation } from "../../src/api/integrations/Installations.ts"
import { Webhook } from "../../src/api/integrations/WebhookHealth.ts"
import { assertJson, decodes, pagesOf, recordOf } from "./ContractAnswers.ts"
import type { Answer } from "./ContractHttp.ts"

export const installationPageOf = pagesOf(Schema.toEncoded(Installation))

/** Asserts that an answer is a webhook with its version as `ETag`. */
export const webhookOf = recordOf(
  Schema.toEncoded(Webhook).check(
    Schema.makeFilter(({ disabledReason, enabled }) => enabled === (disabledReason === null), {
      expected: "a reason exactly while it is disabled"
    }),
    Schema.makeFilter(({ health }) => health.nextAttemptAt === null || health.pending > 0, {
      expected: "a next attempt only while something is pending"
    }),
    Schema.makeFilter(({ health }) => health.pending <= 10_000, { expected: "a count of at most 10,000" })
  )
)

const isEnded = Schema.makeFilter(
  ({
    finishedAt,
    nextAttemptAt,
    status
  }: {
    finishedAt: string | null
    nextAttemptAt: string | null
    status: string
  }) => (status === "pending" ? finishedAt === null : finishedAt !== null && nextAttemptAt === null),
  { expected: "an end, and no next attempt, exactly unless it is pending" }
)

export const deliveryPageOf = pagesOf(Schema.toEncoded(Delivery).check(isEnded))

const decodeDelivery = decodes(Schema.toEncoded(DeliveryDetails).check(isEnded))

/** Asserts that an answer is a delivery with its event and its attempts. */
export const deliveryOf = (answer: Answer) => {
  assertJson(answer, 200)
  return decodeDelivery(answer.json)
}
