/** One provider call over HTTP, with its own connection, deadline and span. */
import { Clock, type Duration, Effect, Option, Schema } from "effect"
import type { MessageId } from "../../../api/schema/Ids.ts"
import { freshConnections } from "../../../platform/outbound/Connections.ts"
import { inClientSpan, postAttributes } from "../../../platform/outbound/ClientSpan.ts"
import { exchange, type ExchangeFailed, retryDelay, userAgent } from "../../../platform/outbound/Exchange.ts"
import { resolveName } from "../../../platform/outbound/Names.ts"
import { byFailure, type Failure, type Outcome } from "../Outcomes.ts"

export interface Call {
  readonly messageId: MessageId
  /** The URL may contain a secret: only its origin is logged and traced. */
  readonly url: URL
  /** JSON in UTF-8 with its headers, made within the call's span. */
  readonly request: Effect.Effect<{ readonly body: Uint8Array; readonly headers: Readonly<Record<string, string>> }>
  readonly outcomeOf: (reply: Reply) => Outcome
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
  { messageId, outcomeOf, request, url }: Call
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
          return outcomeOf({ status, body, retryAfter: retryDelay(retryAfter, yield* Clock.currentTimeMillis) })
        })
      ),
      Effect.catchTag("ExchangeFailed", ({ code }) => Effect.succeed(byFailure(failureOf(code, mayBeWritten)))),
      Effect.timeoutOrElse({
        duration: timeout,
        orElse: () => Effect.succeed(byFailure(mayBeWritten ? "timeout" : "connect_timeout"))
      })
    )
  }).pipe(inClientSpan(errorOf, { attributes: { ...postAttributes(url), "message.id": messageId } }))

const errorOf = (outcome: Outcome) => (outcome._tag === "accepted" ? undefined : outcome.errorCode)

const failureOf = (code: ExchangeFailed["code"], mayBeWritten: boolean): Failure => {
  if (code === "invalid_response") return "unreadable_answer"
  if (code === "address_refused") return "connect_failed"
  // TLS can also fail after the request was written. Then the request may have been processed.
  return mayBeWritten ? "connection_lost" : code
}

const utf8 = new TextDecoder("utf-8", { fatal: true })
const decodeUtf8 = Option.liftThrowable((bytes: Uint8Array) => utf8.decode(bytes))

/** Decodes JSON bodies: none if a body is not valid for `schema`. Unknown members are ignored. */
export const jsonBody = <A>(schema: Schema.Decoder<A>) => {
  const decode = Schema.decodeUnknownOption(Schema.fromJsonString(schema))
  return (body: Option.Option<Uint8Array>): Option.Option<A> =>
    body.pipe(
      Option.flatMap(decodeUtf8),
      Option.flatMap((text) => decode(text))
    )
}
