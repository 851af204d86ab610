/** Strict schemas of the answers about installations, webhooks and deliveries (contract §10). */
import { Schema } from "effect"
import { assertJson, decodes, pagesOf, recordOf, Timestamp } from "./ContractAnswers.ts"
import type { Answer } from "./ContractHttp.ts"

const Count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))
const Version = Schema.Int.check(Schema.isGreaterThanOrEqualTo(1))
const nullable = Schema.NullOr(Schema.NonEmptyString)
const time = Schema.NullOr(Timestamp)
const Types = Schema.Literals([
  "crm.deal.created.v1",
  "crm.deal.updated.v1",
  "crm.deal.stage_changed.v1",
  "crm.task.created.v1",
  "crm.task.completed.v1"
])

export const installationPageOf = pagesOf(
  Schema.Struct({
    id: Schema.NonEmptyString,
    name: Schema.NonEmptyString,
    profileVersion: Schema.NullOr(Version),
    webhook: Schema.NullOr(Schema.Struct({ enabled: Schema.Boolean, version: Version }))
  })
)

const HealthShape = Schema.Struct({
  state: Schema.Literals(["unused", "healthy", "failing", "parked", "resting"]),
  failuresInARow: Count,
  failingSince: time,
  lastSuccessAt: time,
  nextAttemptAt: time,
  pending: Count.check(Schema.isLessThanOrEqualTo(10_000)),
  lastFailure: Schema.NullOr(
    Schema.Struct({ at: Timestamp, statusCode: Schema.NullOr(Schema.Int), errorCode: nullable })
  )
}).check(
  Schema.makeFilter(({ nextAttemptAt, pending }) => nextAttemptAt === null || pending > 0, {
    expected: "a next attempt only while something is pending"
  })
)

/** Asserts that an answer is a webhook with its version as `ETag`. */
export const webhookOf = recordOf(
  Schema.Struct({
    installationId: Schema.NonEmptyString,
    endpointUrl: Schema.NonEmptyString,
    eventTypes: Schema.NonEmptyArray(Types),
    enabled: Schema.Boolean,
    disabledReason: Schema.NullOr(Schema.Literals(["gone", "failing", "operator"])),
    version: Version,
    updatedAt: Timestamp,
    secrets: Schema.Array(Schema.Struct({ createdAt: Timestamp, signsUntil: time })),
    health: HealthShape
  }).check(
    Schema.makeFilter(({ disabledReason, enabled }) => enabled === (disabledReason === null), {
      expected: "a reason exactly while it is disabled"
    })
  )
)

const deliveryFields = {
  id: Schema.NonEmptyString,
  eventId: Schema.NonEmptyString,
  eventType: Types,
  status: Schema.Literals(["pending", "delivered", "dead"]),
  attempts: Count,
  nextAttemptAt: time,
  lastStatusCode: Schema.NullOr(Schema.Int),
  lastErrorCode: nullable,
  replayOf: nullable,
  createdAt: Timestamp,
  finishedAt: time
}

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

export const deliveryPageOf = pagesOf(Schema.Struct(deliveryFields).check(isEnded))

const decodeDelivery = decodes(
  Schema.Struct({
    ...deliveryFields,
    event: Schema.Struct({
      id: Schema.NonEmptyString,
      type: Types,
      timestamp: Timestamp,
      data: Schema.Record(Schema.String, Schema.Unknown)
    }),
    attemptLog: Schema.Array(
      Schema.Struct({
        number: Version,
        startedAt: Timestamp,
        finishedAt: Timestamp,
        durationMs: Schema.NullOr(Count),
        statusCode: Schema.NullOr(Schema.Int),
        errorCode: nullable,
        endpointUrl: nullable,
        responseBody: Schema.NullOr(Schema.String)
      })
    )
  }).check(isEnded)
)

/** Asserts that an answer is a delivery with its event and its attempts. */
export const deliveryOf = (answer: Answer) => {
  assertJson(answer, 200)
  return decodeDelivery(answer.json)
}
