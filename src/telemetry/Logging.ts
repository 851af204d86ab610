/** Writes log lines to standard error, with level, message, annotations and trace id, and without secrets. */
import { Cause, Context, Effect, Layer, Logger, References, Tracer } from "effect"
import { Settings } from "../platform/Settings.ts"
import { redactSecrets } from "../platform/Text.ts"

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

/**
 * Returns the messages of an error and of its causes, each once. Of several causes of an error, it takes the first. The last cause of an
 * `SqlError` has the message of PostgreSQL.
 */
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

export const logging = Layer.unwrap(
  Effect.map(Settings, ({ logFormat, logLevel }) => {
    const format = logFormat === "json" ? json : pretty
    const logger = Logger.make<unknown, void>((options) => {
      process.stderr.write(`${redactSecrets(format(toLine(options)))}\n`)
    })
    return Logger.layer([logger]).pipe(Layer.provideMerge(Layer.succeed(References.MinimumLogLevel, logLevel)))
  })
)

/** Number of lines of one kind that are logged without a pause. After them, one line of the kind a second is logged. */
const burst = 50

/**
 * Makes a function that decides whether a line of a kind is logged, so that a flood does not fill the log. It returns an
 * annotation with the number of lines that were left out before this one; undefined if this one is left out. Kinds have to be few.
 */
export const makeAdmits = () => {
  const kinds = new Map<string, { at: number; room: number; left: number }>()
  return (kind: string, now: number): { readonly left_out?: number } | undefined => {
    const known = kinds.get(kind) ?? { at: now, room: burst, left: 0 }
    kinds.set(kind, known)
    known.room = Math.min(burst, known.room + (now - known.at) / 1_000)
    known.at = now
    if (known.room < 1) return void known.left++
    known.room--
    const { left } = known
    known.left = 0
    return left === 0 ? {} : { left_out: left }
  }
}

const admits = makeAdmits()

/** Logs a failure that may occur many times a second, such as that of each statement while the database is away. */
export const logOften = (message: string, error: unknown): Effect.Effect<void> =>
  Effect.suspend(() => {
    const left = admits(message, performance.now())
    return left === undefined ? Effect.void : Effect.annotateLogs(Effect.logWarning(message, error), left)
  })
