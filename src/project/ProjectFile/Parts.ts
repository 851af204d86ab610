/** Schemas that several parts of a project file share. */
import { Schema } from "effect"
import { text } from "../../api/schema/Fields.ts"
import { isBlank } from "../../platform/Text.ts"

/** The check of the ids that a file gives to records. */
export const isVisible = Schema.isPattern(/^[\x21-\x7E]{1,160}$/u, {
  expected: "a string of 1 to 160 visible ASCII characters"
})

/** An id of a kind that has no schema in `api/schema/Ids.ts`. */
export const id = text(1, 160).check(isVisible)

/** A name that can be read: with a character that is neither a space nor invisible. */
export const name = text(1, 160).check(
  Schema.makeFilter((value: string) => !isBlank(value), {
    expected: "a string of 1 to 160 characters, one of them visible"
  })
)

/** The maximum of PostgreSQL's `integer`. */
const maxInteger = 2_147_483_647

const integerFrom = (minimum: number) =>
  Schema.Int.check(
    Schema.isBetween({ minimum, maximum: maxInteger }, { expected: `an integer from ${minimum} to ${maxInteger}` })
  )

export const count = integerFrom(0)
export const positive = integerFrom(1)

/**
 * An optional member. If it is absent, an existing record keeps its value, and a new record gets `initial`. The schema only
 * documents `initial`. The upsert sets it, because it knows which records are new.
 */
export const optional = <S extends Schema.Top>(member: S, initial?: S["Encoded"]) =>
  Schema.optionalKey(member).annotateKey(initial === undefined ? {} : { default: initial })
