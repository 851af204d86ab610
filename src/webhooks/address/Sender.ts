/** Sends deliveries over HTTP to endpoints that are not trusted: only to checked addresses, within one deadline. */
import { Clock, Context, Duration, Effect, Layer, Option, References, Result } from "effect"
import {
  cacheAddresses,
  ConnectFailed,
  type FindAddresses,
  makeConnections,
  makeIdleConnections,
  type Resolve,
  resolveName
} from "../../outbound/Connections.ts"
import {
  type Answer,
  type Destination,
  destinationOf,
  exchange,
  type ExchangeFailed,
  postAttributes,
  retryDelay
} from "../../outbound/Exchange.ts"
import { Settings } from "../../platform/Settings.ts"
import { checkUrl, classify, mayConnect, type Networks, networksOf, ownNetworks, ownPorts } from "./Addresses.ts"
import { redactSecrets } from "../../platform/Text.ts"

interface SenderConfig {
  /** Maximum duration from the resolution of the name to the end of the answer (`WEBHOOK_TIMEOUT`). */
  readonly timeout: Duration.Duration
  /** Networks that may be called though not public (`WEBHOOK_ALLOWED_NETWORKS`). */
  readonly allowed: Networks
  /** Whether answers from these networks are kept (`WEBHOOK_KEEP_ALLOWED_ANSWERS`). Default: no. */
  readonly keepAllowedAnswers?: boolean
  /** Whether a port of this machine is one of the service, which is never called. Default: none is. */
  readonly isOwnPort?: (port: number) => boolean
  /** Default: as the system does, cached. */
  readonly resolve?: Resolve
}

/** A delivery, or a test event, with its headers and signatures. */
export interface SignedRequest {
  readonly url: string
  readonly body: string | Uint8Array
  /** The sender adds `host`, `content-length`, `accept-encoding` and `connection`. */
  readonly headers: Readonly<Record<string, string>>
  /** Texts that are redacted from the answer that the attempt log keeps. Default: none. */
  readonly secrets?: ReadonlyArray<string>
}

/** Why an attempt got no answer. Attempt logs store the codes, so existing codes must not change. */
type FailureCode = ExchangeFailed["code"] | "internal"

/**
 * `retryAfter` is the delay that the endpoint requests, counted from the end of the attempt. `body` is the part of the answer that the
 * attempt log keeps; null for a success, for an answer without a body, and for one from an allowed network.
 */
export type AttemptOutcome =
  | {
      readonly _tag: "answered"
      readonly status: number
      readonly retryAfter: Option.Option<Duration.Duration>
      readonly body: string | null
    }
  | { readonly _tag: "failed"; readonly code: FailureCode }

export const isSuccess = (outcome: AttemptOutcome): boolean => outcome._tag === "answered" && is2xx(outcome.status)

const is2xx = (status: number) => status >= 200 && status < 300

/** Returns the span attribute `error.type` for an outcome; undefined for a success. */
export const errorOf = (outcome: AttemptOutcome): string | undefined => {
  if (isSuccess(outcome)) return undefined
  return outcome._tag === "answered" ? String(outcome.status) : outcome.code
}

/** Maximum number of bytes that are read of an answer's body. */
const bodyLimit = 16_384

export class Sender extends Context.Service<
  Sender,
  {
    /**
     * POSTs a request. Never fails: every status is an outcome, and so is a missing answer. Follows no redirect. If a kept
     * connection breaks before the answer begins, the request is sent again, so the endpoint may receive it twice.
     * Interruption destroys the connection. The current span gets the attributes of an HTTP client.
     */
    readonly send: (request: SignedRequest) => Effect.Effect<AttemptOutcome>
  }
