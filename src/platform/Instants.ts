/**
 * Decodes PostgreSQL's times directly to the text of the contract (RFC 3339, UTC, milliseconds). Columns of times are
 * `timestamptz`, which the driver decodes to `Date`; statements that read records select them as `timestamp` in UTC
 * (see `Columns.ts`), and this codec decodes that type. No table has a column of it.
 */
import { PgTypes } from "@effect/sql-pg"
import { Result } from "effect"

/** Milliseconds between 1970-01-01 and 2000-01-01, the epoch of PostgreSQL. */
const postgresEpoch = 946_684_800_000
const dayMillis = 86_400_000

const padded = (length: number, digits: number) =>
  Array.from({ length }, (_, number) => String(number).padStart(digits, "0"))
const two = padded(60, 2)
const three = padded(1_000, 3)

/** Formatted dates by day since 1970-01-01. The records of a page have few days. A plain map, as decoding is synchronous. */
const dates = new Map<number, string>()
const maxDates = 1_024

const dateOf = (day: number): string => {
  const known = dates.get(day)
  if (known !== undefined) return known
  if (dates.size >= maxDates) dates.clear()
  const date = new Date(day * dayMillis).toISOString().slice(0, -13)
  dates.set(day, date)
  return date
}

/** Formats milliseconds since 1970-01-01 like `Date.prototype.toISOString`, without a `Date` for each time. */
export const formatInstant = (millis: number): string => {
  const day = Math.floor(millis / dayMillis)
  const time = millis - day * dayMillis
  const seconds = Math.floor(time / 1_000)
  const minutes = Math.floor(seconds / 60)
  return `${dateOf(day)}${two[Math.floor(minutes / 60)]}:${two[minutes % 60]}:${two[seconds % 60]}.${three[time % 1_000]}Z`
}

/**
 * Decodes the 8 bytes at `offset`, microseconds since 2000-01-01. Columns hold whole milliseconds, so rounding is exact
 * also beyond the range of exact doubles.
 */
const read = (bytes: Uint8Array, offset: number): Result.Result<string> => {
  const micros = int32(bytes, offset) * 4_294_967_296 + (int32(bytes, offset + 4) >>> 0)
  return Result.succeed(formatInstant(Math.round(micros / 1_000) + postgresEpoch))
}

const int32 = (bytes: Uint8Array, at: number): number =>
  (byte(bytes, at) << 24) | (byte(bytes, at + 1) << 16) | (byte(bytes, at + 2) << 8) | byte(bytes, at + 3)

const byte = (bytes: Uint8Array, at: number): number => bytes[at] ?? 0

/** Registers the codec of `timestamp` for every client of the process. */
export const registerTimestamps = (): void =>
  PgTypes.register<string>(PgTypes.OID.timestamp, {
    decode: (bytes) => read(bytes, 0),
    read,
    encode: (text) => {
      const bytes = new Uint8Array(8)
      new DataView(bytes.buffer).setBigInt64(0, BigInt(Date.parse(text) - postgresEpoch) * 1_000n)
      return Result.succeed(bytes)
    }
  })
