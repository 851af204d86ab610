/** Times as a project file writes them: instants at any offset, dates, and time zones. */
import { DateTime, Option, Schema, SchemaGetter } from "effect"
import { Timestamp } from "../../api/Fields.ts"

const date = "([0-9]{4})-([0-9]{2})-([0-9]{2})"
const time = "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]+)?"
const offset = "(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
const datePattern = new RegExp(`^${date}$`)
const instantPattern = new RegExp(`^${date}[Tt]${time}${offset}$`)

/** `Date.parse` takes February 30 for a day in March, so days are counted here. */
const isDate = (match: RegExpExecArray | null): boolean => {
  if (match === null) return false
  const [year = 0, month = 0, day = 0] = match.slice(1).map(Number)
  return year >= 1 && month >= 1 && month <= 12 && day >= 1 && day <= daysIn(year, month)
}

const daysIn = (year: number, month: number) => {
  const leap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0)
  return [31, leap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month - 1] ?? 0
}

const utc = (text: string) => new Date(text.toUpperCase()).toISOString()

/** An offset can carry an instant out of the years that four digits write. */
const isInstant = (text: string) => isDate(instantPattern.exec(text)) && /^(?!0000)[0-9]{4}-/.test(utc(text))

/** An instant of RFC 3339 at any offset; decoded it is UTC with milliseconds, as the API shows it. */
export const Instant = Schema.String.check(
  Schema.makeFilter(isInstant, {
    expected: "an instant of RFC 3339, such as 2026-11-20T10:00:00Z",
    toJsonSchema: () => ({ format: "date-time" })
  })
).pipe(
  Schema.decodeTo(Timestamp, {
    decode: SchemaGetter.transform(utc),
    encode: SchemaGetter.passthrough()
  })
)

/** A day of the calendar, `YYYY-MM-DD`. */
export const CalendarDate = Schema.String.check(
  Schema.makeFilter((text: string) => isDate(datePattern.exec(text)), {
    expected: "a date that exists, written YYYY-MM-DD",
    toJsonSchema: () => ({ format: "date" })
  })
)

/** A zone of the IANA database. The runtime takes bare offsets too, which no calendar rule stands behind. */
export const TimeZone = Schema.String.check(
  Schema.makeFilter((text: string) => /^[A-Za-z]/.test(text) && Option.isSome(DateTime.zoneMakeNamed(text)), {
    expected: "an IANA time zone, such as Europe/Berlin"
  })
)
