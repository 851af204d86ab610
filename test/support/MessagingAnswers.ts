/** Strict schemas of the answers of messaging (contract §8). */
import { assert } from "@effect/vitest"
import { Schema } from "effect"
import { assertJson, decodes, pagesOf, problemOf, replayedOf, Timestamp } from "./ContractAnswers.ts"
import type { Answer } from "./ContractHttp.ts"

const SourceShape = Schema.Struct({
  id: Schema.NonEmptyString,
  channelId: Schema.NonEmptyString,
  providerType: Schema.Literals(["http", "telegram", "sandbox"]),
  displayName: Schema.NonEmptyString,
  status: Schema.Literals(["active", "revoked"]),
  capabilities: Schema.Struct({ textReply: Schema.Boolean }),
  connectedAt: Timestamp,
  revokedAt: Schema.NullOr(Timestamp)
}).check(
  Schema.makeFilter(({ revokedAt, status }) => (status === "revoked") === (revokedAt !== null), {
    expected: "revokedAt exactly while it is revoked"
  }),
  Schema.makeFilter(({ capabilities, status }) => capabilities.textReply === (status === "active"), {
    expected: "textReply exactly while it is active"
  })
)
export type SourceShape = typeof SourceShape.Type

const Uuid = Schema.String.check(Schema.isPattern(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/))

const decodeConversationSource = decodes(
  Schema.Struct({ conversationId: Uuid, source: SourceShape, observedAt: Timestamp })
)

const AttemptShape = Schema.Struct({
  number: Schema.Int,
  status: Schema.Literals(["pending", "accepted", "retrying", "rejected", "unknown"]),
  startedAt: Timestamp,
  finishedAt: Schema.NullOr(Timestamp),
  providerMessageId: Schema.NullOr(Schema.NonEmptyString),
  errorCode: Schema.NullOr(Schema.NonEmptyString),
  nextAttemptAt: Schema.NullOr(Timestamp)
}).check(
  Schema.makeFilter(({ finishedAt, status }) => (status === "pending") === (finishedAt === null), {
    expected: "finishedAt exactly when it is over"
  }),
  Schema.makeFilter(({ providerMessageId, status }) => (status === "accepted") === (providerMessageId !== null), {
    expected: "the provider's id exactly when it took the message"
  }),
  Schema.makeFilter(({ nextAttemptAt, status }) => status !== "retrying" || nextAttemptAt !== null, {
    expected: "the time of the next attempt when it is to be made"
  })
)
export type AttemptShape = typeof AttemptShape.Type

const MessageReceiptShape = Schema.Struct({
  messageId: Schema.NonEmptyString,
  conversationId: Uuid,
  sourceId: Schema.NonEmptyString,
  deliveryStatus: Schema.Literals(["pending", "sent", "retrying", "unknown", "failed"]),
  createdAt: Timestamp,
  updatedAt: Timestamp,
  attempts: Schema.Array(AttemptShape)
}).check(
  Schema.makeFilter(({ attempts }) => attempts.every(({ number }, index) => number === index + 1), {
    expected: "the attempts in their order, from 1"
  }),
  Schema.makeFilter(({ createdAt, updatedAt }) => createdAt <= updatedAt, { expected: "no change before it was made" })
)
export type MessageReceiptShape = typeof MessageReceiptShape.Type

const decodeMessageReceipt = decodes(MessageReceiptShape)

export const sourcePageOf = pagesOf(SourceShape)

/** Asserts that an answer is the source of a conversation, which has no version. */
export const conversationSourceOf = (answer: Answer) => {
  assertJson(answer, 200)
  assert.notProperty(answer.headers, "etag")
  return decodeConversationSource(answer.json)
}

/** Asserts that an answer is the receipt of a message that is neither unknown nor failed; it has no version. */
export const messageReceiptOf = (answer: Answer) => {
  assertJson(answer, 200)
  assert.notProperty(answer.headers, "etag")
  assert.notProperty(answer.headers, "retry-after")
  const receipt = decodeMessageReceipt(answer.json)
  assert.include(["pending", "retrying", "sent"], receipt.deliveryStatus)
  return { ...receipt, replayed: replayedOf(answer) }
}

/** Asserts that an answer is the receipt of a message in any state, as `getMessage` answers it. */
export const storedMessageOf = (answer: Answer) => {
  assertJson(answer, 200)
  assert.notProperty(answer.headers, "etag")
  return decodeMessageReceipt(answer.json)
}

/** Asserts that an answer is the problem of a message that was not sent. */
export const refusedOf = (answer: Answer) => {
  const { detail, messageId = null } = problemOf(answer, 409, "provider_conflict")
  assert.notProperty(answer.headers, "retry-after")
  return { messageId, detail, replayed: replayedOf(answer) }
}

/** Asserts that an answer is the problem of a send with an unknown outcome. */
export const unknownOf = (answer: Answer) => {
  const { messageId = null } = problemOf(answer, 503, "provider_outcome_unknown")
  assert.match(String(answer.headers["retry-after"]), /^[1-9][0-9]*$/)
  return { messageId, retryAfter: Number(answer.headers["retry-after"]), replayed: replayedOf(answer) }
}

/** Returns the kind of an answer to a send, the message's id, and whether it is a replay. */
export const sendOf = (answer: Answer) => {
  const [kind, { messageId, replayed }] =
    answer.status === 409
      ? ["refused", refusedOf(answer)]
      : answer.status === 503
        ? ["unknown", unknownOf(answer)]
        : [messageReceiptOf(answer).deliveryStatus, messageReceiptOf(answer)]
  return { kind, messageId, replayed }
}
