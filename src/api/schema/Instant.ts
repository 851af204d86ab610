/** Times that callers and operators write: RFC 3339 at any offset. */
import { Schema, SchemaGetter } from "effect"
import { isDay, Timestamp } from "./Fields.ts"

const time = "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]+)?"
const offset = "(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
const instantPattern = new RegExp(`^([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]${time}${offset}$`)

const utc = (text: string) => new Date(text.toUpperCase()).toISOString()

const isInstant = (text: string) => {
  const [, year, month, day] = instantPattern.exec(text) ?? []
  // Because of its offset, a time in the year 1 or 9999 can be in the year 0 or 10000 in UTC.
  return isDay(Number(year), Number(month), Number(day)) && /^(?!0000)[0-9]{4}-/.test(utc(text))
}

const Written = Schema.String.check(
  Schema.makeFilter(isInstant, {
    expected: "an instant of RFC 3339, such as 2026-11-20T10:00:00Z",
    toJsonSchema: () => ({ format: "date-time" })
  })
)

const decoded = (written: Schema.String) =>
  written.pipe(
    Schema.decodeTo(Timestamp, {
      decode: SchemaGetter.transform(utc),
      encode: SchemaGetter.passthrough()
    })
  )

/** A time of RFC 3339 at any offset, decoded to UTC with milliseconds. */
export const Instant = decoded(Written)

/** An `Instant` in a body, with what it means there. */
export const instant = (description: string) => decoded(Written.annotate({ description }))
