/**
 * The interface of connectors (contract §8), which `Connectors.ts` lists, and one provider call over HTTP, with its own connection, deadline
 * and span.
 */
import { Clock, type Duration, Effect, Option, Redacted, Schema } from "effect"
import type { ConversationId, MessageId } from "../../../api/schema/Ids.ts"
import { byFailure, type Failure, type Outcome } from "../Outcomes.ts"
import { text } from "../../../api/schema/Fields.ts"
import { freshConnections } from "../../../outbound/Connections.ts"
import {
  exchange,
  type ExchangeFailed,
  inClientSpan,
  postAttributes,
  retryDelay,
  userAgent
} from "../../../outbound/Exchange.ts"
import { resolveName } from "../../../outbound/Names.ts"
import { redactSecrets } from "../../../platform/Text.ts"

export interface Outgoing {
  /** The idempotency key of providers with idempotent sends. */
  readonly messageId: MessageId
  /** Null for a message of a campaign. */
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
  readonly send: (config: Config["Type"], message: Outgoing, timeout: Duration.Duration) => Effect.Effect<Outcome>
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
  readonly outcomeOf: (reply: Reply) => Outcome
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

const connections = freshConnections(({ host }) => resolve(host))

/**
 * Calls the provider once. The operator has chosen the URL, so its host may have any address. Interruption destroys the
 * connection.
 */
export const call = (
  timeout: Duration.Duration,
  { messageId, outcomeOf, reasonOf = wholeBody, request, secret, url }: Call
): Effect.Effect<Outcome> =>
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
): Effect.Effect<Outcome> =>
  Effect.gen(function* () {
    const { body, headers } = yield* request
    const post = {
      url,
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

const errorOf = (outcome: Outcome) => (outcome._tag === "accepted" ? undefined : outcome.errorCode)

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
  outcome: Exclude<Outcome, { readonly _tag: "accepted" }>,
  reason: Option.Option<string>,
  secret: Redacted.Redacted
): Outcome => {
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
