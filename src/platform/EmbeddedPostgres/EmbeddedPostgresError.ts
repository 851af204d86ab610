import { Effect, Schema } from "effect"

/**
 * The embedded PostgreSQL could not be created, started or reached. `message` is one line for a person; `reason`
 * tells the code whether another attempt may help.
 *
 * - `PortTaken`: another program listens on the port.
 * - `Busy`: passes by itself (another process is starting or stopping the server, a dead one is still being buried).
 * - `Failed`: stays so until somebody changes something.
 */
export class EmbeddedPostgresError extends Schema.TaggedError<EmbeddedPostgresError>()("EmbeddedPostgresError", {
  reason: Schema.Literals(["PortTaken", "Busy", "Failed"]),
  message: Schema.String,
  cause: Schema.optionalKey(Schema.Defect())
}) {}

/** Runs a promise whose rejection nobody here can mend; `what` names the attempt in the error's message. */
export const attempt = <A>(what: string, promise: () => Promise<A>): Effect.Effect<A, EmbeddedPostgresError> =>
  Effect.tryPromise({
    try: promise,
    catch: (cause) => new EmbeddedPostgresError({ reason: "Failed", message: `${what}: ${firstLine(cause)}`, cause })
  })

const firstLine = (cause: unknown): string => {
  const text = cause instanceof Error ? cause.message : String(cause)
  return text.split("\n", 1).join("")
}
