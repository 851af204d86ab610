/** What every answer of the service has to look like (contract §1, §2, §4, §6, §7), strictly. */
import { assert } from "@effect/vitest"
import { Schema } from "effect"
import type { Answer } from "./ContractHttp.ts"

const decodes = <A, I>(schema: Schema.Codec<A, I>) =>
  Schema.decodeUnknownSync(schema, { onExcessProperty: "error", errors: "all" })

const problemMembers = {
  type: Schema.String,
  title: Schema.String,
  status: Schema.Int,
  // Held against the contract by one test of its own, so that its absence doesn't hide everything else.
  detail: Schema.optionalKey(Schema.String),
  instance: Schema.String,
  code: Schema.String
}

const problems: Readonly<Record<string, Schema.Codec<ProblemBody, unknown>>> = {
  validation_failed: Schema.Struct({
    ...problemMembers,
    errors: Schema.Record(Schema.String, Schema.NonEmptyArray(Schema.NonEmptyString))
  }),
  scope_missing: Schema.Struct({ ...problemMembers, requiredScope: Schema.String })
}

interface ProblemBody {
  readonly type: string
  readonly title: string
  readonly status: number
  readonly detail?: string
  readonly instance: string
  readonly code: string
  readonly errors?: Readonly<Record<string, ReadonlyArray<string>>>
  readonly requiredScope?: string
}

const titles = new Map<string, string>()

/** Holds an answer to be the problem of a code, in every part, and returns its body. */
export const problemOf = (answer: Answer, status: number, code: string): ProblemBody => {
  assert.deepStrictEqual([answer.status, codeOf(answer)], [status, code], answer.text)
  assert.strictEqual(answer.headers["content-type"], "application/problem+json")
  const body = decodes(problems[code] ?? Schema.Struct(problemMembers))(answer.json)
  assert.strictEqual(body.type, `urn:developer-api:problem:${code}`)
  assert.strictEqual(body.status, status)
  assert.strictEqual(body.instance, `urn:developer-api:request:${requestIdOf(answer)}`)
  assert.strictEqual(body.title, titles.get(code) ?? body.title, "one title per code")
  titles.set(code, body.title)
  return body
}

const Coded = Schema.Struct({ code: Schema.String })

/** The code of a problem; undefined where there is none. */
export const codeOf = (answer: Answer): string | undefined =>
  Schema.is(Coded)(answer.json) ? answer.json.code : undefined

/** Holds an answer to be `validation_failed` and returns the locations of its faults, sorted. */
export const faultsOf = (answer: Answer): ReadonlyArray<string> =>
  Object.keys(problemOf(answer, 400, "validation_failed").errors ?? {}).toSorted()

/** Holds that something is wrong at a location, whatever else is. */
export const assertFault = (answer: Answer, location: string) => assert.include(faultsOf(answer), location)

/** The `x-request-id`, which every answer carries. */
export const requestIdOf = (answer: Answer): string => {
  const id = answer.headers["x-request-id"]
  assert.isString(id, "x-request-id is missing")
  assert.match(String(id), /^[A-Za-z0-9._-]{1,128}$/)
  return String(id)
}

/** Holds that an answer stands behind the limiter of a policy, and returns what remains. */
export const remainingOf = (answer: Answer, policy: string): number => {
  assert.match(String(answer.headers["ratelimit-policy"]), new RegExp(`^"${policy}";q=[1-9][0-9]*;w=[1-9][0-9]*$`))
  const match = new RegExp(`^"${policy}";r=(0|[1-9][0-9]*);t=(0|[1-9][0-9]*)$`).exec(
    String(answer.headers["ratelimit"])
  )
  assert.isNotNull(match, `ratelimit: ${String(answer.headers["ratelimit"])}`)
  return Number(match?.[1])
}

/** Holds that the limiter was not asked. */
export const assertUnlimited = (answer: Answer) => {
  assert.notProperty(answer.headers, "ratelimit-policy")
  assert.notProperty(answer.headers, "ratelimit")
}

const Timestamp = Schema.String.check(
  Schema.isPattern(/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/, { expected: "RFC 3339 UTC with milliseconds" })
)
const nullable = Schema.NullOr(Schema.String)

export const ClientShape = Schema.Struct({
  id: Schema.NonEmptyString,
  displayName: Schema.NonEmptyString,
  firstName: nullable,
  lastName: nullable,
  email: nullable,
  phone: nullable,
  organizationId: nullable,
  responsibleMemberId: nullable,
  tags: Schema.Array(Schema.NonEmptyString),
  externalId: nullable,
  status: Schema.Literals(["active", "archived"]),
  version: Schema.Int,
  createdAt: Timestamp,
  updatedAt: Timestamp,
  archivedAt: Schema.NullOr(Timestamp)
})
export type ClientShape = typeof ClientShape.Type

const decodeClient = decodes(ClientShape)
const decodePage = decodes(
  Schema.Struct({ items: Schema.Array(ClientShape), nextCursor: Schema.NullOr(Schema.NonEmptyString) })
)
const decodeReceipt = decodes(Schema.Struct({ resourceId: Schema.NonEmptyString, changed: Schema.Boolean }))

const assertJson = (answer: Answer, status: number) => {
  assert.strictEqual(answer.status, status, answer.text)
  assert.match(String(answer.headers["content-type"]), /^application\/json(; ?charset=utf-8)?$/i)
  requestIdOf(answer)
}

/** Holds an answer to be a client, with its version as `ETag`. */
export const clientOf = (answer: Answer): ClientShape => {
  assertJson(answer, 200)
  const client = decodeClient(answer.json)
  assert.strictEqual(answer.headers["etag"], `"${client.version}"`)
  assert.strictEqual(client.status === "archived", client.archivedAt !== null)
  return client
}

/** Holds an answer to be a page of clients, with a `Link` exactly while there is a next one. */
export const pageOf = (answer: Answer) => {
  assertJson(answer, 200)
  const page = decodePage(answer.json)
  assert.strictEqual(answer.headers["link"] === undefined, page.nextCursor === null)
  return { ...page, link: answer.headers["link"] }
}

/** Holds an answer to be the receipt of a mutation with a version. */
export const receiptOf = (answer: Answer, status: 200 | 201) => {
  assertJson(answer, status)
  const match = /^"([1-9][0-9]*)"$/.exec(String(answer.headers["etag"]))
  assert.isNotNull(match, `etag: ${String(answer.headers["etag"])}`)
  const replayed = answer.headers["idempotent-replayed"]
  assert.include([undefined, "true"], replayed)
  return { ...decodeReceipt(answer.json), version: Number(match?.[1]), replayed: replayed === "true" }
}
