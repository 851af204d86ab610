/** JSON Schemas: ajv validates requests with them, fast-json-stringify serializes answers by them. */
import { currencies } from "./Currencies.ts"

const text = (maxLength: number) => ({ type: "string", minLength: 1, maxLength })
const nullable = <A extends object>(schema: A) => ({ ...schema, nullable: true })

const atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
const label = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
const email = {
  type: "string",
  maxLength: 254,
  pattern: `^(?=.{3,254}$)(?=[^@]{1,64}@)${atom}(?:\\.${atom})*@${label}(?:\\.${label})+$`
}

const fields = {
  displayName: text(160),
  firstName: nullable(text(100)),
  lastName: nullable(text(100)),
  email: nullable(email),
  phone: nullable({ type: "string", pattern: "^\\+[1-9][0-9]{1,14}$" }),
  tags: { type: "array", maxItems: 100, uniqueItems: true, items: text(160) },
  externalId: nullable(text(160))
}

export const clientCreate = {
  type: "object",
  required: ["displayName"],
  properties: fields,
  additionalProperties: false
}

export const clientPatch = {
  type: "object",
  minProperties: 1,
  properties: {
    ...fields,
    organizationId: nullable(text(160)),
    responsibleMemberId: nullable(text(160)),
    status: { type: "string", enum: ["active", "archived"] }
  },
  additionalProperties: false
}

const isSet = { not: { type: "null" } }
/** Returns a schema that requires both members to be set if one is. */
const together = (one: string, other: string) => ({
  if: { required: [one], properties: { [one]: isSet } },
  // oxlint-disable-next-line unicorn/no-thenable -- JSON Schema has this name, and a schema is never awaited
  then: { required: [other], properties: { [other]: isSet } }
})

export const dealCreate = {
  type: "object",
  required: ["title"],
  properties: {
    title: text(160),
    clientId: nullable(text(160)),
    organizationId: nullable(text(160)),
    pipelineId: text(160),
    stageId: text(160),
    amountMinor: nullable({ type: "integer", minimum: 0, maximum: Number.MAX_SAFE_INTEGER }),
    currency: nullable({ type: "string", enum: [...currencies, null] }),
    // The format checks the calendar, but accepts the year 0, which PostgreSQL does not.
    expectedCloseDate: nullable({ type: "string", format: "date", pattern: "^(?!0000)" }),
    responsibleMemberId: nullable(text(160))
  },
  additionalProperties: false,
  allOf: [together("amountMinor", "currency"), together("currency", "amountMinor")]
}

export const notePatch = {
  type: "object",
  required: ["body", "expectedVersion"],
  properties: {
    body: text(10_000),
    expectedVersion: { type: "integer", minimum: 1, maximum: Number.MAX_SAFE_INTEGER }
  },
  additionalProperties: false
}

const keyHeader = (pattern: string) => ({
  type: "object",
  required: ["idempotency-key"],
  properties: { "idempotency-key": { type: "string", pattern } }
})
/** Headers of commands on clients and deals; `mutationHeaders` are those of all other commands. */
export const recordMutationHeaders = keyHeader("^[A-Za-z0-9][A-Za-z0-9._:-]{7,159}$")
export const mutationHeaders = keyHeader("^[\\x21-\\x7E]{1,160}$")

export const params = (...names: ReadonlyArray<string>) => ({
  type: "object",
  required: names,
  properties: Object.fromEntries(names.map((name) => [name, text(160)]))
})

export const listQuery = {
  type: "object",
  properties: {
    status: { type: "string", enum: ["active", "archived", "all"], default: "all" },
    limit: { type: "string", pattern: "^(?:[1-9][0-9]?|100)$", default: "50" },
    cursor: text(512)
  },
  additionalProperties: false
}

export const noQuery = { type: "object", additionalProperties: false }

// Only the types of answers matter: fast-json-stringify serializes by them and checks nothing else.
const string = { type: "string" }

export const client = {
  type: "object",
  properties: {
    id: string,
    displayName: string,
    firstName: nullable(string),
    lastName: nullable(string),
    email: nullable(string),
    phone: nullable(string),
    tags: { type: "array", items: string },
    externalId: nullable(string),
    organizationId: nullable(string),
    responsibleMemberId: nullable(string),
    status: string,
    version: { type: "integer" },
    createdAt: string,
    updatedAt: string,
    archivedAt: nullable(string)
  }
}

export const page = {
  type: "object",
  properties: { items: { type: "array", items: client }, nextCursor: nullable(string) }
}

export const receipt = {
  type: "object",
  properties: { resourceId: string, changed: { type: "boolean" } }
}
