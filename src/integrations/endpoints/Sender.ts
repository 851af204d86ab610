/** Sends deliveries over HTTP to endpoints that are not trusted: only to checked addresses, within one deadline. */
import { Clock, Context, Duration, Effect, Layer, Option, References, Result } from "effect"
import {
  type Destination,
  destinationOf,
  freshConnections,
  keptConnections
} from "../../platform/outbound/Connections.ts"
import { postAttributes } from "../../platform/outbound/ClientSpan.ts"
import { type Answer, exchange, type ExchangeFailed, retryDelay } from "../../platform/outbound/Exchange.ts"
import { Settings } from "../../platform/Settings.ts"
import { type AllowedNetworks, classify, networksOf } from "./Addresses.ts"
import { checkEndpoint, type Endpoint, mayConnect } from "./EndpointUrl.ts"
import { textOf } from "./Sender/AnswerText.ts"
import { Names } from "./Sender/Names.ts"

interface SenderConfig {
  /** Maximum duration from the resolution of the name to the end of the answer (`WEBHOOK_TIMEOUT`). */
  readonly timeout: Duration.Duration
  /** Networks that may be called though not public (`WEBHOOK_ALLOWED_NETWORKS`). */
  readonly allowed: AllowedNetworks
}

export interface Delivery {
  readonly url: string
  readonly body: string | Uint8Array
  /** Names in lower case. The sender adds `host`, `content-length`, `accept-encoding` and `connection`. */
  readonly headers: Readonly<Record<string, string>>
}

/** Why an attempt got no answer. Attempt logs store the codes, so existing codes must not change. */
type FailureCode = ExchangeFailed["code"] | "timeout" | "address_refused" | "internal"

/**
 * `retryAfter` is the delay that the endpoint requests, counted from the end of the attempt. `body` is the part of the answer that the
 * attempt log keeps; null for a success and for an answer without a body.
 */
export type Outcome =
  | {
      readonly _tag: "answered"
      readonly status: number
      readonly retryAfter: Option.Option<Duration.Duration>
      readonly body: string | null
    }
  | { readonly _tag: "failed"; readonly code: FailureCode }

/**
 * An allowed URL. `resolved` has the addresses of its host at the last call. `destination` is undefined if none of them may be
 * called.
 */
interface Target {
  readonly endpoint: Endpoint
  /** The host of the URL if the host is an address; undefined if it is a name. */
  readonly literal: ReadonlyArray<string> | undefined
  resolved: ReadonlyArray<string>
  destination: Destination | undefined
}

/** Maximum number of URLs whose targets are cached. */
const maxTargets = 10_000

export const isSuccess = (outcome: Outcome): boolean => outcome._tag === "answered" && is2xx(outcome.status)

const is2xx = (status: number) => status >= 200 && status < 300

/** Returns the span attribute `error.type` for an outcome; undefined for a success. */
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
     * POSTs a delivery. Never fails: every status is an outcome, and so is a missing answer. Follows no redirect. If a kept
     * connection breaks before the answer begins, the request is sent again, so the endpoint may receive it twice.
     * Interruption destroys the connection. The current span gets the attributes of an HTTP client.
     */
    readonly send: (delivery: Delivery) => Effect.Effect<Outcome>
  }
>()("developer-api/integrations/endpoints/Sender") {
  static readonly layerNoDeps = (config: SenderConfig) =>
    Layer.effect(
      Sender,
      Effect.gen(function* () {
        const names = yield* Names
        const kept = yield* keptConnections
        const timeout = Duration.toMillis(config.timeout)

        const targets = new Map<string, Option.Option<Target>>()
        /** None if the URL may not be called. */
        const targetOf = (url: string) => {
          const known = targets.get(url)
          if (known !== undefined) return known
          if (targets.size >= maxTargets) targets.clear()
          const target = Option.map(Result.getSuccess(checkEndpoint(url, config.allowed)), (endpoint): Target => ({
            endpoint,
            literal: endpoint.isAddress ? [endpoint.host] : undefined,
            resolved: [],
            destination: undefined
          }))
          targets.set(url, target)
          return target
        }

        /** Undefined if none of the addresses may be called. The same list is not checked again. */
        const destinationAt = (target: Target, addresses: ReadonlyArray<string>) => {
          if (target.resolved === addresses) return target.destination
          const { url } = target.endpoint
          const checked = addresses.filter((address) => mayConnect(url, classify(address, config.allowed)))
          target.resolved = addresses
          target.destination = checked.length === 0 ? undefined : destinationOf(url, checked)
          return target.destination
        }

        const post = (target: Target, addresses: ReadonlyArray<string>, { body, headers }: Delivery, until: number) => {
          const to = destinationAt(target, addresses)
          if (to === undefined) return Effect.succeed(failed("address_refused"))
          const post = { to, headers, body, bodyLimit, until }
          return Effect.matchEffect(exchange(kept, post), {
            onSuccess: answered,
            onFailure: ({ code, stale }) =>
              stale
                ? Effect.matchEffect(exchange(freshConnections, post), { onSuccess: answered, onFailure: unanswered })
                : Effect.succeed(failed(code))
          })
        }

        const resolved = (target: Target, delivery: Delivery, until: number) =>
          names.resolve(target.endpoint.host).pipe(
            Effect.timeoutOption(config.timeout),
            Effect.flatMap(
              Option.match({
                onNone: () => Effect.succeed(failed("timeout")),
                onSome: (addresses) => post(target, addresses, delivery, until)
              })
            ),
            Effect.orElseSucceed(() => failed("dns_failed"))
          )

        return {
          send: (delivery) =>
            Effect.withFiber((fiber) => {
              const until = performance.now() + timeout
              const target = Option.getOrUndefined(targetOf(delivery.url))
              // The URL was allowed when it was configured. Since then, the operator has removed its network from the allowed
              // networks.
              if (target === undefined) return Effect.succeed(failed("address_refused"))
              const { endpoint, literal } = target
              const sent =
                literal === undefined ? resolved(target, delivery, until) : post(target, literal, delivery, until)
              // Computing the attributes takes more CPU time than the signature, and only a tracer uses them.
              return fiber.getRef(References.TracerEnabled)
                ? Effect.tap(sent, (outcome) => Effect.annotateCurrentSpan(attributes(endpoint, outcome)))
                : sent
            })
        }
      })
    )

  static readonly layer = (config: SenderConfig) => Sender.layerNoDeps(config).pipe(Layer.provide(Names.layer))

  static readonly layerOfSettings = Layer.unwrap(
    Effect.map(Settings, ({ webhooks }) =>
      Sender.layer({ timeout: webhooks.timeout, allowed: networksOf(webhooks.allowedNetworks) })
    )
  )
}

const failed = (code: FailureCode): Outcome => ({ _tag: "failed", code })

const unanswered = ({ code }: ExchangeFailed) => Effect.succeed(failed(code))

const answered = ({ body: bytes, retryAfter, status }: Answer): Effect.Effect<Outcome> => {
  const body = is2xx(status) ? null : textOf(bytes)
  return Option.isNone(retryAfter)
    ? Effect.succeed({ _tag: "answered", status, retryAfter: Option.none(), body })
    : Effect.map(Clock.currentTimeMillis, (now) => ({
        _tag: "answered",
        status,
        retryAfter: retryDelay(retryAfter, now),
        body
      }))
}

const attributes = ({ url }: Endpoint, outcome: Outcome) => ({
  ...postAttributes(url),
  ...(outcome._tag === "answered" ? { "http.response.status_code": outcome.status } : {})
})
