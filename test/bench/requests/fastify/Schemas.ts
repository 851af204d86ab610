/** JSON Schemas: ajv validates requests with them, fast-json-stringify serializes answers by them. */
import { answered, clientFields, dealFields, nullable, ofCreate, requested, text } from "./Fields.ts"

export const clientCreate = {
  type: "object",
  required: ["displayName"],
  properties: requested(ofCreate(clientFields)),
  additionalProperties: false
}

export const clientPatch = {
  type: "object",
  minProperties: 1,
  properties: requested(clientFields),
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
  properties: requested(ofCreate(dealFields)),
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
