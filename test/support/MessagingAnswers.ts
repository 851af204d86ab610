/** Assertions on answers of messaging (contract §8). */
import { assert } from "@effect/vitest"
import { Schema } from "effect"
import {
  Conversation,
  ConversationSource,
  MessageAttempt,
  MessageReceipt,
  Source
} from "../../src/api/messaging/Messaging.ts"
import { assertJson, decodes, pagesOf, problemOf, replayedOf } from "./ContractAnswers.ts"
import type { Answer } from "./ContractHttp.ts"

const SourceShape = Schema.toEncoded(Source)
const isConsistent = ({ capabilities, revokedAt, status }: typeof SourceShape.Type) =>
  (status === "revoked") === (revokedAt !== null) && capabilities.textReply === (status === "active")
const consistent = { expected: "revokedAt exactly while it is revoked, and textReply exactly while it is active" }

const decodeConversationSource = decodes(
  Schema.toEncoded(ConversationSource).check(Schema.makeFilter(({ source }) => isConsistent(source), consistent))
)

const AttemptShape = Schema.toEncoded(MessageAttempt)
export type AttemptShape = typeof AttemptShape.Type

const MessageReceiptShape = Schema.toEncoded(MessageReceipt).check(
  Schema.makeFilter(({ attempts }) => attempts.every(({ number }, index) => number === index + 1), {
    expected: "the attempts in their order, from 1"
  }),
  Schema.makeFilter(
    ({ attempts }) => attempts.every(({ finishedAt, status }) => (status === "pending") === (finishedAt === null)),
    { expected: "finishedAt exactly when an attempt is over" }
  ),
  Schema.makeFilter(
    ({ attempts }) =>
      attempts.every(({ providerMessageId, status }) => (status === "accepted") === (providerMessageId !== null)),
    { expected: "the provider's id exactly when it took the message" }
  ),
  Schema.makeFilter(
    ({ attempts, deliveryStatus }) =>
      (deliveryStatus === "retrying" ? attempts : attempts.slice(0, -1)).every(
        ({ nextAttemptAt, status }) => status !== "retrying" || nextAttemptAt !== null
      ),
    { expected: "the time of the next attempt when it is to be made" }
  ),
  Schema.makeFilter(({ createdAt, updatedAt }) => createdAt <= updatedAt, { expected: "no change before it was made" })
)

const decodeMessageReceipt = decodes(MessageReceiptShape)

export const sourcePageOf = pagesOf(SourceShape.check(Schema.makeFilter(isConsistent, consistent)))

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

/** Asserts that an answer is the problem of a message that was not sent. */
export const refusedOf = (answer: Answer) => {
  const { detail, messageId = null } = problemOf(answer, 409, "provider_conflict")
  assert.isString(detail)
  assert.notProperty(answer.headers, "retry-after")
  return { messageId, replayed: replayedOf(answer) }
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

/** The lists of tests have ids of any form. */
export const conversationPageOf = pagesOf(
  Schema.toEncoded(Schema.Struct({ ...Conversation.fields, id: Schema.String }))
)
