/**
 * Decodes PostgreSQL's times directly to the text of the contract (RFC 3339, UTC, milliseconds). Columns of times are
 * `timestamptz`, which the driver decodes to `Date`; statements that read records select them as `timestamp` in UTC
 * (see `Columns.ts`), and this codec decodes that type. No table has a column of it.
 *
 * A `Date` as a parameter is exact: the driver multiplies its milliseconds as doubles, which is not from the year 2255 on.
 */
import { PgTypes } from "@effect/sql-pg"
import { Result } from "effect"

/** Milliseconds between 1970-01-01 and 2000-01-01, the epoch of PostgreSQL. */
const postgresEpoch = 946_684_800_000
const dayMillis = 86_400_000

/**
 * The character codes of `YYYY-MM-DDThh:mm:ss.SSSZ` by day since 1970-01-01; the digits of the time are overwritten. The
 * records of a page have few days. A plain map, as decoding is synchronous.
 */
const templates = new Map<number, Array<number>>()
const maxTemplates = 1_024

const templateOf = (day: number): Array<number> => {
  const known = templates.get(day)
  if (known !== undefined) return known
  if (templates.size >= maxTemplates) templates.clear()
  const template = Array.from(new Date(day * dayMillis).toISOString(), (character) => character.charCodeAt(0))
  templates.set(day, template)
  return template
}

const zero = 48

const putTwo = (codes: Array<number>, at: number, number: number) => {
  const tens = (number / 10) | 0
  codes[at] = zero + tens
  codes[at + 1] = zero + number - 10 * tens
}

/**
 * Formats milliseconds since 1970-01-01 like `Date.prototype.toISOString`, without a `Date` for each time. The text is made
 * of character codes, not of parts: `JSON.stringify` leaves its fast path at the first text that V8 keeps as parts.
 */
export const formatInstant = (millis: number): string => {
  const day = Math.floor(millis / dayMillis)
  const time = (millis - day * dayMillis) | 0
  const codes = templateOf(day)
  // Years of more than four digits make the text longer, so positions count from its end.
  const end = codes.length
  const seconds = (time / 1_000) | 0
  const minutes = (seconds / 60) | 0
  putTwo(codes, end - 13, (minutes / 60) | 0)
  putTwo(codes, end - 10, minutes % 60)
  putTwo(codes, end - 7, seconds % 60)
  const rest = time - 1_000 * seconds
  putTwo(codes, end - 4, (rest / 10) | 0)
  codes[end - 2] = zero + (rest % 10)
  return String.fromCharCode.apply(null, codes)
}

/** Reads the 8 bytes at `offset`, microseconds since 2000-01-01. They are exact below 2^53, and to 16 above. */
const microsAt = (bytes: Uint8Array, offset: number): number =>
  int32(bytes, offset) * 4_294_967_296 + (int32(bytes, offset + 4) >>> 0)

/** Columns hold whole milliseconds, so rounding is exact also beyond the range of exact doubles. */
const read = (bytes: Uint8Array, offset: number): Result.Result<string> =>
  Result.succeed(formatInstant(Math.round(microsAt(bytes, offset) / 1_000) + postgresEpoch))

/** Times of PostgreSQL's clock have microseconds, which a `Date` drops; infinity is an invalid `Date`. */
const readDate = (bytes: Uint8Array, offset: number): Result.Result<Date> => {
  const micros = microsAt(bytes, offset)
  const millis = Number.isSafeInteger(micros) ? Math.trunc(micros / 1_000) : Math.round(micros / 1_000)
  return Result.succeed(new Date(millis + postgresEpoch))
}

const int32 = (bytes: Uint8Array, at: number): number =>
  (byte(bytes, at) << 24) | (byte(bytes, at + 1) << 16) | (byte(bytes, at + 2) << 8) | byte(bytes, at + 3)

const byte = (bytes: Uint8Array, at: number): number => bytes[at] ?? 0

const encode = (millis: number): Result.Result<Uint8Array> => {
  const bytes = new Uint8Array(8)
  new DataView(bytes.buffer).setBigInt64(0, BigInt(millis - postgresEpoch) * 1_000n)
  return Result.succeed(bytes)
}

/** Registers the codecs of `timestamp` and `timestamptz` for every client of the process. */
export const registerTimestamps = (): void => {
  PgTypes.register<string>(PgTypes.OID.timestamp, {
    decode: (bytes) => read(bytes, 0),
    read,
    encode: (text) => encode(Date.parse(text))
  })
  PgTypes.register<Date>(PgTypes.OID.timestamptz, {
    decode: (bytes) => readDate(bytes, 0),
    read: readDate,
    encode: (date) => encode(date.getTime())
  })
}
