/**
 * The settings of the process: environment variables, read once. `deploy/SETTINGS.md` has a table of them.
 *
 * Each setting has a row in `variables` with its format, and a member in `settingsOf` with its default.
 */
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
  Struct
} from "effect"
import { faultsOf } from "../api/schema/Faults.ts"
import { defaultConnections, leastConnections } from "./Pools.ts"
import {
  Attributes,
  CellName,
  Delay,
  Delays,
  DurationText,
  Flag,
  integer,
  Hosts,
  Networks,
  Ratio,
  RetentionTime,
  SecretKeyText,
  SecretKeyTexts,
  TraceUrl,
  url
} from "./Formats.ts"

const logLevels = {
  trace: "Trace",
  debug: "Debug",
  info: "Info",
  warn: "Warn",
  error: "Error",
  none: "None"
} as const satisfies Record<string, LogLevel.LogLevel>

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
  PUBLIC_URL: url("http:", "https:"),
  DATABASE_URL: url("postgres:", "postgresql:"),
  DATABASE_DIRECT_URL: url("postgres:", "postgresql:"),
  DATABASE_MAX_CONNECTIONS: integer(leastConnections, 1_000),
  MIGRATE_ON_START: Flag,
  DATA_DIR: Schema.NonEmptyString,
  SECRET_KEY: SecretKeyText,
  SECRET_KEY_PREVIOUS: SecretKeyTexts,
  REDIS_URL: url("redis:", "rediss:"),
  ADMIN_HOST: Schema.NonEmptyString,
  ADMIN_ALLOWED_HOSTS: Hosts,
  ADMIN_PORT: integer(0, 65_535),
  METRICS_PORT: integer(0, 65_535),
  CELL: CellName,
  MCP: Flag,
  TRACE_URL_TEMPLATE: TraceUrl,
  LOG_LEVEL: Schema.Literals(Struct.keys(logLevels)),
  LOG_FORMAT: Schema.Literals(["pretty", "json"]),
  SHUTDOWN_GRACE: DurationText,
  IDEMPOTENCY_RETENTION: RetentionTime,
  MESSAGE_RETENTION: RetentionTime,
  PROVIDER_TIMEOUT: Delay,
  WEBHOOK_TIMEOUT: Delay,
  WEBHOOK_SECRET_OVERLAP: Delay,
  WEBHOOK_RETRY_SCHEDULE: Delays,
  WEBHOOK_DISABLE_AFTER: Delay,
  WEBHOOK_ENDPOINT_CONCURRENCY: integer(1, 1_000),
  WEBHOOK_ALLOWED_NETWORKS: Networks,
  WEBHOOK_KEEP_ALLOWED_ANSWERS: Flag,
  OTEL_EXPORTER_OTLP_ENDPOINT: url("http:", "https:"),
  OTEL_SERVICE_NAME: Schema.NonEmptyString,
  OTEL_RESOURCE_ATTRIBUTES: Attributes,
  OTEL_TRACES_SAMPLER: Schema.Literals(samplers),
  OTEL_TRACES_SAMPLER_ARG: Ratio,
  TRACE_SQL_TEXT: Flag
}

const Variables = Schema.Struct(Struct.map(variables, Schema.optionalKey))
const decode = Schema.decodeUnknownEffect(Variables, { errors: "all" })

