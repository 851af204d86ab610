/** Staged records under an import profile: which values would be imported, and which fields not (contract §11). */
import { Option, Schema } from "effect"
import {
  type EntityType,
  entityTypes,
  type ImportPreview,
  type UnsupportedField,
  type UnsupportedReason
} from "../../api/integrations/Preview.ts"
import { importFields } from "./Fields.ts"

/** A record as it came from the other system. */
export interface StagedRecord {
  readonly entityType: EntityType
  readonly externalId: string
  readonly fields: Readonly<Record<string, unknown>>
}

/** From external fields to own fields, or to `restricted`. */
export type Mappings = { readonly [Type in EntityType]?: Readonly<Record<string, string>> }

type Target = "restricted" | { readonly field: string; readonly fits: (value: unknown) => boolean }

/** Where an external field leads; nowhere when it is not mapped. */
export type Profile = (entityType: EntityType, externalField: string) => Target | undefined

const fitting = (schema: Schema.Codec<unknown, unknown>) => {
  const decode = Schema.decodeUnknownOption(schema)
  return (value: unknown) => Option.isSome(decode(value))
}

const ownFields = new Map(
  entityTypes.map((type) => [
    type,
    new Map<string, Target>(
      Object.entries(importFields[type]).map(([field, schema]) => [field, { field, fits: fitting(schema) }])
    )
  ])
)

/** External names are anything, `__proto__` and `constructor` included, so they are looked up in maps. */
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

/** What a record says under a profile. */
export interface Judgement {
  /** By own field, of the values that fit. */
  readonly values: ReadonlyMap<string, unknown>
  readonly unsupported: ReadonlyArray<readonly [externalField: string, reason: UnsupportedReason]>
}

/**
 * Judges each value alone. Several external fields may be mapped to one own field: the first by name, in code units,
 * that has a value which fits counts, whatever order the record has them in.
 */
export const judge = (profile: Profile, { entityType, fields }: StagedRecord): Judgement => {
  const values = new Map<string, unknown>()
  const unsupported: Array<readonly [string, UnsupportedReason]> = []
  for (const [externalField, value] of Object.entries(fields).toSorted(byName)) {
    const target = profile(entityType, externalField)
    if (target === undefined) unsupported.push([externalField, "not_mapped"])
    else if (target === "restricted") unsupported.push([externalField, "restricted"])
    else if (!target.fits(value)) unsupported.push([externalField, "unsupported_type"])
    else if (!values.has(target.field)) values.set(target.field, value)
  }
  return { values, unsupported }
}

const byName = ([one]: readonly [string, unknown], [other]: readonly [string, unknown]) => (one < other ? -1 : 1)

/** What the preview says of a whole batch, gathered record by record. */
export const tally = () => {
  const counts = { contact: 0, organization: 0, lead: 0, deal: 0, task: 0, activity: 0, note: 0 }
  const reasons = new Map(entityTypes.map((type) => [type, new Map<string, UnsupportedReason>()]))
  return {
    add: ({ entityType }: StagedRecord, { unsupported }: Judgement) => {
      counts[entityType]++
      for (const [externalField, reason] of unsupported) reasons.get(entityType)?.set(externalField, reason)
    },
    counts: (): ImportPreview["counts"] => counts,
    /** Sorted by both names, in code units. */
    unsupportedFields: (): ReadonlyArray<UnsupportedField> =>
      entityTypes
        .toSorted()
        .flatMap((entityType) =>
          [...(reasons.get(entityType) ?? [])]
            .toSorted(byName)
            .map(([externalField, reason]) => ({ entityType, externalField, reason }))
        )
  }
}
