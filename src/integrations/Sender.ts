/** Sends deliveries over HTTP to endpoints that nobody vouches for: only to checked addresses, within one deadline. */
import { Clock, Context, Duration, Effect, Layer, Option, References, Result } from "effect"
import { freshConnections, keptConnections } from "../platform/outbound/Connections.ts"
import { postAttributes } from "../platform/outbound/ClientSpan.ts"
import { type Answer, exchange, ExchangeFailed, retryDelay } from "../platform/outbound/Exchange.ts"
import { Settings } from "../platform/Settings.ts"
import { type AllowedNetworks, judge, networksOf } from "./Addresses.ts"
import { checkEndpoint, type Endpoint, mayConnect } from "./EndpointUrl.ts"
import { Names } from "./Sender/Names.ts"

export interface SenderConfig {
  /** From the first question for an address to the end of the answer (`WEBHOOK_TIMEOUT`). */
  readonly timeout: Duration.Duration
  /** `WEBHOOK_ALLOWED_NETWORKS`. */
  readonly allowed: AllowedNetworks
}

export interface Delivery {
  readonly url: string
  readonly body: string | Uint8Array
  /** In lower case. `host`, `content-length`, `accept-encoding` and `connection` are the sender's. */
  readonly headers: Readonly<Record<string, string>>
}

/** Why there was no answer: stable, stored with the attempt. */
export type FailureCode = ExchangeFailed["code"] | "timeout" | "address_refused" | "internal"

/** `retryAfter` is how long the endpoint asks to be left alone, counted from now. */
export type Outcome =
  | { readonly _tag: "answered"; readonly status: number; readonly retryAfter: Option.Option<Duration.Duration> }
  | { readonly _tag: "failed"; readonly code: FailureCode }

/** URLs whose endpoints are remembered. */
const targetsInAll = 10_000

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
        const kept = yield* keptConnections
        const timeout = Duration.toMillis(config.timeout)

        const targets = new Map<string, Option.Option<Endpoint>>()
        /** What a URL leads to, if it may be called; the same URLs come again and again. */
        const targetOf = (url: string) => {
          const known = targets.get(url)
          if (known !== undefined) return known
          if (targets.size >= targetsInAll) targets.clear()
          const target = Result.getSuccess(checkEndpoint(url, config.allowed))
          targets.set(url, target)
          return target
        }

        const addressesOf = ({ host, isAddress }: Endpoint) =>
          isAddress
            ? Effect.succeed([host])
            : Effect.timeoutOrElse(names.resolve(host), {
                duration: config.timeout,
                orElse: () => Effect.fail(new ExchangeFailed({ code: "timeout", stale: false }))
              })

        const post = (endpoint: Endpoint, addresses: ReadonlyArray<string>, delivery: Delivery, until: number) => {
          const { url } = endpoint
          const checked = addresses.filter((address) => mayConnect(url, judge(address, config.allowed)))
          if (checked.length === 0) return Effect.succeed(failed("address_refused"))
          const { body, headers } = delivery
          const post = { url, addresses: checked, headers, body, bodyLimit, until }
          return exchange(kept, post).pipe(
            Effect.catchIf(
              ({ stale }) => stale,
              () => exchange(freshConnections, post)
            ),
            Effect.flatMap(answered)
          )
        }

        return {
          send: (delivery) =>
            Effect.suspend(() => {
              const until = performance.now() + timeout
              const target = targetOf(delivery.url)
              // Taken once, and yet not allowed now: the operator has closed networks since.
              if (Option.isNone(target)) return Effect.succeed(failed("address_refused"))
              return addressesOf(target.value).pipe(
                Effect.flatMap((addresses) => post(target.value, addresses, delivery, until)),
                Effect.catchTags({
                  NameUnresolved: () => Effect.succeed(failed("dns_failed")),
                  ExchangeFailed: ({ code }) => Effect.succeed(failed(code))
                }),
                Effect.tap((outcome) =>
                  // Worked out for nobody, they would cost more than the signature.
                  Effect.flatMap(References.TracerEnabled, (traced) =>
                    traced ? Effect.annotateCurrentSpan(attributes(target.value, outcome)) : Effect.void
                  )
                )
              )
            })
        }
      })
    )

  static readonly layer = (config: SenderConfig) => Sender.layerNoDeps(config).pipe(Layer.provide(Names.layer))

  /** As the settings bound it. */
  static readonly layerOfSettings = Layer.unwrap(
    Effect.map(Settings, ({ webhooks }) =>
      Sender.layer({ timeout: webhooks.timeout, allowed: networksOf(webhooks.allowedNetworks) })
    )
  )
}

const failed = (code: FailureCode): Outcome => ({ _tag: "failed", code })

const answered = ({ retryAfter, status }: Answer): Effect.Effect<Outcome> =>
  Option.isNone(retryAfter)
    ? Effect.succeed({ _tag: "answered", status, retryAfter: Option.none() })
    : Effect.map(Clock.currentTimeMillis, (now) => ({
        _tag: "answered",
        status,
        retryAfter: retryDelay(retryAfter, now)
      }))

const attributes = ({ url }: Endpoint, outcome: Outcome) => ({
  ...postAttributes(url),
  ...(outcome._tag === "answered" ? { "http.response.status_code": outcome.status } : {})
})