>()("developer-api-service/webhooks/address/Sender") {
  static readonly layer = (config: SenderConfig) =>
    Layer.effect(
      Sender,
      Effect.gen(function* () {
        const { allowed, keepAllowedAnswers = false } = config
        const timeout = Duration.toMillis(config.timeout)
        const find = addressesOf(config.resolve ?? (yield* cacheAddresses(resolveName())), config)
        const kept = makeConnections(find, yield* makeIdleConnections)
        const fresh = makeConnections(find)

        const answered = (
          { address, body, retryAfter, status }: Answer,
          secrets: ReadonlyArray<string> | undefined
        ): Effect.Effect<AttemptOutcome> => {
          const isKept = !is2xx(status) && (keepAllowedAnswers || classify(address, allowed) === "public")
          const keptBody = isKept ? textOf(body, secrets) : null
          const outcomeOf = (delay: Option.Option<Duration.Duration>): AttemptOutcome => ({
            _tag: "answered",
            status,
            retryAfter: delay,
            body: keptBody
          })
          return Option.isNone(retryAfter)
            ? Effect.succeed(outcomeOf(Option.none()))
            : Effect.map(Clock.currentTimeMillis, (now) => outcomeOf(retryDelay(retryAfter, now)))
        }

        const destinationFor = makeDestinations(allowed)

        const post = (to: Destination, { body, headers, secrets }: SignedRequest) => {
          const post = { to, headers, body, bodyLimit, until: performance.now() + timeout }
          const onSuccess = (answer: Answer) => answered(answer, secrets)
          return Effect.matchEffect(exchange(kept, post), {
            onSuccess,
            onFailure: ({ code, stale }) =>
              stale
                ? Effect.matchEffect(exchange(fresh, post), { onSuccess, onFailure: unanswered })
                : Effect.succeed(failed(code))
          })
        }

        return {
          send: (request) =>
            Effect.withFiber((fiber) => {
              const to = destinationFor(request.url)
              // The URL was allowed when it was configured. Since then, the operator has removed its network from the allowed
              // networks.
              if (Option.isNone(to)) return Effect.succeed(failed("address_refused"))
              const sent = post(to.value, request)
              // Computing the attributes takes more CPU time than the signature, and only a tracer uses them.
              return fiber.getRef(References.TracerEnabled)
                ? Effect.tap(sent, (outcome) => Effect.annotateCurrentSpan(attributes(to.value.url, outcome)))
                : sent
            })
        }
      })
    )

  static readonly layerOfSettings = Layer.unwrap(
    Effect.map(Settings, (settings) => {
      const { allowedNetworks, keepAllowedAnswers, timeout } = settings.webhooks
      return Sender.layer({
        timeout,
        allowed: networksOf(allowedNetworks),
        keepAllowedAnswers,
        isOwnPort: ownPorts(settings)
      })
    })
  )
}

/** Maximum number of URLs that are kept as checked. */
const maxChecked = 10_000

/** Returns a function that gives the destination of a URL, or none if the URL may not be called. It checks each URL once. */
const makeDestinations = (allowed: Networks) => {
  const checked = new Map<string, Option.Option<Destination>>()
  return (text: string) => {
    const known = checked.get(text)
    if (known !== undefined) return known
    if (checked.size >= maxChecked) checked.clear()
    const found = Option.map(Result.getSuccess(checkUrl(text, allowed)), ({ url }) => destinationOf(url))
    checked.set(text, found)
    return found
  }
}

/** Finds those addresses of a host that may be called. */
const addressesOf =
  (resolve: Resolve, { allowed, isOwnPort = () => false }: SenderConfig): FindAddresses =>
  ({ host, port, protocol }) =>
    Effect.flatMap(resolve(host), (addresses) => {
      const own = networksOf(isOwnPort(port) ? ownNetworks() : [])
      const callable = addresses.filter(
        (address) => mayConnect(protocol, classify(address, allowed)) && classify(address, own) !== "allowed"
      )
      return callable.length > 0
        ? Effect.succeed(callable)
        : Effect.fail(new ConnectFailed({ code: "address_refused" }))
    })

const failed = (code: FailureCode): AttemptOutcome => ({ _tag: "failed", code })

const unanswered = ({ code }: ExchangeFailed) => Effect.succeed(failed(code))

const attributes = (url: URL, outcome: AttemptOutcome) => ({
  ...postAttributes(url),
  ...(outcome._tag === "answered" ? { "http.response.status_code": outcome.status } : {})
})

const kept = 1_024
/**
 * Number of bytes that are searched for secrets. It is more than `kept`, the number that the log keeps: a secret that the cut
 * divides is recognized only as a whole.
 */
const searched = 2 * kept

/**
 * Returns the first 1,024 bytes of a body as text without secrets, those in `secrets` included, or null for an empty body. U+0000,
 * which PostgreSQL cannot store in text, and bytes that are not UTF-8 become U+FFFD. A character that the cut splits is left out.
 */
const textOf = (body: Uint8Array, secrets: ReadonlyArray<string> = []): string | null => {
  if (body.byteLength === 0) return null
  const given = patternOf(secrets)
  const redact = (text: string) => redactSecrets(given === undefined ? text : text.replace(given, "[redacted]"))
  const text = redact(decode(body, kept))
  return body.byteLength <= kept ? text : commonStart(text, redact(decode(body, searched)))
}

/** Matches the texts, also as they are in a JSON string. A longer text comes before a text that begins it. */
const patternOf = (secrets: ReadonlyArray<string>) => {
  const texts = secrets.flatMap((secret) => [secret.trim(), JSON.stringify(secret.trim()).slice(1, -1)]).filter(Boolean)
  return texts.length === 0
    ? undefined
    : new RegExp(
        texts
          .toSorted((one, other) => other.length - one.length)
          .map((text) => RegExp.escape(text))
          .join("|"),
        "g"
      )
}

const decode = (body: Uint8Array, limit: number) =>
  new TextDecoder("utf-8", { ignoreBOM: true })
    .decode(body.subarray(0, limit), { stream: body.byteLength > limit })
    .replaceAll("\u0000", "\uFFFD")

const commonStart = (one: string, other: string): string => {
  if (other.startsWith(one)) return one
  let end = 0
  while (one[end] === other[end]) end++
  return one.slice(0, end)
}
