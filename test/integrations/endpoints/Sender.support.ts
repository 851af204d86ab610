/** Senders that resolve names to the endpoints of a test. */
import { Duration, Effect, Layer } from "effect"
import { networksOf } from "../../../src/integrations/endpoints/Addresses.ts"
import { type Delivery, type Outcome, Sender } from "../../../src/integrations/endpoints/Sender.ts"
import { Names, NameUnresolved } from "../../../src/integrations/endpoints/Sender/Names.ts"

/** Resolves every name to the same addresses. */
export const at = (...addresses: ReadonlyArray<string>) => names(() => Effect.succeed(addresses))

export const names = (resolve: Names["Service"]["resolve"]) => Layer.succeed(Names, { resolve })

export const unknown = Effect.fail(new NameUnresolved({ code: "ENOTFOUND" }))

export interface SenderOptions {
  readonly timeout?: Duration.Input
  readonly allowed?: ReadonlyArray<string>
  readonly names?: Layer.Layer<Names>
}

/** Creates a sender that may call loopback, and resolves every name to it by default. */
export const sender = (options: SenderOptions = {}) =>
  Sender.layerNoDeps({
    timeout: Duration.fromInputUnsafe(options.timeout ?? "10 seconds"),
    allowed: networksOf(options.allowed ?? ["127.0.0.0/8"])
  }).pipe(Layer.provide(options.names ?? at("127.0.0.1")))

export const send = (url: string, delivery: Partial<Delivery> = {}): Effect.Effect<Outcome, never, Sender> =>
  Effect.flatMap(Sender, (sender) =>
    sender.send({ url, body: Buffer.from("{}"), headers: { "content-type": "application/json" }, ...delivery })
  )

/** Returns the status of an outcome, or its error code. */
export const resultOf = (outcome: Outcome) => (outcome._tag === "answered" ? outcome.status : outcome.code)
