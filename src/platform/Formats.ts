/** Schemas that decode the text of settings. */
import { Duration, Result, Schema, SchemaGetter } from "effect"
import * as IpInterface from "effect/net/IpInterface"
import { isIPv6 } from "node:net"

/** The lookahead refuses zero in any unit. */
const durationPattern = /^(?!0+[a-z])[0-9]{1,9}(?:ms|s|m|h|d)$/

const unitMillis: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** A duration as settings and commands write it: `250ms`, `5s`, `2m`, `24h`, `7d`; longer than zero. */
export const DurationText = Schema.String.check(
  Schema.isPattern(durationPattern, {
    expected: "a duration in ms, s, m, h or d that is longer than zero, such as 250ms, 5s, 2m, 24h or 7d"
  })
).pipe(
  Schema.decodeTo(Schema.Duration, {
    decode: SchemaGetter.transform((text) => {
      const unit = text.replace(/^[0-9]+/, "")
      return Duration.millis(Number.parseInt(text, 10) * (unitMillis[unit] ?? 0))
    }),
    encode: SchemaGetter.transform((duration) => `${Duration.toMillis(duration)}ms`)
  })
)

const upToDays = (days: number) =>
  DurationText.check(
    Schema.makeFilter((duration: Duration.Duration) => Duration.toDays(duration) <= days, {
      expected: `a duration of at most ${days}d`
    })
  )

/** A duration that is added to times. The maximum keeps each sum a valid date. */
export const Delay = upToDays(3650)

/** A duration for which records are kept. Thanks to the maximum, PostgreSQL supports the current time minus the duration. */
export const RetentionTime = upToDays(365_000)

export const integer = (min: number, max: number) =>
  Schema.String.check(
    Schema.makeFilter((text: string) => /^[0-9]{1,9}$/.test(text) && Number(text) >= min && Number(text) <= max, {
      expected: `an integer from ${min} to ${max}`
    })
  ).pipe(Schema.decodeTo(Schema.FiniteFromString))

const itemsOf = (text: string) => text.split(",").map((item) => item.trim())

const list = (isItem: (text: string) => boolean, expected: string) =>
  Schema.String.check(Schema.makeFilter((text: string) => itemsOf(text).every(isItem), { expected })).pipe(
    Schema.decodeTo(Schema.Array(Schema.String), {
      decode: SchemaGetter.transform(itemsOf),
      encode: SchemaGetter.transform((items) => items.join(","))
    })
  )

export const Delays = list((text) => durationPattern.test(text), "a list of durations, such as 5s,30s,2m").pipe(
  Schema.decodeTo(Schema.Array(Delay))
)

export const Hosts = list(
  (text) => /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/.test(text) || isIPv6(text),
  "a list of hosts in lower case, without ports, such as admin.example.com,metrics,fd00::1"
)

export const Networks = list(
  (text) => Result.isSuccess(IpInterface.fromString(text, { prefix: "optional" })),
  "a list of networks, such as 10.0.0.0/8,fd00::/8"
)

export const url = (...protocols: ReadonlyArray<string>) =>
  Schema.String.check(
    Schema.makeFilter((text: string) => URL.canParse(text) && protocols.includes(new URL(text).protocol), {
      expected: `a URL that starts with ${protocols.map((protocol) => `${protocol}//`).join(" or ")}`
    })
  )

export const TraceUrl = Schema.String.check(
  Schema.makeFilter((text: string) => text.includes("{traceId}") && /^https?:\/\//.test(text) && URL.canParse(text), {
    expected: "a URL with {traceId} in it, such as https://traces.example.com/{traceId}"
  })
)

export const Flag = Schema.Literals(["true", "false"]).pipe(
  Schema.decodeTo(Schema.Boolean, {
    decode: SchemaGetter.transform((text) => text === "true"),
    encode: SchemaGetter.transform((value) => (value ? ("true" as const) : ("false" as const)))
  })
)

export const CellName = Schema.String.check(
  Schema.isPattern(/^[0-9A-Za-z]{2}$/, { expected: "two characters of 0-9, A-Z and a-z" })
)

export const isSecretKey = (text: string): boolean => /^[A-Za-z0-9+/]{43}=$/.test(text)

export const SecretKeyText = Schema.String.check(
  Schema.makeFilter(isSecretKey, { expected: "32 bytes in base64 (`openssl rand -base64 32`)" })
)

export const SecretKeyTexts = list(isSecretKey, "a list of keys, 32 bytes in base64 each")

export const Ratio = Schema.String.check(
  Schema.isPattern(/^(?:0(?:\.[0-9]+)?|1(?:\.0+)?|\.[0-9]+)$/, { expected: "a number from 0 to 1" })
).pipe(Schema.decodeTo(Schema.FiniteFromString))

const pairsOf = (text: string) =>
  text
    .split(",")
    .filter((pair) => pair.trim() !== "")
    .map((pair) => {
      const [key = "", ...value] = pair.split("=")
      return { key: key.trim(), value: value.length === 0 ? undefined : value.join("=").trim() }
    })

/** `key=value,key=value` with percent-encoded values (OpenTelemetry resource SDK). */
export const Attributes = Schema.String.check(
  Schema.makeFilter(
    (text: string) =>
      !/%(?![0-9A-Fa-f]{2})/.test(text) && pairsOf(text).every(({ key, value }) => key !== "" && value !== undefined),
    { expected: "a list such as key=value,key=value" }
  )
).pipe(
  Schema.decodeTo(Schema.Record(Schema.String, Schema.String), {
    decode: SchemaGetter.transform((text) =>
      Object.fromEntries(pairsOf(text).map(({ key, value = "" }) => [key, decodeURIComponent(value)]))
    ),
    encode: SchemaGetter.transform((attributes) =>
      Object.entries(attributes)
        .map(([key, value]) => `${key}=${encodeURIComponent(value)}`)
        .join(",")
    )
  })
)
