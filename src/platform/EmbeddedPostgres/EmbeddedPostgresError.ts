import { Effect, Schema } from "effect"

/**
 * The embedded PostgreSQL could not be created, started or reached. `message` is one line for a person; `reason` shows
 * whether a retry may help.
 * - `PortTaken`: another program listens on the port.
 * - `Busy`: temporary (another process starts or stops the server, or the remains of a dead one are being removed).
 * - `Failed`: permanent until an operator changes something.
 */
export class EmbeddedPostgresError extends Schema.TaggedError<EmbeddedPostgresError>()("EmbeddedPostgresError", {
  reason: Schema.Literals(["PortTaken", "Busy", "Failed"]),
  message: Schema.String,
  cause: Schema.optionalKey(Schema.Defect())
}) {}

/** Runs a promise whose rejection no caller can handle; `what` names the attempt in the error's message. */
export const attempt = <A>(what: string, promise: () => Promise<A>): Effect.Effect<A, EmbeddedPostgresError> =>
  Effect.tryPromise({
    try: promise,
    catch: (cause) => new EmbeddedPostgresError({ reason: "Failed", message: `${what}: ${firstLine(cause)}`, cause })
  })

const firstLine = (cause: unknown): string => {
  const text = cause instanceof Error ? cause.message : String(cause)
  return text.split("\n", 1).join("")
}
