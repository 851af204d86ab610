/**
 * The interface of connectors (contract §8), which `Connectors.ts` lists; the outcomes of their calls, in two tables, by the status of
 * the answer and by failure; and one call over HTTP, with its own connection, deadline and span.
 */
import { Clock, Duration, Effect, Option, Redacted, Schema } from "effect"
import type { ConversationId, MessageId } from "../../api/schema/Ids.ts"
import type { ProviderType } from "../../api/messaging/Messaging.ts"
import { text } from "../../api/schema/Fields.ts"
import { makeConnections, resolveName } from "../../outbound/Connections.ts"
import {
  destinationOf,
  exchange,
  type ExchangeFailed,
  inClientSpan,
  postAttributes,
  retryDelay,
  userAgent
} from "../../outbound/Exchange.ts"
import { redactSecrets } from "../../platform/Text.ts"

/** The outcome of one provider call. Error codes are stable and stored with the attempt. */
export type CallOutcome =
  | { readonly _tag: "accepted"; readonly providerMessageId: string }
  | (Failed & { readonly _tag: "refused" })
  /** The message was certainly not processed. It may be sent again after `retryAfter`. */
  | (Failed & { readonly _tag: "postponed"; readonly retryAfter: Option.Option<Duration.Duration> })
  /** The message may have been processed. */
  | (Failed & { readonly _tag: "unknown" })

interface Failed {
  readonly errorCode: string
  /** The beginning of what the provider answered, without secrets. */
  readonly reason?: string
}

type Meaning = CallOutcome["_tag"]

/** Outcomes by status: the first row that contains the status applies. `accepted` also requires an answer that can be decoded. */
const statuses: ReadonlyArray<{ readonly from: number; readonly to: number; readonly means: Meaning }> = [
  { from: 200, to: 299, means: "accepted" },
  // Redirects are not followed, and the provider may have processed the message before it redirected.
  { from: 300, to: 399, means: "unknown" },
  // The provider stopped waiting, possibly after it had received the whole request.
  { from: 408, to: 408, means: "unknown" },
  { from: 429, to: 429, means: "postponed" },
  { from: 400, to: 499, means: "refused" },
  { from: 503, to: 503, means: "postponed" },
  // The provider failed while it processed the message, or a gateway lost the provider's answer.
  { from: 500, to: 599, means: "unknown" },
  // All other statuses. No final HTTP answer has one of them.
  { from: 100, to: 999, means: "unknown" }
]

/** Outcomes by error code. A failure before the connection is established is `postponed`, because no request was written. */
const failures = {
  /** No key of this process opens the channel's sealed config, so no call can be made. */
  config_unreadable: "postponed",
  dns_failed: "postponed",
  /** This host lacks file descriptors, ports or memory for a connection. */
  host_exhausted: "postponed",
  /** The connection is refused, or the host is unreachable. */
  connect_failed: "postponed",
  /** The TLS handshake failed, or the certificate does not match the host. */
  tls_failed: "postponed",
  /** The deadline passed before the connection was established. */
  connect_timeout: "postponed",
  /** The deadline passed before the answer was complete. */
  timeout: "unknown",
  /** The connection ended before the answer was complete. */
  connection_lost: "unknown",
  /** The answer is not HTTP, or is a success without the provider's message id. */
  unreadable_answer: "unknown"
} as const satisfies Record<string, Exclude<Meaning, "accepted">>

type Failure = keyof typeof failures

/**
 * Failures that count for the channel's circuit breaker: the provider cannot be reached, hangs, or cannot be called by this
 * process. An exhausted host says nothing about the channel.
 */
const unanswered = new Set<string>(
  Object.keys(failures).filter((failure) => failure !== "unreadable_answer" && failure !== "host_exhausted")
)

export const isUnanswered = (outcome: CallOutcome): boolean =>
  outcome._tag !== "accepted" && unanswered.has(outcome.errorCode)

/** Longer `Retry-After` values are reduced to this. */
const longestRetryAfter = Duration.hours(1)

