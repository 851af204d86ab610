/** What the parts of a project file are made of. */
import { Schema } from "effect"
import { text } from "../../api/Fields.ts"

/** An id of a record that has no brand of its own. */
export const id = text(1, 160)
export const name = text(1, 160)

/** The largest integer that the database's `integer` holds. */
const maxInteger = 2_147_483_647

const integerFrom = (minimum: number) =>
  Schema.Int.check(
    Schema.isBetween({ minimum, maximum: maxInteger }, { expected: `an integer from ${minimum} to ${maxInteger}` })
  )

/** An integer from 0. */
export const count = integerFrom(0)
/** An integer from 1. */
export const positive = integerFrom(1)

/**
 * A member that may be absent: an existing record keeps what it has, a new one gets `initial`.
 * The schema only shows `initial`; whoever applies the member fills it in, as it alone knows what exists.
 */
export const optional = <S extends Schema.Top>(member: S, initial?: S["Encoded"]) =>
  Schema.optionalKey(member).annotateKey(initial === undefined ? {} : { default: initial })
