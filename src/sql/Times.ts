/**
 * Times of PostgreSQL. Columns of times are `timestamptz`, which is decoded to a `Date`. Statements that read records select a time as
 * `timestamp` in UTC (see `Columns.ts`). No table has a column of type `timestamp`, so the codec of this type can decode to the text
 * of the contract (RFC 3339, UTC, milliseconds), without a `Date`.
 *
 * The codecs encode a `Date` exactly. The driver's own codec multiplies the milliseconds as a double, which is inexact from the
 * year 2255 on. The clock of leases and due times is PostgreSQL's, because all processes share it.
 */
import { type PgProtocol, PgTypes } from "@effect/sql-pg"
import { Clock, Context, Effect, Result } from "effect"
import type { SqlError, Statement } from "effect/sql"
import type { SqlClient as Sql } from "effect/sql/SqlClient"

/** Milliseconds between 1970-01-01 and 2000-01-01, the epoch of PostgreSQL. */
const postgresEpoch = 946_684_800_000
const dayMillis = 86_400_000

/**
 * The character codes of `YYYY-MM-DDThh:mm:ss.SSSZ`, by the number of days since 1970-01-01. The digits of the time are
 * overwritten for each text. Few entries are in use, because the times of a page fall on few days.
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
 * Formats milliseconds since 1970-01-01 like `Date.prototype.toISOString`, without a `Date` for each time. The text is made of
 * character codes. V8 would keep a concatenated text as parts, and `JSON.stringify` would leave its fast path.
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

/**
 * Reads the 8 bytes at `offset`: microseconds since 2000-01-01. The result is exact below 2^53 (the year 2285). Until the year
 * 9999, its error is at most 16 microseconds.
 */
const microsAt = (bytes: Uint8Array, offset: number): number =>
  int32(bytes, offset) * 4_294_967_296 + (int32(bytes, offset + 4) >>> 0)

/**
 * Decodes a time to text. Columns hold whole milliseconds, so the rounded milliseconds are exact even if the microseconds are
 * not.
 */
const read = (bytes: Uint8Array, offset: number): Result.Result<string> =>
  Result.succeed(formatInstant(Math.round(microsAt(bytes, offset) / 1_000) + postgresEpoch))

/** Decodes a time to a `Date`, without the microseconds of PostgreSQL's clock. Infinity becomes an invalid `Date`. */
const readDate = (bytes: Uint8Array, offset: number): Result.Result<Date> => {
  const micros = microsAt(bytes, offset)
  const millis = Number.isSafeInteger(micros) ? Math.trunc(micros / 1_000) : Math.round(micros / 1_000)
  return Result.succeed(new Date(millis + postgresEpoch))
}

const int32 = (bytes: Uint8Array, at: number): number =>
  (byte(bytes, at) << 24) | (byte(bytes, at + 1) << 16) | (byte(bytes, at + 2) << 8) | byte(bytes, at + 3)

const byte = (bytes: Uint8Array, at: number): number => bytes[at] ?? 0

/**
 * Writes a time as two words. As 2^29 ms are 125 · 2^32 µs, the product of the words below is exact in every year, without a `BigInt`
 * for each time.
 */
const write = (sink: Pick<PgProtocol.ValueSink, "int32">, millis: number): Result.Result<void> => {
  const parts = Math.floor((millis - postgresEpoch) / 2 ** 29)
  const rest = 1_000 * (millis - postgresEpoch - parts * 2 ** 29)
  const carry = Math.floor(rest / 2 ** 32)
  sink.int32(125 * parts + carry)
  sink.int32(rest - carry * 2 ** 32)
  return Result.void
}

const encode = (millis: number): Result.Result<Uint8Array> => {
  const view = new DataView(new ArrayBuffer(8))
  let at = 0
  const sink = { int32: (word: number) => view.setInt32(4 * at++, word) }
  return Result.map(write(sink, millis), () => new Uint8Array(view.buffer))
}

/** Registers the codecs of `timestamp` and `timestamptz` for every client of the process. */
export const registerTimestamps = (): void => {
  PgTypes.register<string>(PgTypes.OID.timestamp, {
    decode: (bytes) => read(bytes, 0),
    read,
    encode: (text) => encode(Date.parse(text)),
    write: (sink, text) => write(sink, Date.parse(text))
  })
  PgTypes.register<Date>(PgTypes.OID.timestamptz, {
    decode: (bytes) => readDate(bytes, 0),
    read: readDate,
    encode: (date) => encode(date.getTime()),
    write: (sink, date) => write(sink, date.getTime())
  })
}

/**
 * Returns the current time as an SQL expression. The expression is stable within a statement, so a condition with it can use an
 * index.
 */
export const DatabaseClock = Context.Reference<(sql: Sql) => Effect.Effect<Statement.Fragment>>(
  "developer-api-service/sql/Times/DatabaseClock",
  { defaultValue: () => (sql) => Effect.succeed(sql`statement_timestamp()`) }
)

/** Resolves the clock once, when a service is built. Returns an effect that makes the SQL expression of the current time. */
export const databaseNow = (sql: Sql): Effect.Effect<Effect.Effect<Statement.Fragment>> =>
  Effect.map(DatabaseClock, (clock) => Effect.suspend(() => clock(sql)))

/** Formats a time as in the contract: RFC 3339 in UTC, with milliseconds. */
export const instant = (sql: Sql, time: Statement.Fragment) =>
  sql`to_char(${time} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`

export const later = (sql: Sql, from: Statement.Fragment, millis: number | null): Statement.Fragment =>
  sql`(${from} + ${millis}::float8 * interval '1 millisecond')`

/**
 * Returns the milliseconds by which the clocks of this host and the database differ at least. The database's time is compared with
 * the middle of `before` and `after`. The possible error, half of the time between these, is subtracted.
 */
export const clockDifference = Effect.fnUntraced(function* (sql: Sql): Effect.fn.Return<number, SqlError.SqlError> {
  // The first statement also waits for a connection, so its time is not measured.
  yield* sql`SELECT 1`
  const before = yield* Clock.currentTimeMillis
  const [there] = yield* sql<{ millis: number }>`
    SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS millis`
  const after = yield* Clock.currentTimeMillis
  return Math.max(0, Math.abs((there?.millis ?? 0) - (before + after) / 2) - (after - before) / 2)
})
