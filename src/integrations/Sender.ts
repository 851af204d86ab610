/** Sends deliveries over HTTP to endpoints that nobody vouches for: only to checked addresses, within one deadline. */
import { Clock, Context, type Duration, Effect, Layer, type Option, Result } from "effect"
import { freshAgents, keptAgents } from "../platform/outbound/Agents.ts"
import { postAttributes } from "../platform/outbound/ClientSpan.ts"
import { type Answer, exchange, type ExchangeFailed } from "../platform/outbound/Exchange.ts"
import { delayOf } from "../platform/outbound/RetryAfter.ts"
import { type AllowedNetworks, judge } from "./Addresses.ts"
import { checkEndpoint, mayConnect } from "./EndpointUrl.ts"
import { Names } from "./Sender/Names.ts"

export interface SenderConfig {
  /** From the first question for an address to the end of the answer (`WEBHOOK_TIMEOUT`). */
  readonly timeout: Duration.Duration
  /** `WEBHOOK_ALLOWED_NETWORKS`. */
  readonly allowed: AllowedNetworks
}

export interface Delivery {
  readonly url: string
  readonly body: Uint8Array
  /** In lower case. `host`, `content-length`, `accept-encoding` and `connection` are the sender's. */
  readonly headers: Readonly<Record<string, string>>
}

/** Why there was no answer: stable, stored with the attempt. */
export type FailureCode = ExchangeFailed["code"] | "timeout" | "address_refused" | "internal"

/** `retryAfter` is how long the endpoint asks to be left alone, counted from now. */
export type Outcome =
  | { readonly _tag: "answered"; readonly status: number; readonly retryAfter: Option.Option<Duration.Duration> }
  | { readonly _tag: "failed"; readonly code: FailureCode }

/** Whether the endpoint has taken the delivery. */
export const isSuccess = (outcome: Outcome): boolean =>
  outcome._tag === "answered" && outcome.status >= 200 && outcome.status < 300

/** What was wrong, as `error.type` tells it. */
export const errorOf = (outcome: Outcome): string | undefined => {
  if (isSuccess(outcome)) return undefined
  return outcome._tag === "answered" ? String(outcome.status) : outcome.code
}

/** No more of an answer's body is read. */
const bodyLimit = 16_384

export class Sender extends Context.Service<
  Sender,
  {
    /**
     * POSTs a delivery, and never fails: an answer of any status is an outcome like none at all. Follows no redirect. The
     * endpoint may get the delivery twice, when a kept connection breaks before the answer begins. Interruption destroys
     * the connection. The current span is annotated as an HTTP client's.
     */
    readonly send: (delivery: Delivery) => Effect.Effect<Outcome>
  }
>()("developer-api/integrations/Sender") {
  static readonly layerNoDeps = (config: SenderConfig) =>
    Layer.effect(
      Sender,
      Effect.gen(function* () {
        const names = yield* Names
        const kept = yield* keptAgents

        const attempt = Effect.fnUntraced(function* (delivery: Delivery) {
          const endpoint = checkEndpoint(delivery.url, config.allowed)
          // Taken once, and yet not allowed now: the operator has closed networks since.
          if (Result.isFailure(endpoint)) return failed("address_refused")
          const { host, url } = endpoint.success
          yield* Effect.annotateCurrentSpan(postAttributes(url))
          const addresses = endpoint.success.isAddress ? [host] : yield* names.resolve(host)
          const checked = addresses.filter((address) => mayConnect(url, judge(address, config.allowed)))
          if (checked.length === 0) return failed("address_refused")
          const post = { url, addresses: checked, headers: delivery.headers, body: delivery.body, bodyLimit }
          const answer = yield* exchange(kept, post).pipe(
            Effect.catchIf(
              ({ stale }) => stale,
              () => exchange(freshAgents(), post)
            )
          )
          return answered(answer, yield* Clock.currentTimeMillis)
        })

        return {
          send: (delivery) =>
            attempt(delivery).pipe(
              Effect.catchTags({
                NameUnresolved: () => Effect.succeed(failed("dns_failed")),
                ExchangeFailed: ({ code }) => Effect.succeed(failed(code))
              }),
              Effect.timeoutOrElse({
                duration: config.timeout,
                orElse: () => Effect.succeed(failed("timeout"))
              }),
              Effect.tap((outcome) =>
                outcome._tag === "answered"
                  ? Effect.annotateCurrentSpan("http.response.status_code", outcome.status)
                  : Effect.void
              )
            )
        }
      })
    )

  static readonly layer = (config: SenderConfig) => Sender.layerNoDeps(config).pipe(Layer.provide(Names.layer))
}

const failed = (code: FailureCode): Outcome => ({ _tag: "failed", code })

const answered = ({ retryAfter, status }: Answer, now: number): Outcome => ({
  _tag: "answered",
  status,
  retryAfter: delayOf(retryAfter, now)
})