export const meaningOf = (status: number): Meaning =>
  statuses.find(({ from, to }) => from <= status && status <= to)?.means ?? "unknown"

/** Returns the outcome of an answer without a message id. `source` is the prefix of the error code. */
export const byStatus = (
  source: Exclude<ProviderType, "sandbox">,
  status: number,
  retryAfter: Option.Option<Duration.Duration>
): CallOutcome => {
  const means = meaningOf(status)
  return means === "accepted" ? byFailure("unreadable_answer") : outcome(means, `${source}_${status}`, retryAfter)
}

export const byFailure = (failure: Failure): CallOutcome => outcome(failures[failure], failure, Option.none())

const outcome = (
  means: Exclude<Meaning, "accepted">,
  errorCode: string,
  retryAfter: Option.Option<Duration.Duration>
): CallOutcome =>
  means === "postponed"
    ? { _tag: means, errorCode, retryAfter: Option.map(retryAfter, (delay) => Duration.min(delay, longestRetryAfter)) }
    : { _tag: means, errorCode }

export interface Outgoing {
  /** The idempotency key of providers with idempotent sends. */
  readonly messageId: MessageId
  readonly conversationId: ConversationId | null
  readonly recipient: string
  readonly text: string
}

/** The protocol of one type of provider. */
interface Connector<Config extends Schema.Top> {
  readonly config: Config
  /** Members of `config` that a project file may omit, with their values in a new channel. */
  readonly defaults: Partial<Config["Type"]>
  /** Whether a repeated send with the same message id has no second effect. */
  readonly idempotent: boolean
  /** Calls the provider once. Never fails, and ends within `timeout`. */
  readonly send: (config: Config["Type"], message: Outgoing, timeout: Duration.Duration) => Effect.Effect<CallOutcome>
}

/** Declares a connector, and infers the type of its config. */
export const connector = <Config extends Schema.Top>(declared: Connector<Config>): Connector<Config> => declared

const isHttpUrl = (text: string) => {
  if (!URL.canParse(text)) return false
  const { password, protocol, username } = new URL(text)
  return ["http:", "https:"].includes(protocol) && username === "" && password === ""
}

/**
 * A URL that the operator has chosen, so any address is allowed. Credentials in the URL are refused, because they would not be
 * sent.
 */
export const HttpUrl = text(1, 2048).check(
  Schema.makeFilter(isHttpUrl, {
    expected: "an http or https URL without credentials",
    toJsonSchema: () => ({ format: "uri" })
  })
)

export const secret = (pattern: RegExp, expected: string) =>
  Schema.RedactedFromValue(text(1, 500).check(Schema.isPattern(pattern, { expected })))

interface Call {
  readonly messageId: MessageId
  /** The URL may contain a secret: only its origin is logged and traced. */
  readonly url: URL
  /** JSON in UTF-8 with its headers, made within the call's span. */
  readonly request: Effect.Effect<{ readonly body: Uint8Array; readonly headers: Readonly<Record<string, string>> }>
  readonly outcomeOf: (reply: Reply) => CallOutcome
  /** The words in an answer that is no acceptance. Default: its whole body. */
  readonly reasonOf?: (reply: Reply) => Option.Option<string>
  /** A secret that an answer could repeat. */
  readonly secret: Redacted.Redacted
}

export interface Reply {
  readonly status: number
  /** None if the body exceeds 64 KiB. */
  readonly body: Option.Option<Uint8Array>
  readonly retryAfter: Option.Option<Duration.Duration>
}

/** Maximum number of bytes read of an answer: one more than the allowed 64 KiB, to recognize a longer body. */
const bodyLimit = 64 * 1024 + 1

const resolve = resolveName()

const connections = makeConnections(({ host }) => resolve(host))

/**
 * Calls the provider once. The operator has chosen the URL, so its host may have any address. Interruption destroys the
 * connection.
 */
