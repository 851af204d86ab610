/**
 * Assertions on answers: what the OpenAPI document does not say of problems, headers, records and receipts (contract §1, §2, §4,
 * §6, §7).
 */
import { assert } from "@effect/vitest"
import { Schema } from "effect"
import { ClientAddresses } from "../../src/api/crm/Addresses.ts"
import { Client } from "../../src/api/crm/Clients.ts"
import { Deal } from "../../src/api/crm/Deals.ts"
import { Note } from "../../src/api/crm/Notes.ts"
import { Member, Organization, Pipeline } from "../../src/api/crm/Directory.ts"
import { Ticket } from "../../src/api/crm/Tickets.ts"
import type { Answer } from "./ContractHttp.ts"

/** Creates a decoder of bodies that rejects additional members. */
export const decodes = <A, I>(schema: Schema.Codec<A, I>) =>
  Schema.decodeUnknownSync(schema, { onExcessProperty: "error", errors: "all" })

// The OpenAPI document, which every answer matches, says which code requires which of the members.
const ProblemBody = Schema.Struct({
  type: Schema.String,
  title: Schema.String,
  status: Schema.Int,
  // Required by the walk over missing records alone, so that its absence does not hide all other results.
  detail: Schema.optionalKey(Schema.String),
  instance: Schema.String,
  code: Schema.String,
  errors: Schema.optionalKey(Schema.Record(Schema.String, Schema.NonEmptyArray(Schema.NonEmptyString))),
  requiredScope: Schema.optionalKey(Schema.String),
  resourceId: Schema.optionalKey(Schema.NonEmptyString),
  currentVersion: Schema.optionalKey(Schema.NullOr(Schema.Int)),
  missing: Schema.optionalKey(Schema.NonEmptyArray(Schema.String)),
  messageId: Schema.optionalKey(Schema.NullOr(Schema.NonEmptyString))
})
const decodeProblem = decodes(ProblemBody)

const titles = new Map<string, string>()

/** Asserts that an answer is the problem of a code, in every member; returns its body. */
export const problemOf = (answer: Answer, status: number, code: string) => {
  assert.deepStrictEqual([answer.status, codeOf(answer)], [status, code], answer.text)
  assert.strictEqual(answer.headers["content-type"], "application/problem+json")
  const body = decodeProblem(answer.json)
  assert.strictEqual(body.type, `urn:developer-api:problem:${code}`)
  assert.strictEqual(body.status, status)
  assert.strictEqual(body.instance, `urn:developer-api:request:${requestIdOf(answer)}`)
  assert.strictEqual(body.title, titles.get(code) ?? body.title, "one title per code")
  titles.set(code, body.title)
  return body
}

const Coded = Schema.Struct({ code: Schema.String })

/** Returns the code of a problem; undefined if there is none. */
export const codeOf = (answer: Answer): string | undefined =>
  Schema.is(Coded)(answer.json) ? answer.json.code : undefined

/** Asserts that an answer is `validation_failed`; returns the sorted locations of its faults. */
export const faultsOf = (answer: Answer): ReadonlyArray<string> =>
  Object.keys(problemOf(answer, 400, "validation_failed").errors ?? {}).toSorted()

/** Asserts that an answer has a fault at a location; it may have others. */
export const assertFault = (answer: Answer, location: string) => assert.include(faultsOf(answer), location)

/** Returns the `x-request-id`, which every answer has. */
export const requestIdOf = (answer: Answer): string => {
  const id = answer.headers["x-request-id"]
  assert.isString(id, "x-request-id is missing")
  assert.match(String(id), /^[A-Za-z0-9._-]{1,128}$/)
  return String(id)
}

/** Asserts that an answer has the headers of a policy's rate limiter; returns the number of remaining tokens. */
export const remainingOf = (answer: Answer, policy: string): number => {
  assert.match(String(answer.headers["ratelimit-policy"]), new RegExp(`^"${policy}";q=[1-9][0-9]*;w=[1-9][0-9]*$`))
  const match = new RegExp(`^"${policy}";r=(0|[1-9][0-9]*);t=(0|[1-9][0-9]*)$`).exec(
    String(answer.headers["ratelimit"])
  )
  assert.isNotNull(match, `ratelimit: ${String(answer.headers["ratelimit"])}`)
  return Number(match?.[1])
}

/** Asserts that no rate limiter was used. */
export const assertUnlimited = (answer: Answer) => {
  assert.notProperty(answer.headers, "ratelimit-policy")
  assert.notProperty(answer.headers, "ratelimit")
}

const timestamp = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/

// Records have the members of the API's own types: a new field of a record needs no change here.
const ClientShape = Schema.toEncoded(Client)
export type ClientShape = typeof ClientShape.Type
export const DealShape = Schema.toEncoded(Deal)
export type DealShape = typeof DealShape.Type
const NoteShape = Schema.toEncoded(Note)

/** Asserts that each time in a body is in UTC with milliseconds, and each number from 0. */
const assertValues = (json: unknown) => {
  JSON.stringify(json, (member, value: unknown) => {
    if (/(At|Since|Until)$/.test(member) && typeof value === "string") assert.match(value, timestamp, member)
    if (typeof value === "number") assert.isAtLeast(value, 0, member)
    return value
  })
}

