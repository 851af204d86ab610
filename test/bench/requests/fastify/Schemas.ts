/** JSON Schemas: ajv validates requests with them, fast-json-stringify serializes answers by the types in them. */
const text = (maxLength: number) => ({ type: "string", minLength: 1, maxLength })
const nullable = (schema: object) => ({ ...schema, nullable: true })
const atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
const label = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
const email = {
  type: "string",
  maxLength: 254,
  pattern: `^(?=.{3,254}$)(?=[^@]{1,64}@)${atom}(?:\\.${atom})*@${label}(?:\\.${label})+$`
}
const string = { type: "string" }
const boolean = { type: "boolean" }

export const clientCreate = {
  type: "object",
  required: ["displayName"],
  properties: {
    displayName: text(160),
    firstName: nullable(text(100)),
    lastName: nullable(text(100)),
    email: nullable(email),
    phone: nullable({ type: "string", pattern: "^\\+[1-9][0-9]{1,14}$" }),
    tags: { type: "array", maxItems: 100, uniqueItems: true, items: text(160) },
    externalId: nullable(text(160)),
    marketingConsent: boolean,
    suppressed: boolean
  },
  additionalProperties: false
}

export const clientPatch = { ...clientCreate, required: [], minProperties: 1 }

export const mutationHeaders = {
  type: "object",
  required: ["idempotency-key"],
  properties: { "idempotency-key": { type: "string", pattern: "^[A-Za-z0-9][A-Za-z0-9._:-]{7,159}$" } }
}

export const noQuery = { type: "object", additionalProperties: false }

export const params = { type: "object", required: ["clientId"], properties: { clientId: text(160) } }

const limit = { type: "string", pattern: "^(?:[1-9][0-9]?|100)$", default: "50" }
export const listQuery = { ...noQuery, properties: { limit, cursor: text(512) } }

export const client = {
  type: "object",
  properties: {
    id: string,
    ...clientCreate.properties,
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

export const receipt = { type: "object", properties: { resourceId: string, changed: boolean } }
