/** Senders that resolve names to the endpoints of a test. */
import { Duration, Effect } from "effect"
import { isIP } from "node:net"
import { setImmediate } from "node:timers/promises"
import { networksOf } from "../../../src/webhooks/address/Addresses.ts"
import { type SignedRequest, type AttemptOutcome, Sender } from "../../../src/webhooks/address/Sender.ts"
import type { Resolve } from "../../../src/outbound/Connections.ts"

/** Resolves every name to the same addresses. */
export const at =
  (...addresses: ReadonlyArray<string>): Resolve =>
  (host) =>
    Effect.succeed(isIP(host) === 0 ? addresses : [host])

interface SenderOptions {
  readonly timeout?: Duration.Input
  readonly allowed?: ReadonlyArray<string>
  readonly resolve?: Resolve
  readonly keepAllowedAnswers?: boolean
  readonly isOwnPort?: (port: number) => boolean
}

/** Creates a sender that may call loopback, and resolves every name to it by default. */
export const sender = ({
  allowed = ["127.0.0.0/8"],
  resolve = at("127.0.0.1"),
  timeout,
  ...options
}: SenderOptions = {}) =>
  Sender.layer({
    ...options,
    timeout: Duration.fromInputUnsafe(timeout ?? "10 seconds"),
    allowed: networksOf(allowed),
    resolve
  })

/** Sends; returns the outcome in a later turn of the event loop, when the connection is free again. */
export const send = (
  url: string,
  delivery: Partial<SignedRequest> = {}
): Effect.Effect<AttemptOutcome, never, Sender> =>
  Effect.flatMap(Sender, (sender) =>
    sender.send({ url, body: Buffer.from("{}"), headers: { "content-type": "application/json" }, ...delivery })
  ).pipe(Effect.tap(Effect.promise(() => setImmediate().then(() => setImmediate()))))

/** Returns the status of an outcome, or its error code. */
export const resultOf = (outcome: AttemptOutcome) => (outcome._tag === "answered" ? outcome.status : outcome.code)
