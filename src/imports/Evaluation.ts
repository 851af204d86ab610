/**
 * Evaluates staged records with an import profile: the values that are imported, and the unsupported fields (contract
 * §11).
 */
import { Option, Schema } from "effect"
import {
  type EntityType,
  entityTypes,
  type ImportPreview,
  type UnsupportedField,
  type UnsupportedReason
} from "../api/integrations/Installations.ts"
import { clientFields } from "../api/crm/Clients.ts"
import { dealFields } from "../api/crm/Deals.ts"
import { noteFields } from "../api/crm/Notes.ts"
import { taskFields } from "../api/integrations/Events.ts"
import { Instant, text } from "../api/schema/Fields.ts"

const { amountMinor, currency, expectedCloseDate, title } = dealFields
const { displayName, email, firstName, lastName, phone, tags } = clientFields
const sale = { title, amountMinor, currency, expectedCloseDate }

/**
 * The fields that an import profile can map external fields to, by entity type (contract §12). Fields that are also in the API use
 * its schemas, so that both accept the same values.
 */
export const importFields = {
  contact: { displayName, firstName, lastName, email, phone, tags },
  organization: { name: text(1, 160) },
  lead: sale,
  deal: sale,
  task: taskFields,
  activity: { title: text(1, 160), at: Instant },
  note: noteFields
} as const satisfies Record<EntityType, Readonly<Record<string, Schema.Codec<unknown, unknown>>>>

/** A record of the external system, from the project file. */
export interface StagedRecord {
  readonly entityType: EntityType
  readonly externalId: string
  readonly fields: Readonly<Record<string, unknown>>
}

export interface PlacedRecord extends StagedRecord {
  /** Place in the order of the records' canonical JSON, from 0. */
  readonly rank: number
  /** Place in the batch as given, from 0. */
  readonly position: number
}

/**
 * The target of each external field, by entity type: the name of one of our fields, or `restricted` for a field that is not
 * imported.
 */
export type Mappings = { readonly [Type in EntityType]?: Readonly<Record<string, string>> }

type Target = "restricted" | { readonly field: string; readonly read: (value: unknown) => Option.Option<unknown> }

type Profile = (entityType: EntityType, externalField: string) => Target | undefined

/** Characters that people write between the digits of a phone number, or that are copied along with it. */
const betweenDigits = /[\s()./\-\u2010-\u2015\u200b-\u200f\u202a-\u202e\u2060\ufeff]/gu

/** The normal forms of texts, by own field: a phone number in E.164 if it begins with its country, and an email without spaces. */
const normalForms: Readonly<Record<string, (text: string) => string>> = {
  phone: (text) => text.replaceAll("(0)", "").replace(betweenDigits, "").replace(/^00/, "+"),
  email: (text) => text.trim()
}

/** Returns the reader of a field: it returns a value in its normal form, or none if the value does not fit the field. */
const reading = (field: string, schema: Schema.Codec<unknown, unknown>) => {
  const decode = Schema.decodeUnknownOption(schema)
  const normal = normalForms[field]
  return (given: unknown): Option.Option<unknown> => {
    const value = normal !== undefined && typeof given === "string" ? normal(given) : given
    return Option.as(decode(value), value)
  }
}

const ownFields = new Map(
  entityTypes.map((type) => [
    type,
    new Map<string, Target>(
      Object.entries(importFields[type]).map(([field, schema]) => [field, { field, read: reading(field, schema) }])
    )
  ])
)

/** Uses maps instead of objects, because an external field may be named `__proto__` or `constructor`. */
export const profileOf = (mappings: Mappings): Profile => {
  const targets = new Map(
    entityTypes.map((type) => [
      type,
      new Map(
        Object.entries(mappings[type] ?? {}).map(([externalField, field]): [string, Target | undefined] => [
          externalField,
          field === "restricted" ? field : ownFields.get(type)?.get(field)
        ])
      )
    ])
  )
  return (type, externalField) => targets.get(type)?.get(externalField)
}

interface Evaluation {
  /** The values that satisfy the schemas of their fields, by field. */
  readonly values: ReadonlyMap<string, unknown>
  /** A contact's email in lower case, and its phone; null if the contact has none. */
  readonly email: string | null
  readonly phone: string | null
  readonly unsupported: ReadonlyArray<readonly [externalField: string, reason: UnsupportedReason]>
}

/**
 * Evaluates each value of a record separately. If several external fields are mapped to one field, the first value that
 * fits is used. The order is by the names of the external fields in UTF-16 code units, not the order in the record.
 */
export const evaluate = (profile: Profile, { entityType, fields }: StagedRecord): Evaluation => {
  const values = new Map<string, unknown>()
  const unsupported: Array<readonly [string, UnsupportedReason]> = []
  for (const [externalField, value] of Object.entries(fields).toSorted(byName)) {
    const target = profile(entityType, externalField)
    if (target === undefined) unsupported.push([externalField, "not_mapped"])
    else if (target === "restricted") unsupported.push([externalField, "restricted"])
    else {
      const read = target.read(value)
      if (Option.isNone(read)) unsupported.push([externalField, "unsupported_type"])
      else if (!values.has(target.field)) values.set(target.field, read.value)
    }
  }
  const text = (field: string) => {
    const value = values.get(field)
    return typeof value === "string" ? value : null
  }
  return { values, email: text("email")?.toLowerCase() ?? null, phone: text("phone"), unsupported }
}

const byName = ([one]: readonly [string, unknown], [other]: readonly [string, unknown]) => (one < other ? -1 : 1)

export const countsOf = (records: ReadonlyArray<StagedRecord>): ImportPreview["counts"] => {
  const counts = { contact: 0, organization: 0, lead: 0, deal: 0, task: 0, activity: 0, note: 0 }
  for (const { entityType } of records) counts[entityType]++
  return counts
}

/** Each unsupported field once, sorted by entity type and external field in UTF-16 code units. */
export const unsupportedFields = (
  evaluated: ReadonlyArray<PlacedRecord & Evaluation>
): ReadonlyArray<UnsupportedField> =>
  entityTypes.toSorted().flatMap((entityType) => {
    const found = evaluated.flatMap((record) => (record.entityType === entityType ? record.unsupported : []))
    const counts = new Map<string, number>()
    for (const [externalField] of found) counts.set(externalField, (counts.get(externalField) ?? 0) + 1)
    return [...new Map(found)]
      .toSorted(byName)
      .map(([externalField, reason]) => ({ entityType, externalField, reason, count: counts.get(externalField) ?? 0 }))
  })

/**
 * Returns the positions of records with the external id, the email or the phone of an earlier record of the batch, even if that
 * record is a duplicate itself (contract §11).
 */
export const duplicatesOf = (evaluated: ReadonlyArray<PlacedRecord & Evaluation>): ReadonlySet<number> => {
  const seen = new Set<string>()
  const duplicates = new Set<number>()
  for (const { email, entityType, externalId, phone, position } of evaluated.toSorted(byPosition)) {
    const keys = [`${entityType} ${externalId}`]
    if (email !== null) keys.push(`email ${email}`)
    if (phone !== null) keys.push(`phone ${phone}`)
    if (keys.some((key) => seen.has(key))) duplicates.add(position)
    for (const key of keys) seen.add(key)
  }
  return duplicates
}

const byPosition = (one: PlacedRecord, other: PlacedRecord) => one.position - other.position