export const call = (
  timeout: Duration.Duration,
  { messageId, outcomeOf, reasonOf = wholeBody, request, secret, url }: Call
): Effect.Effect<CallOutcome> =>
  Effect.suspend(() => {
    let reason: Option.Option<string> = Option.none()
    const outcomeWithReason = (reply: Reply) => {
      reason = reasonOf(reply)
      return outcomeOf(reply)
    }
    return called(timeout, { outcomeOf: outcomeWithReason, request, url }).pipe(
      inClientSpan(errorOf, { attributes: { ...postAttributes(url), "message.id": messageId } }),
      // The span ends before, as its status has the outcome.
      Effect.map((outcome) => (outcome._tag === "accepted" ? outcome : withReason(outcome, reason, secret)))
    )
  })

const called = (
  timeout: Duration.Duration,
  { outcomeOf, request, url }: Pick<Call, "outcomeOf" | "request" | "url">
): Effect.Effect<CallOutcome> =>
  Effect.gen(function* () {
    const { body, headers } = yield* request
    const post = {
      to: destinationOf(url),
      headers: { "content-type": "application/json", "user-agent": userAgent, ...headers },
      body,
      bodyLimit
    }
    let mayBeWritten = false
    // A new connection each time: if a reused one is stale, it is unknown whether the request was processed.
    return yield* exchange(connections, post, () => (mayBeWritten = true)).pipe(
      Effect.flatMap(({ body: bytes, isWhole, retryAfter, status }) =>
        Effect.gen(function* () {
          yield* Effect.annotateCurrentSpan("http.response.status_code", status)
          const body = isWhole ? Option.some(bytes) : Option.none()
          const reply = { status, body, retryAfter: retryDelay(retryAfter, yield* Clock.currentTimeMillis) }
          return outcomeOf(reply)
        })
      ),
      Effect.catchTag("ExchangeFailed", ({ code }) => Effect.succeed(byFailure(failureOf(code, mayBeWritten)))),
      Effect.timeoutOrElse({
        duration: timeout,
        orElse: () => Effect.succeed(byFailure(mayBeWritten ? "timeout" : "connect_timeout"))
      })
    )
  })

const errorOf = (outcome: CallOutcome) => (outcome._tag === "accepted" ? undefined : outcome.errorCode)

const failureOf = (code: ExchangeFailed["code"], mayBeWritten: boolean): Failure => {
  if (code === "invalid_response") return "unreadable_answer"
  if (code === "address_refused") return "connect_failed"
  // TLS can also fail after the request was written. Then the request may have been processed.
  return mayBeWritten ? "connection_lost" : code
}

const utf8 = new TextDecoder("utf-8", { fatal: true })
const decodeUtf8 = Option.liftThrowable((bytes: Uint8Array) => utf8.decode(bytes))

const reasonLimit = 256

const wholeBody = ({ body }: Reply): Option.Option<string> => Option.map(body, (bytes) => Buffer.from(bytes).toString())

/** PostgreSQL stores neither U+0000 nor an unpaired surrogate. */
const withReason = (
  outcome: Exclude<CallOutcome, { readonly _tag: "accepted" }>,
  reason: Option.Option<string>,
  secret: Redacted.Redacted
): CallOutcome => {
  const text = Option.getOrElse(reason, () => "").trim()
  if (text === "") return outcome
  const shown = redactSecrets(text.replaceAll(Redacted.value(secret), "[redacted]"))
  return { ...outcome, reason: shown.slice(0, reasonLimit).replaceAll("\u0000", "\uFFFD").toWellFormed() }
}

/** Decodes JSON bodies: none if a body is not valid for `schema`. Unknown members are ignored. */
export const jsonBody = <A>(schema: Schema.Decoder<A>) => {
  const decode = Schema.decodeUnknownOption(Schema.fromJsonString(schema))
  return (body: Option.Option<Uint8Array>): Option.Option<A> =>
    body.pipe(
      Option.flatMap(decodeUtf8),
      Option.flatMap((text) => decode(text))
    )
}
