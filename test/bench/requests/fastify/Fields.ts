/** The fields of clients. Schemas of requests and answers, columns and statements derive from this list. */
interface Schema {
  readonly type: string
  readonly nullable?: boolean
  readonly [keyword: string]: unknown
}

interface Field {
  /** What a request may set it to. */
  readonly schema: Schema
  /** The type of its column: `text` unless given. */
  readonly type?: "text[]" | "boolean"
  /** Whether a create cannot set it. */
  readonly isRead?: true
}

/** The fields of a record by their names in JSON, in the order of its answers. */
export type Fields = Readonly<Record<string, Field>>

export const text = (maxLength: number) => ({ type: "string", minLength: 1, maxLength })
export const nullable = (schema: Schema): Schema => ({ ...schema, nullable: true })

const atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
const label = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
const email = {
  type: "string",
  maxLength: 254,
  pattern: `^(?=.{3,254}$)(?=[^@]{1,64}@)${atom}(?:\\.${atom})*@${label}(?:\\.${label})+$`
}

export const clientFields: Fields = {
  displayName: { schema: text(160) },
  firstName: { schema: nullable(text(100)) },
  lastName: { schema: nullable(text(100)) },
  email: { schema: nullable(email) },
  phone: { schema: nullable({ type: "string", pattern: "^\\+[1-9][0-9]{1,14}$" }) },
  tags: { schema: { type: "array", maxItems: 100, uniqueItems: true, items: text(160) }, type: "text[]" },
  externalId: { schema: nullable(text(160)) },
  marketingConsent: { schema: { type: "boolean" }, type: "boolean" },
  suppressed: { schema: { type: "boolean" }, type: "boolean" },
  organizationId: { schema: nullable(text(160)), isRead: true },
  responsibleMemberId: { schema: nullable(text(160)), isRead: true },
  status: { schema: { type: "string", enum: ["active", "archived"] }, isRead: true }
}

/** Returns the fields that a create sets. */
export const ofCreate = (fields: Fields): Fields =>
  Object.fromEntries(Object.entries(fields).filter(([, { isRead }]) => isRead !== true))

/** Returns the name of a field's column. */
const columnOf = (member: string): string => member.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

/** Returns SQL for each field of a record, separated by commas. */
export const each = (fields: Fields, sql: (member: string, column: string, field: Field, index: number) => string) =>
  Object.entries(fields)
    .map(([member, field], index) => sql(member, columnOf(member), field, index))
    .join(", ")

/** Returns the values of a client's fields for the parameters of a create. */
export const valuesOf = (fields: Fields, body: Readonly<Record<string, unknown>>): ReadonlyArray<unknown> =>
  Object.entries(fields).map(
    ([member, { type }]) => body[member] ?? (type === "text[]" ? [] : type === "boolean" ? false : null)
  )

/** Returns the request schemas of the fields. */
export const requested = (fields: Fields): Readonly<Record<string, Schema>> =>
  Object.fromEntries(Object.entries(fields).map(([member, { schema }]) => [member, schema]))

/** Returns the schemas of the fields in an answer. Only types matter: fast-json-stringify serializes by them alone. */
export const answered = (fields: Fields): Readonly<Record<string, object>> =>
  Object.fromEntries(
    Object.entries(fields).map(([member, { schema, type }]) => [
      member,
      {
        type: schema.type,
        ...(schema.nullable === true ? { nullable: true } : {}),
        ...(type === "text[]" ? { items: { type: "string" } } : {})
      }
    ])
  )
