/** The settings of the process: environment variables, read once. The README holds their table. */
import {
  Config,
  ConfigProvider,
  Context,
  Data,
  Duration,
  Effect,
  Layer,
  type LogLevel,
  Option,
  Record,
  Redacted,
  Schema,
  SchemaGetter,
  Struct
} from "effect"
import { isIP } from "node:net"
import { faultsOf } from "../api/Faults.ts"
import { defaultConnections, leastConnections } from "./Database/Pools.ts"

/** Zero of any unit is refused. */
const isDuration = /^(?!0+[a-z])[0-9]{1,9}(?:ms|s|m|h|d)$/

/** A duration as settings and commands write it: `250ms`, `5s`, `2m`, `24h`, `7d`; longer than nothing. */
export const DurationText = Schema.String.check(
  Schema.isPattern(isDuration, { expected: "a duration longer than nothing, such as 250ms, 5s, 2m, 24h or 7d" })
).pipe(
  Schema.decodeTo(Schema.Duration, {
    decode: SchemaGetter.transform((text) => {
      const unit = text.replace(/^[0-9]+/, "")
      return Duration.millis(Number.parseInt(text, 10) * (millis[unit] ?? 0))
    }),
    encode: SchemaGetter.transform((duration) => `${Duration.toMillis(duration)}ms`)
  })
)
const millis: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }

const integer = (min: number, max: number) =>
  Schema.String.check(
    Schema.makeFilter((text: string) => /^[0-9]{1,9}$/.test(text) && Number(text) >= min && Number(text) <= max, {
      expected: `an integer from ${min} to ${max}`
    })
  ).pipe(Schema.decodeTo(Schema.FiniteFromString))

const itemsOf = (text: string) => text.split(",").map((item) => item.trim())

/** A comma-separated list; white space around an item doesn't count. */
const list = (isItem: (text: string) => boolean, expected: string) =>
  Schema.String.check(Schema.makeFilter((text: string) => itemsOf(text).every(isItem), { expected })).pipe(
    Schema.decodeTo(Schema.Array(Schema.String), {
      decode: SchemaGetter.transform(itemsOf),
      encode: SchemaGetter.transform((items) => items.join(","))
    })
  )

/** What is added to a time must not lead out of the calendar. */
const Delay = DurationText.check(
  Schema.makeFilter((duration: Duration.Duration) => Duration.toDays(duration) <= 3650, {
    expected: "a duration of at most 3650d"
  })
)

const durations = list((text) => isDuration.test(text), "a list of durations, such as 5s,30s,2m").pipe(
  Schema.decodeTo(Schema.Array(Delay))
)

/** A network in CIDR notation, or one address. */
const isNetwork = (text: string): boolean => {
  const [address = "", prefix = "0", ...rest] = text.split("/")
  const bits = isIP(address) === 4 ? 32 : 128
  return (
    isIP(address) !== 0 &&
    !address.includes("%") &&
    rest.length === 0 &&
    /^[0-9]{1,3}$/.test(prefix) &&
    Number(prefix) <= bits
  )
}

const url = (protocols: ReadonlyArray<string>) =>
  Schema.String.check(
    Schema.makeFilter((text: string) => URL.canParse(text) && protocols.includes(new URL(text).protocol), {
      expected: `a URL that starts with ${protocols.map((protocol) => `${protocol}//`).join(" or ")}`
    })
  )

/** A URL with the place of a trace's id. */
const traceUrl = Schema.String.check(
  Schema.makeFilter((text: string) => text.includes("{traceId}") && /^https?:\/\//.test(text) && URL.canParse(text), {
    expected: "a URL with {traceId} in it, such as https://traces.example.com/{traceId}"
  })
)

const flag = Schema.Literals(["true", "false"]).pipe(
  Schema.decodeTo(Schema.Boolean, {
    decode: SchemaGetter.transform((text) => text === "true"),
    encode: SchemaGetter.transform((value) => (value ? ("true" as const) : ("false" as const)))
  })
)

/** Whether a text is 32 bytes in base64. */
export const isSecretKey = (text: string): boolean => /^[A-Za-z0-9+/]{43}=$/.test(text)

