/** Identifiers: opaque strings of 1 to 160 characters, unique within a project, branded so that they can't be mixed up. */
import { Schema } from "effect"
import { text } from "./Fields.ts"

const id = text(1, 160)

export const ProjectId = id.pipe(Schema.brand("ProjectId"))
export type ProjectId = typeof ProjectId.Type

export const MemberId = id.pipe(Schema.brand("MemberId"))
export type MemberId = typeof MemberId.Type

export const OrganizationId = id.pipe(Schema.brand("OrganizationId"))
export type OrganizationId = typeof OrganizationId.Type

export const ClientId = id.pipe(Schema.brand("ClientId"))
export type ClientId = typeof ClientId.Type

/** The 12 characters that name an API key; they are part of its token and no secret. */
export const KeyId = Schema.String.check(
  Schema.isPattern(/^[0-9A-Za-z]{12}$/u, { expected: "the 12 characters that name a key" })
).pipe(Schema.brand("KeyId"))
export type KeyId = typeof KeyId.Type
