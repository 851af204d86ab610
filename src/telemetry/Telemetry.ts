/**
 * OpenTelemetry: exports traces, metrics and logs over OTLP/HTTP if an endpoint is set. Log lines go to standard error, with level, message,
 * annotations and trace id. Secrets are redacted.
 */
import { Cause, Context, Effect, Layer, Logger, Metric, Option, References, Tracer } from "effect"
import { Settings } from "../platform/Settings.ts"
import { redactSecrets } from "../platform/Text.ts"

/** Whether metrics are recorded: if they are exported by OTLP, or shown by a port of this process. */
export const MetricsEnabled = Context.Reference<boolean>("developer-api-service/telemetry/Telemetry/MetricsEnabled", {
  defaultValue: () => false
})

const metricsEnabled = Layer.effect(
  MetricsEnabled,
  Effect.map(
    Settings,
    ({ adminPort, databaseUrl, metricsPort, telemetry }) =>
      Option.isSome(adminPort) || Option.isSome(metricsPort) || Option.isNone(databaseUrl) || Option.isSome(telemetry)
  )
)

/** A metric has its name in Prometheus, and a description, which the answer of `/metrics` shows. */
export const gauge = (name: string, description: string) => Metric.gauge(name, { description })

export const counter = (name: string, description: string) => Metric.counter(name, { description, incremental: true })

export const histogram = (name: string, description: string, boundaries: ReadonlyArray<number>) =>
  Metric.histogram(name, { description, boundaries })

/** Creates series of metrics at 0: Prometheus does not count the first event of a series that begins at 1. */
export const atZero = (series: ReadonlyArray<Metric.Metric<number, unknown>>): Effect.Effect<void> =>
  Effect.contextWith((context: Context.Context<never>) => {
    if (Context.get(context, MetricsEnabled)) for (const each of series) each.valueUnsafe(context)
    return Effect.void
  })

/** Adds one to a counter, if metrics are recorded. */
export const increment = (counter: Metric.Counter<number>): Effect.Effect<void> =>
  Effect.flatMap(MetricsEnabled, (measured) => (measured ? Metric.update(counter, 1) : Effect.void))

/** The SDK is loaded only if an endpoint is set, because loading it takes longer than the rest of a start. */
const exported = Layer.unwrap(
  Effect.gen(function* () {
    const { telemetry } = yield* Settings
    if (Option.isNone(telemetry)) return Layer.succeed(References.TracerEnabled, false)
    const { exporters } = yield* Effect.promise(() => import("./Otlp.ts"))
    return exporters(telemetry.value)
  })
)

export const layer = Layer.provideMerge(exported, metricsEnabled)

const toLine = ({ cause, date, fiber, logLevel, message }: Logger.Options<unknown>) => {
  const span = fiber.getRef(References.TracerEnabled)
    ? Context.getOrUndefined(fiber.context, Tracer.ParentSpan)
    : undefined
  return {
    time: date.toISOString(),
    level: logLevel.toUpperCase(),
    message: (Array.isArray(message) ? message : [message]).map(text).join(" "),
    traceId: span?.traceId,
    spanId: span?.spanId,
    annotations: fiber.getRef(References.CurrentLogAnnotations),
    cause: cause.reasons.length === 0 ? undefined : Cause.pretty(cause)
  }
}

type Line = ReturnType<typeof toLine>

const text = (part: unknown): string => {
  if (typeof part === "string") return part
  if (Cause.isCause(part)) return Cause.pretty(part)
  return part instanceof Error ? messagesOf(part).join(": ") : JSON.stringify(part)
}

/** Returns the distinct messages of an error and of its causes, of several the first. PostgreSQL's is in the last of an `SqlError`. */
const messagesOf = (error: Error): ReadonlyArray<string> => {
  const messages = new Set<string>()
  let cause: unknown = error
  for (let depth = 0; depth < 5 && cause instanceof Error; depth++) {
    messages.add(cause.message)
    cause = cause instanceof AggregateError ? cause.errors[0] : cause.cause
  }
  return [...messages].filter((message) => message !== "")
}

const json = (line: Line): string => {
  const { annotations, ...members } = line
  return JSON.stringify({ ...annotations, ...members })
}

const pretty = ({ annotations, cause, level, message, time, traceId }: Line): string => {
  const context = Object.entries({ ...annotations, ...(traceId === undefined ? {} : { traceId }) })
  const details = context.map(([name, value]) => ` ${name}=${text(value)}`).join("")
  return `${time.slice(11, 23)} ${level.padEnd(5)} ${message}${details}${cause === undefined ? "" : `\n${cause}`}`
}

/** Writes log lines. */
export const logging = Layer.unwrap(
  Effect.map(Settings, ({ logFormat, logLevel }) => {
    const format = logFormat === "json" ? json : pretty
    const logger = Logger.make<unknown, void>((options) => {
      process.stderr.write(`${redactSecrets(format(toLine(options)))}\n`)
    })
    return Logger.layer([logger]).pipe(Layer.provideMerge(Layer.succeed(References.MinimumLogLevel, logLevel)))
  })
)
