/** One call of a provider over HTTP: a connection of its own, one deadline over everything, one span. */
import { Clock, type Duration, Effect, type Option } from "effect"
import type { MessageId } from "../../api/Ids.ts"
import { freshConnections } from "../../platform/outbound/Connections.ts"
import { inClientSpan, postAttributes } from "../../platform/outbound/ClientSpan.ts"
import { exchange, type ExchangeFailed } from "../../platform/outbound/Exchange.ts"
import { delayOf } from "../../platform/outbound/RetryAfter.ts"
import { userAgent } from "../../platform/outbound/UserAgent.ts"
import type { Outcome } from "../Connectors.ts"
import { byFailure, type Failure } from "./Outcomes.ts"

export interface Call {
  readonly messageId: MessageId
  /** It may hold a secret: nothing of it but its origin is told. */
  readonly url: URL
  /** JSON in UTF-8, and the headers that go with it. Made within the call's span. */
  readonly request: Effect.Effect<{ readonly body: Uint8Array; readonly headers: Readonly<Record<string, string>> }>
  readonly outcomeOf: (reply: Reply) => Outcome
}

/** A provider's whole answer. */
export interface Reply {
  readonly status: number
  /** None when it is too long to be read. */
  readonly body: Option.Option<Uint8Array>
  /** For how long it asks to be left alone. */
  readonly retryAfter: Option.Option<Duration.Duration>
}

/** An answer's body may have 64 KiB. */
const bodyLimit = 64 * 1024 + 1

/**
 * Calls once. The system finds the host, wherever it is: the URL is the operator's choice. Interruption destroys the
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
    // Never on a kept connection: one that turned out stale would leave open whether the request was processed.
    return yield* exchange(freshConnections, post, () => (mayBeWritten = true)).pipe(
      Effect.flatMap(({ body, retryAfter, status }) =>
        Effect.gen(function* () {
          yield* Effect.annotateCurrentSpan("http.response.status_code", status)
          return outcomeOf({ status, body, retryAfter: delayOf(retryAfter, yield* Clock.currentTimeMillis) })
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
  // TLS can also fail when the request is through, and then it may have been processed.
  return mayBeWritten ? "connection_lost" : code
}