const SecretKey = Schema.String.check(
  Schema.makeFilter(isSecretKey, {
    expected: "32 bytes in base64 (`openssl rand -base64 32`)"
  })
)

const logLevels = { trace: "Trace", debug: "Debug", info: "Info", warn: "Warn", error: "Error", none: "None" } as const

const samplers = [
  "always_on",
  "always_off",
  "traceidratio",
  "parentbased_always_on",
  "parentbased_always_off",
  "parentbased_traceidratio"
] as const

const variables = {
  HOST: Schema.NonEmptyString,
  PORT: integer(0, 65_535),
  PUBLIC_URL: url(["http:", "https:"]),
  DATABASE_URL: url(["postgres:", "postgresql:"]),
  DATABASE_DIRECT_URL: url(["postgres:", "postgresql:"]),
  DATABASE_MAX_CONNECTIONS: integer(leastConnections, 1_000),
  MIGRATE_ON_START: flag,
  DATA_DIR: Schema.NonEmptyString,
  SECRET_KEY: SecretKey,
  SECRET_KEY_PREVIOUS: list(isSecretKey, "a list of keys, 32 bytes in base64 each"),
  REDIS_URL: url(["redis:", "rediss:"]),
  ADMIN_HOST: Schema.NonEmptyString,
  ADMIN_PORT: integer(0, 65_535),
  TRACE_URL_TEMPLATE: traceUrl,
  LOG_LEVEL: Schema.Literals(["trace", "debug", "info", "warn", "error", "none"]),
  LOG_FORMAT: Schema.Literals(["pretty", "json"]),
  SHUTDOWN_GRACE: DurationText,
  IDEMPOTENCY_RETENTION: DurationText,
  MESSAGE_RETENTION: DurationText,
  PROVIDER_TIMEOUT: Delay,
  WEBHOOK_TIMEOUT: Delay,
  WEBHOOK_SECRET_OVERLAP: Delay,
  WEBHOOK_RETRY_SCHEDULE: durations,
  WEBHOOK_DISABLE_AFTER: Delay,
  WEBHOOK_ENDPOINT_CONCURRENCY: integer(1, 1_000),
  WEBHOOK_ALLOWED_NETWORKS: list(isNetwork, "a list of networks, such as 10.0.0.0/8,fd00::/8"),
  OTEL_EXPORTER_OTLP_ENDPOINT: url(["http:", "https:"]),
  OTEL_SERVICE_NAME: Schema.NonEmptyString,
  OTEL_RESOURCE_ATTRIBUTES: Schema.String,
  OTEL_TRACES_SAMPLER: Schema.Literals(samplers),
  OTEL_TRACES_SAMPLER_ARG: Schema.String.check(
    Schema.isPattern(/^(?:0(?:\.[0-9]+)?|1(?:\.0+)?|\.[0-9]+)$/, { expected: "a number from 0 to 1" })
  ).pipe(Schema.decodeTo(Schema.FiniteFromString))
}

const Variables = Schema.Struct(Struct.map(variables, Schema.optionalKey))
const decode = Schema.decodeUnknownEffect(Variables, { errors: "all" })

/** What is wrong with the environment, a line for each variable. */
export class SettingsInvalid extends Data.TaggedError("SettingsInvalid")<{ readonly faults: ReadonlyArray<string> }> {
  override get message() {
    return this.faults.join("\n")
  }
}

