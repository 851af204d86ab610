/** Field types that several resources share, with the limits that the OpenAPI document shows. */
import { Schema, SchemaGetter } from "effect"

/** Counts the Unicode code points of a string, as JSON Schema's `maxLength` does. */
const codePoints = (text: string): number => {
  let count = text.length
  for (let i = 0; i < text.length - 1; i++) {
    if ((text.charCodeAt(i) & 0xfc00) === 0xd800 && (text.charCodeAt(i + 1) & 0xfc00) === 0xdc00) {
      count--
      i++
    }
  }
  return count
}

/** A string of `min` to `max` Unicode code points. */
export const text = (min: number, max: number) =>
  Schema.String.check(
    Schema.makeFilter(
      // A code point has one or two UTF-16 units. A string of at most `max` units is short enough, and a string of more than 2 ×
      // `max` units is too long. Code points are counted only between these lengths.
      (value: string) =>
        value.length >= min && (value.length <= max || (value.length <= 2 * max && codePoints(value) <= max)),
      {
        expected: `a string of ${min} to ${max} characters`,
        toJsonSchema: () => ({ minLength: min, maxLength: max })
      }
    )
  )

export const Timestamp = Schema.String.annotate({
  format: "date-time",
  description: "A time: RFC 3339, in UTC, with milliseconds.",
  examples: ["2026-11-20T10:00:00.000Z"]
})

const atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
const label = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"

const datePattern = /^([0-9]{4})-([0-9]{2})-([0-9]{2})$/

/** Whether a date exists. `Date.parse` is not used, because it accepts February 30. */
export const isDay = (year: number, month: number, day: number): boolean => {
  const leap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0)
  const days = [31, leap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month - 1] ?? 0
  return year >= 1 && day >= 1 && day <= days
}

export const CalendarDate = Schema.String.check(
  Schema.makeFilter(
    (text: string) => {
      const [, year, month, day] = datePattern.exec(text) ?? []
      return isDay(Number(year), Number(month), Number(day))
    },
    { expected: "a date that exists, written YYYY-MM-DD", toJsonSchema: () => ({ format: "date" }) }
  )
)

/** An amount of money in minor units: 12.50 EUR is 1250. Every JSON reader represents integers up to 2^53-1 exactly. */
export const AmountMinor = Schema.Int.check(
  Schema.isBetween(
    { minimum: 0, maximum: Number.MAX_SAFE_INTEGER },
    { expected: `an integer from 0 to ${Number.MAX_SAFE_INTEGER}` }
  )
)

/** A mail address: a dot-string of RFC 5321 at a domain of at least two labels, at most 254 characters. */
export const Email = Schema.String.check(
  Schema.isPattern(new RegExp(`^(?=.{3,254}$)(?=[^@]{1,64}@)${atom}(?:\\.${atom})*@${label}(?:\\.${label})+$`), {
    expected: "a mail address of at most 254 characters",
    toJsonSchema: () => ({ format: "email", maxLength: 254 })
  })
)

export const Phone = Schema.String.check(
  Schema.isPattern(/^\+[1-9][0-9]{1,14}$/u, { expected: "a phone number in E.164 form, such as +4915112345678" })
)

const versionRange = `an integer from 1 to ${Number.MAX_SAFE_INTEGER}`

export const Version = Schema.Int.check(Schema.isGreaterThan(0, { expected: versionRange })).annotate({
  description: "The version of the record. It starts at 1 and grows by 1 with each change that alters the record."
})

export const ExpectedVersion = Version.annotate({
  description: "The version that the caller has read, from 1. The command is refused if the record has another version."
})

export const CreatedAt = Timestamp.annotate({
  description: "When the record was created: RFC 3339, in UTC, with milliseconds."
})

export const UpdatedAt = Timestamp.annotate({
  description: "When the record was last changed: RFC 3339, in UTC, with milliseconds."
})

/** A version in a query, in decimal digits only. The OpenAPI document declares an integer. */
export const VersionText = Schema.String.check(
  Schema.makeFilter((text: string) => /^[1-9][0-9]*$/.test(text) && Number.isSafeInteger(Number(text)), {
    expected: versionRange,
    toJsonSchema: () => ({ type: "integer", minimum: 1 })
  })
).pipe(Schema.decodeTo(Schema.FiniteFromString))

/** A record's version as an entity tag (RFC 9110, section 8.8.3): `"7"`. */
export const ETag = Schema.String.annotate({
  description: "The version of the record, in double quotes.",
  examples: ['"1"']
})
export const etag = (version: number): string => `"${version}"`

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

/**
 * The currencies in List One of ISO 4217, as of mid-2024 (as in `currency-codes` 2.2.0), with the later changes. XCG has
 * replaced ANG, and XAD is new. CUC is withdrawn, and BGN too, because Bulgaria uses the euro.
 */
const codes = `
  AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BHD BIF BMD BND BOB BOV BRL BSD BTN BWP BYN BZD CAD CDF CHE
  CHF CHW CLF CLP CNY COP COU CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF
  GTQ GYD HKD HNL HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR
  LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN
  PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS
  TMT TND TOP TRY TTD TWD TZS UAH UGX USD USN UYI UYU UYW UZS VED VES VND VUV WST XAD XAF XAG XAU XBA XBB XBC
  XBD XCD XCG XDR XOF XPD XPF XPT XSU XTS XUA XXX YER ZAR ZMW ZWG`

const currencies = new Set(codes.trim().split(/\s+/))

export const Currency = Schema.String.check(
  Schema.makeFilter((text: string) => currencies.has(text), {
    expected: "a current currency code of ISO 4217, such as EUR",
    toJsonSchema: () => ({ enum: [...currencies] })
  })
)
