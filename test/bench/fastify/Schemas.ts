/** JSON Schemas: ajv checks requests against them, fast-json-stringify writes answers by them. */

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

export const mutationHeaders = {
  type: "object",
  required: ["idempotency-key"],
  properties: { "idempotency-key": { type: "string", pattern: "^[A-Za-z0-9][A-Za-z0-9._:-]{7,159}$" } }
}

export const clientParams = {
  type: "object",
  required: ["clientId"],
  properties: { clientId: text(160) }
}

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

// For answers the types are what counts: fast-json-stringify writes by them and checks nothing else.
const string = { type: "string" }
const time = { type: "string", format: "date-time" }

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
    createdAt: time,
    updatedAt: time,
    archivedAt: nullable(time)
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