/** The settings, with their defaults filled in. */
export interface SettingsShape {
  readonly host: string
  /** 0 lets the system choose. */
  readonly port: number
  readonly publicUrl: Option.Option<string>
  /** None: the embedded PostgreSQL under `dataDir`. */
  readonly databaseUrl: Option.Option<Redacted.Redacted>
  /** For what needs a session of its own; some where `databaseUrl` leads to a pooler in transaction mode. */
  readonly databaseDirectUrl: Option.Option<Redacted.Redacted>
  /** Most connections of the process, in any role. */
  readonly databaseMaxConnections: number
  readonly migrateOnStart: boolean
  readonly dataDir: string
  /** None: one is made and kept under `dataDir`. */
  readonly secretKey: Option.Option<Redacted.Redacted>
  /** Keys that open what they have sealed, and seal nothing more. */
  readonly secretKeyPrevious: ReadonlyArray<Redacted.Redacted>
  readonly redisUrl: Option.Option<Redacted.Redacted>
  readonly adminHost: string
  readonly adminPort: Option.Option<number>
  /** Address of a trace, with `{traceId}` in the place of its id. */
  readonly traceUrlTemplate: Option.Option<string>
  readonly logLevel: LogLevel.LogLevel
  readonly logFormat: "pretty" | "json"
  readonly shutdownGrace: Duration.Duration
  readonly idempotencyRetention: Duration.Duration
  /** Of sent and failed messages, and of the recipients of campaigns that have ended. */
  readonly messageRetention: Duration.Duration
  /** Of one call of a messaging provider, over everything from DNS to the end of the answer. */
  readonly providerTimeout: Duration.Duration
  readonly webhooks: WebhookSettings
  readonly telemetry: Option.Option<TelemetrySettings>
}

/** How webhooks are delivered. */
export interface WebhookSettings {
  /** Of one attempt, over everything from DNS to the end of the answer. */
  readonly timeout: Duration.Duration
  /** How long the old secret signs after a rotation. */
  readonly secretOverlap: Duration.Duration
  /** The delay before each retry; one attempt more than that, and a delivery is dead. */
  readonly retrySchedule: ReadonlyArray<Duration.Duration>
  /** Time without a success after which a failing endpoint's webhook is disabled. */
  readonly disableAfter: Duration.Duration
  /** Deliveries in flight to one endpoint, of all replicas together. */
  readonly endpointConcurrency: number
  /** Networks in CIDR notation that webhooks may reach though they are not public. */
  readonly allowedNetworks: ReadonlyArray<string>
}

/** Where traces, metrics and logs go, and how much of the traces. */
export interface TelemetrySettings {
  readonly endpoint: string
  readonly serviceName: string
  readonly resourceAttributes: Record<string, string>
  readonly sampler: (typeof samplers)[number]
  readonly samplerArgument: number
}

export class Settings extends Context.Service<Settings, SettingsShape>()("developer-api/platform/Settings") {
  static readonly layer = Layer.effect(
    Settings,
    Effect.gen(function* () {
      const environment = yield* readEnvironment
      const faults: Array<string> = []
      const settings = yield* decode(environment).pipe(
        Effect.catchTag("SchemaError", (error) => {
          faults.push(...faultsOf(error.issue).map(({ message, path }) => `${path.join(".")} ${message}`))
          return Effect.void
        })
      )
      if ("DATABASE_URL" in environment && !("SECRET_KEY" in environment)) {
        faults.push("SECRET_KEY is required when DATABASE_URL is set: 32 bytes in base64 (`openssl rand -base64 32`)")
      }
      if ("DATABASE_DIRECT_URL" in environment && !("DATABASE_URL" in environment)) {
        faults.push("DATABASE_DIRECT_URL is only for use beside DATABASE_URL, where that leads to a pooler")
      }
      const attributes = parseAttributes(environment["OTEL_RESOURCE_ATTRIBUTES"] ?? "")
      if (attributes === undefined) faults.push("OTEL_RESOURCE_ATTRIBUTES must be a list such as key=value,key=value")
      if (settings === undefined || attributes === undefined || faults.length > 0) {
        return yield* new SettingsInvalid({ faults })
      }
      return shape(settings, attributes)
    })
  )
}

/** The variables that are set; an empty one counts as unset, as compose files write it. */
const readEnvironment = Effect.gen(function* () {
  const provider = yield* ConfigProvider.ConfigProvider
  const read = Config.all(Record.map(variables, (_, name) => Config.option(Config.String(name))))
  const values = yield* Effect.orDie(read.parse(provider))
  return Record.getSomes(
    Record.map(
      values,
      Option.filter((text) => text !== "")
    )
  )
})

const redacted = (text: string | undefined) => Option.map(Option.fromUndefinedOr(text), (value) => Redacted.make(value))

