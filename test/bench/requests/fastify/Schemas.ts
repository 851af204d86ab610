/** JSON Schemas: ajv validates requests with them, fast-json-stringify serializes answers by them. */
import { answered, clientFields, nullable, ofCreate, requested, text } from "./Fields.ts"

export const clientCreate = {
  type: "object",
  required: ["displayName"],
  properties: requested(ofCreate(clientFields)),
  additionalProperties: false
}

const keyHeader = (pattern: string) => ({
  type: "object",
  required: ["idempotency-key"],
  properties: { "idempotency-key": { type: "string", pattern } }
})
/** Headers of commands on clients. */
export const recordMutationHeaders = keyHeader("^[A-Za-z0-9][A-Za-z0-9._:-]{7,159}$")

export const params = (...names: ReadonlyArray<string>) => ({
  type: "object",
  required: names,
  properties: Object.fromEntries(names.map((name) => [name, text(160)]))
})

export const listQuery = {
  type: "object",
  properties: {
    limit: { type: "string", pattern: "^(?:[1-9][0-9]?|100)$", default: "50" },
    cursor: text(512)
  },
  additionalProperties: false
}

export const noQuery = { type: "object", additionalProperties: false }

const string = { type: "string" }

export const client = {
  type: "object",
  properties: {
    id: string,
    ...answered(clientFields),
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