const defaultRetrySchedule = [
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

const redacted = (text: string | undefined) => Option.map(Option.fromUndefinedOr(text), (value) => Redacted.make(value))
const withoutTrailingSlashes = (text: string) => text.replace(/\/+$/, "")

const settingsOf = (given: typeof Variables.Type) => ({
  host: given.HOST ?? "127.0.0.1",
  /** 0: the operating system chooses a free port. */
  port: given.PORT ?? 3000,
  publicUrl: Option.map(Option.fromUndefinedOr(given.PUBLIC_URL), withoutTrailingSlashes),
  /** If none, the embedded PostgreSQL under `dataDir` is used. */
  databaseUrl: redacted(given.DATABASE_URL),
  /** The URL of PostgreSQL itself, for pools that need sessions. Needed if `databaseUrl` is a pooler in transaction mode. */
  databaseDirectUrl: redacted(given.DATABASE_DIRECT_URL),
  /** Maximum number of connections of the process to PostgreSQL, in every role (`--role`). */
  databaseMaxConnections: given.DATABASE_MAX_CONNECTIONS ?? defaultConnections,
  migrateOnStart: given.MIGRATE_ON_START ?? true,
  dataDir: given.DATA_DIR ?? ".data",
  /** If none, a key is generated and stored under `dataDir`. */
  secretKey: redacted(given.SECRET_KEY),
  /** Keys that still open stored secrets and cursors. New secrets and cursors use only `secretKey`. */
  secretKeyPrevious: (given.SECRET_KEY_PREVIOUS ?? []).map((key) => Redacted.make(key)),
  redisUrl: redacted(given.REDIS_URL),
  adminHost: given.ADMIN_HOST ?? "127.0.0.1",
  /** Names by which the admin port is reached, besides the loopback's. */
  adminAllowedHosts: given.ADMIN_ALLOWED_HOSTS ?? [],
  adminPort: Option.fromUndefinedOr(given.ADMIN_PORT),
  /** A port of `host` for the metrics alone. */
  metricsPort: Option.fromUndefinedOr(given.METRICS_PORT),
  /**
   * The name of this cell: one of several databases, each with its processes. The ids of API keys that are issued here begin
   * with this name.
   */
  cell: Option.fromUndefinedOr(given.CELL),
  mcp: given.MCP ?? true,
  /** The address at which an operator opens a trace; `{traceId}` stands for the id of the trace. */
  traceUrlTemplate: Option.fromUndefinedOr(given.TRACE_URL_TEMPLATE),
  logLevel: logLevels[given.LOG_LEVEL ?? "info"],
  logFormat: given.LOG_FORMAT ?? "pretty",
  shutdownGrace: given.SHUTDOWN_GRACE ?? Duration.seconds(25),
  idempotencyRetention: given.IDEMPOTENCY_RETENTION ?? Duration.days(7),
  /** How long sent and failed messages are kept, and the recipients of campaigns that have ended. */
  messageRetention: given.MESSAGE_RETENTION ?? Duration.days(90),
  /** Maximum duration of a call to a messaging provider, from DNS to the end of the answer. */
  providerTimeout: given.PROVIDER_TIMEOUT ?? Duration.seconds(10),
  webhooks: {
    /** Maximum duration of a delivery attempt, from DNS to the end of the answer. */
    timeout: given.WEBHOOK_TIMEOUT ?? Duration.seconds(15),
    /** After a rotation, deliveries are also signed with the old secret for this time. */
    secretOverlap: given.WEBHOOK_SECRET_OVERLAP ?? Duration.hours(24),
    /** The delay before each retry. A delivery whose last retry fails is dead. */
    retrySchedule: given.WEBHOOK_RETRY_SCHEDULE ?? defaultRetrySchedule,
    /** A webhook is disabled when its endpoint has failed for this time without a success. */
    disableAfter: given.WEBHOOK_DISABLE_AFTER ?? Duration.days(5),
    /** Maximum number of deliveries in flight to one endpoint, over all processes of the service. */
    endpointConcurrency: given.WEBHOOK_ENDPOINT_CONCURRENCY ?? 4,
    /**
     * Networks that are not public, but that webhooks may reach. Default: loopback with the embedded PostgreSQL, otherwise none.
     */
    allowedNetworks:
      given.WEBHOOK_ALLOWED_NETWORKS ?? (given.DATABASE_URL === undefined ? ["127.0.0.0/8", "::1/128"] : []),
    /** Whether attempt logs keep the answers from these networks, which tenants can read. */
    keepAllowedAnswers: given.WEBHOOK_KEEP_ALLOWED_ANSWERS ?? false
  },
  /** The destination of traces, metrics and logs. If none, they are not exported. */
  telemetry: Option.map(Option.fromUndefinedOr(given.OTEL_EXPORTER_OTLP_ENDPOINT), (endpoint) => ({
    endpoint: withoutTrailingSlashes(endpoint),
    serviceName: given.OTEL_SERVICE_NAME ?? given.OTEL_RESOURCE_ATTRIBUTES?.["service.name"] ?? "developer-api",
    resourceAttributes: given.OTEL_RESOURCE_ATTRIBUTES ?? {},
    sampler: given.OTEL_TRACES_SAMPLER ?? ("parentbased_always_on" as const),
    samplerArgument: given.OTEL_TRACES_SAMPLER_ARG ?? 1,
    /** Whether spans have the text of their statement. */
    sqlText: given.TRACE_SQL_TEXT ?? false
  }))
})

type SettingsShape = Readonly<ReturnType<typeof settingsOf>>
export type TelemetrySettings = Option.Option.Value<SettingsShape["telemetry"]>

/** Returns settings for the log: without secrets, without settings that are not set, and with URLs without credentials. */
export const shown = (value: unknown): unknown => {
  if (Redacted.isRedacted(value)) return "[redacted]"
  if (Option.isOption(value)) return Option.getOrUndefined(Option.map(value, shown))
  if (Duration.isDuration(value)) return Duration.format(value)
  if (Array.isArray(value)) return value.map(shown)
  if (typeof value === "string") return value.replace(/\/\/[^/@]*@/, "//")
  return typeof value === "object" && value !== null ? Record.map({ ...value }, shown) : value
}

/** The environment has invalid variables. Each fault is one line, which begins with the name of its variable. */
class SettingsInvalid extends Data.TaggedError("SettingsInvalid")<{ readonly faults: ReadonlyArray<string> }> {
  override get message() {
    return this.faults.join("\n")
  }
}

export class Settings extends Context.Service<Settings, SettingsShape>()("developer-api-service/platform/Settings") {
  static readonly layer = Layer.effect(
    Settings,
    Effect.gen(function* () {
      const environment = yield* readEnvironment
      const faults: Array<string> = []
      const given = yield* decode(environment).pipe(
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
      if (given === undefined || faults.length > 0) return yield* new SettingsInvalid({ faults })
      return settingsOf(given)
    })
  )
}

/** An empty variable counts as absent, because a compose file makes an absent variable empty. */
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