const shape = (settings: typeof Variables.Type, resourceAttributes: Record<string, string>): SettingsShape => ({
  host: settings.HOST ?? "127.0.0.1",
  port: settings.PORT ?? 3000,
  publicUrl: Option.map(Option.fromUndefinedOr(settings.PUBLIC_URL), (text) => text.replace(/\/+$/, "")),
  databaseUrl: redacted(settings.DATABASE_URL),
  databaseDirectUrl: redacted(settings.DATABASE_DIRECT_URL),
  databaseMaxConnections: settings.DATABASE_MAX_CONNECTIONS ?? defaultConnections,
  migrateOnStart: settings.MIGRATE_ON_START ?? true,
  dataDir: settings.DATA_DIR ?? ".data",
  secretKey: redacted(settings.SECRET_KEY),
  secretKeyPrevious: (settings.SECRET_KEY_PREVIOUS ?? []).map((key) => Redacted.make(key)),
  redisUrl: redacted(settings.REDIS_URL),
  adminHost: settings.ADMIN_HOST ?? "127.0.0.1",
  adminPort: Option.fromUndefinedOr(settings.ADMIN_PORT),
  traceUrlTemplate: Option.fromUndefinedOr(settings.TRACE_URL_TEMPLATE),
  logLevel: logLevels[settings.LOG_LEVEL ?? "info"],
  logFormat: settings.LOG_FORMAT ?? "pretty",
  shutdownGrace: settings.SHUTDOWN_GRACE ?? Duration.seconds(25),
  idempotencyRetention: settings.IDEMPOTENCY_RETENTION ?? Duration.days(7),
  messageRetention: settings.MESSAGE_RETENTION ?? Duration.days(90),
  providerTimeout: settings.PROVIDER_TIMEOUT ?? Duration.seconds(10),
  webhooks: {
    timeout: settings.WEBHOOK_TIMEOUT ?? Duration.seconds(15),
    secretOverlap: settings.WEBHOOK_SECRET_OVERLAP ?? Duration.hours(24),
    retrySchedule: settings.WEBHOOK_RETRY_SCHEDULE ?? usualRetries,
    disableAfter: settings.WEBHOOK_DISABLE_AFTER ?? Duration.days(5),
    endpointConcurrency: settings.WEBHOOK_ENDPOINT_CONCURRENCY ?? 4,
    // Whoever tries the service out has their receiver on the same machine.
    allowedNetworks:
      settings.WEBHOOK_ALLOWED_NETWORKS ?? (settings.DATABASE_URL === undefined ? ["127.0.0.0/8", "::1/128"] : [])
  },
  telemetry: Option.map(Option.fromUndefinedOr(settings.OTEL_EXPORTER_OTLP_ENDPOINT), (endpoint) => ({
    endpoint: endpoint.replace(/\/+$/, ""),
    serviceName: settings.OTEL_SERVICE_NAME ?? resourceAttributes["service.name"] ?? "developer-api",
    resourceAttributes,
    sampler: settings.OTEL_TRACES_SAMPLER ?? "parentbased_always_on",
    samplerArgument: settings.OTEL_TRACES_SAMPLER_ARG ?? 1
  }))
})

const usualRetries = [
  Duration.seconds(5),
  Duration.seconds(30),
  Duration.minutes(2),
  Duration.minutes(10),
  Duration.minutes(30),
  Duration.hours(2),
  Duration.hours(6),
  Duration.hours(12),
  Duration.hours(24),
  Duration.hours(30)
]

/** `key=value,key=value` with percent-encoded values (OpenTelemetry resource SDK). */
const parseAttributes = (text: string): Record<string, string> | undefined => {
  const attributes: Record<string, string> = {}
  for (const pair of text.split(",").filter((pair) => pair.trim() !== "")) {
    const [key = "", ...value] = pair.split("=")
    if (key.trim() === "" || value.length === 0 || /%(?![0-9A-Fa-f]{2})/.test(pair)) return undefined
    attributes[key.trim()] = decodeURIComponent(value.join("=").trim())
  }
  return attributes
}
