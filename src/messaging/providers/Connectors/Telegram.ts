/**
 * The connector of Telegram's Bot API, `sendMessage` (https://core.telegram.org/bots/api#making-requests). Sends are
 * not idempotent.
 */
import { Duration, Effect, Option, Redacted, Schema } from "effect"
import {
  byFailure,
  byStatus,
  call,
  connector,
  HttpUrl,
  jsonBody,
  meaningOf,
  type CallOutcome,
  type Reply,
  secret
} from "../Connector.ts"

/** A bot token. It has only characters that need no escapes in a URL path. */
const token = secret(/^[A-Za-z0-9:._~-]+$/u, "a bot token")

const telegramApi = "https://api.telegram.org"

export const telegram = connector({
  config: Schema.Struct({ apiBaseUrl: Schema.optionalKey(HttpUrl).annotateKey({ default: telegramApi }), token }),
  defaults: { apiBaseUrl: telegramApi },
  idempotent: false,
  send: ({ apiBaseUrl, token }, { messageId, recipient, text }, timeout) =>
    Effect.suspend(() => {
      let movedTo: number | undefined
      const sendTo = (chat: string | number) =>
        call(timeout, {
          messageId,
          secret: token,
          reasonOf: ({ body }) => Option.map(readDescription(body), ({ description }) => description),
          url: sendMessage(apiBaseUrl ?? telegramApi, token),
          request: Effect.succeed({ body: Buffer.from(JSON.stringify({ chat_id: chat, text })), headers: {} }),
          outcomeOf: (reply) => {
            movedTo = Option.getOrUndefined(readMove(reply.body))?.parameters.migrate_to_chat_id
            return outcomeOf(reply)
          }
        })
      // A group that became a supergroup has another id. The message was refused, so sending it there sends it once.
      return sendTo(recipient).pipe(
        Effect.flatMap((outcome) =>
          movedTo === undefined || outcome._tag !== "refused" ? Effect.succeed(outcome) : sendTo(movedTo)
        ),
        Effect.timeoutOrElse({ duration: timeout, orElse: () => Effect.succeed(byFailure("timeout")) })
      )
    })
})

/**
 * Makes the URL of a call. The base URL is parsed before the token is added, so that a parser error cannot contain the token.
 */
const sendMessage = (base: string, token: Redacted.Redacted) =>
  new URL(`${new URL(base).href.replace(/\/+$/, "")}/bot${Redacted.value(token)}/sendMessage`)

const Answer = Schema.Union([
  Schema.Struct({ ok: Schema.Literal(true), result: Schema.Struct({ message_id: Schema.Int }) }),
  Schema.Struct({
    ok: Schema.Literal(false),
    /** An HTTP status. */
    error_code: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 100, maximum: 999 })))
  })
])

const read = jsonBody(Answer)

const readRetryAfter = jsonBody(
  Schema.Struct({
    parameters: Schema.Struct({ retry_after: Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0)) })
  })
)

const readDescription = jsonBody(Schema.Struct({ description: Schema.String }))

const readMove = jsonBody(Schema.Struct({ parameters: Schema.Struct({ migrate_to_chat_id: Schema.Int }) }))

const outcomeOf = ({ body, retryAfter, status }: Reply): CallOutcome => {
  const answer = Option.getOrUndefined(read(body))
  if (answer?.ok === true) {
    return meaningOf(status) === "accepted"
      ? { _tag: "accepted", providerMessageId: String(answer.result.message_id) }
      : byFailure("unreadable_answer")
  }
  // An answer without `error_code` is from a proxy in front of the Bot API.
  if (answer?.error_code === undefined) return byStatus("http", status, retryAfter)
  const bodyDelay = Option.map(readRetryAfter(body), ({ parameters }) => Duration.seconds(parameters.retry_after))
  return byStatus(
    "telegram",
    answer.error_code,
    Option.orElse(bodyDelay, () => retryAfter)
  )
}