/** Asserts that an answer is a success with a JSON body. */
export const assertJson = (answer: Answer, status: number) => {
  assert.strictEqual(answer.status, status, answer.text)
  assert.match(String(answer.headers["content-type"]), /^application\/json(; ?charset=utf-8)?$/i)
  requestIdOf(answer)
  assertValues(answer.json)
}

/** Creates an assertion that an answer is a record of a shape, with its version as `ETag`. */
export const recordOf = <A extends { readonly version: number }, I>(shape: Schema.Codec<A, I>) => {
  const decode = decodes(shape)
  return (answer: Answer): A => {
    assertJson(answer, 200)
    const record = decode(answer.json)
    assert.strictEqual(answer.headers["etag"], `"${record.version}"`)
    return record
  }
}

/** Creates an assertion that an answer is a page of records of a shape, with a `Link` exactly if there is a next page. */
export const pagesOf = <A, I>(shape: Schema.Codec<A, I>) => {
  const decode = decodes(
    Schema.Struct({ items: Schema.Array(shape), nextCursor: Schema.NullOr(Schema.NonEmptyString) })
  )
  return (answer: Answer) => {
    assertJson(answer, 200)
    const page = decode(answer.json)
    assert.strictEqual(answer.headers["link"] === undefined, page.nextCursor === null)
    return { ...page, link: answer.headers["link"] }
  }
}

export const clientOf = recordOf(ClientShape)
/** A page of clients. */
export const pageOf = pagesOf(ClientShape)

const decodeAddresses = decodes(Schema.toEncoded(ClientAddresses))

/** Asserts that an answer is the addresses of a client; returns them with the client's version. */
export const addressesOf = (answer: Answer) => {
  assertJson(answer, 200)
  return { ...decodeAddresses(answer.json), version: versionOf(answer) }
}

/** A page of pipelines. */
export const pipelinePageOf = pagesOf(Schema.toEncoded(Pipeline))

export const dealOf = recordOf(DealShape)
export const dealPageOf = pagesOf(DealShape)

/** Pages of notes; no operation answers with a single note. */
export const notePageOf = pagesOf(NoteShape)

const receiptMembers = { resourceId: Schema.NonEmptyString, changed: Schema.Boolean }
const decodeReceipt = decodes(Schema.Struct(receiptMembers))
const decodeSecretReceipt = decodes(
  Schema.Struct({
    ...receiptMembers,
    // 32 bytes in base64.
    signingSecret: Schema.String.check(Schema.isPattern(/^whsec_[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$/))
  })
)

/** Whether an answer is a replay. */
export const replayedOf = ({ headers }: Answer) => {
  const replayed = headers["idempotent-replayed"]
  assert.include([undefined, "true"], replayed)
  return replayed === "true"
}

export const versionOf = ({ headers }: Answer) => {
  const match = /^"([1-9][0-9]*)"$/.exec(String(headers["etag"]))
  assert.isNotNull(match, `etag: ${String(headers["etag"])}`)
  return Number(match?.[1])
}

/** Asserts that an answer is the receipt of a mutation of a versioned record. */
export const receiptOf = (answer: Answer, status: 200 | 201) => {
  assertJson(answer, status)
  return { ...decodeReceipt(answer.json), version: versionOf(answer), replayed: replayedOf(answer) }
}

/** Asserts that an answer is the first receipt of a command with a signing secret. */
export const secretOf = (answer: Answer) => {
  assertJson(answer, 200)
  assert.isFalse(replayedOf(answer))
  return { ...decodeSecretReceipt(answer.json), version: versionOf(answer) }
}

/** Asserts that an answer is a receipt with a signing secret, or a replay of one, without it. */
export const secretReceiptOf = (answer: Answer) => {
  if (replayedOf(answer)) return receiptOf(answer, 200)
  const { signingSecret: _, ...receipt } = secretOf(answer)
  return { ...receipt, replayed: false }
}

/** Asserts that an answer is the receipt of a mutation of a record without a version. */
export const unversionedReceiptOf = (answer: Answer, status: 200 | 201 = 200) => {
  assertJson(answer, status)
  assert.notProperty(answer.headers, "etag")
  return { ...decodeReceipt(answer.json), version: null, replayed: replayedOf(answer) }
}

const decodeResults = decodes(
  Schema.Struct({
    results: Schema.Array(
      Schema.Union([
        Schema.Struct({
          externalId: Schema.String,
          resourceId: Schema.NonEmptyString,
          created: Schema.Boolean,
          changed: Schema.Boolean
        }),
        Schema.Struct({ externalId: Schema.String, problem: ProblemBody })
      ])
    )
  })
)

/** Asserts that an answer is that of a batch; returns the results. */
export const resultsOf = (answer: Answer) => {
  assertJson(answer, 200)
  assert.notProperty(answer.headers, "etag")
  return decodeResults(answer.json).results
}

/** Asserts that an answer is that of a batch whose only item succeeded; returns its outcome like a receipt. */
export const batchOf = (answer: Answer) => {
  const [result, ...others] = resultsOf(answer)
  assert.lengthOf(others, 0)
  if (result === undefined || "problem" in result) assert.fail(answer.text)
  const { changed, resourceId } = result
  return { resourceId, changed, version: null, replayed: replayedOf(answer) }
}
export const memberPageOf = pagesOf(Schema.toEncoded(Member))
export const organizationPageOf = pagesOf(Schema.toEncoded(Organization))
export const ticketPageOf = pagesOf(Schema.toEncoded(Ticket))
