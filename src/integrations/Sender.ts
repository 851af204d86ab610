/** Sends deliveries over HTTP to endpoints that are not trusted: only to checked addresses, within one deadline. */
import { Clock, Context, Duration, Effect, Layer, Option, References, Result } from "effect"
import { freshConnections, keptConnections } from "../platform/outbound/Connections.ts"
import { postAttributes } from "../platform/outbound/ClientSpan.ts"
import { type Answer, exchange, ExchangeFailed, retryDelay } from "../platform/outbound/Exchange.ts"
import { Settings } from "../platform/Settings.ts"
import { type AllowedNetworks, classify, networksOf } from "./Addresses.ts"
import { checkEndpoint, type Endpoint, mayConnect } from "./EndpointUrl.ts"
import { Names } from "./Sender/Names.ts"

interface SenderConfig {
  /** Maximum duration from the resolution of the name to the end of the answer (`WEBHOOK_TIMEOUT`). */
  readonly timeout: Duration.Duration
  /** `WEBHOOK_ALLOWED_NETWORKS`. */
  readonly allowed: AllowedNetworks
}

export interface Delivery {
  readonly url: string
  readonly body: string | Uint8Array
  /** Names in lower case. The sender adds `host`, `content-length`, `accept-encoding` and `connection`. */
  readonly headers: Readonly<Record<string, string>>
}

/** The reason of a failure without an answer. Codes are stable and stored with the attempt. */
type FailureCode = ExchangeFailed["code"] | "timeout" | "address_refused" | "internal"

/** `retryAfter` is the delay of the endpoint's `Retry-After`, from now on. */
export type Outcome =
  | { readonly _tag: "answered"; readonly status: number; readonly retryAfter: Option.Option<Duration.Duration> }
  | { readonly _tag: "failed"; readonly code: FailureCode }

/** Maximum number of URLs whose checked endpoints are cached. */
const maxTargets = 10_000

/** Whether the endpoint has accepted the delivery. */
export const isSuccess = (outcome: Outcome): boolean =>
  outcome._tag === "answered" && outcome.status >= 200 && outcome.status < 300

/** Returns the `error.type` of an outcome; undefined if it is a success. */
export const errorOf = (outcome: Outcome): string | undefined => {
  if (isSuccess(outcome)) return undefined
  return outcome._tag === "answered" ? String(outcome.status) : outcome.code
}

/** Maximum number of bytes that are read of an answer's body. */
const bodyLimit = 16_384

export class Sender extends Context.Service<
  Sender,
  {
    /**
     * POSTs a delivery. Never fails: any status, and the absence of an answer, is an outcome. Follows no redirect. The
     * endpoint may receive the delivery twice, if a kept connection breaks before the answer begins. Interruption destroys
     * the connection. The current span gets the attributes of an HTTP client.
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
        /** Returns the endpoint of a URL, from the cache or checked now; none if it may not be called. */
        const targetOf = (url: string) => {
          const known = targets.get(url)
          if (known !== undefined) return known
          if (targets.size >= maxTargets) targets.clear()
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
          const checked = addresses.filter((address) => mayConnect(url, classify(address, config.allowed)))
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
              // The URL was allowed when it was configured: the operator has removed allowed networks since.
              if (Option.isNone(target)) return Effect.succeed(failed("address_refused"))
              return addressesOf(target.value).pipe(
                Effect.flatMap((addresses) => post(target.value, addresses, delivery, until)),
                Effect.catchTags({
                  NameUnresolved: () => Effect.succeed(failed("dns_failed")),
                  ExchangeFailed: ({ code }) => Effect.succeed(failed(code))
                }),
                Effect.tap((outcome) =>
                  // Without a tracer nothing uses the attributes, and they cost more than the signature.
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

  /** With the timeout and the allowed networks of the settings. */
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
