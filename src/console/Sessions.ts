/**
 * Sessions of the console: a signed cookie, and a token for the forms of the session (CSRF). Nothing is stored, so every
 * replica knows them, and a new `SECRET_KEY` ends them.
 */
import { Clock, Context, Duration, Effect, Layer, Option, Redacted, Schema } from "effect"
import { HttpServerResponse } from "effect/http"
import { createHmac, randomUUID, timingSafeEqual } from "node:crypto"
import { SecretKey } from "../platform/SecretKey.ts"

const cookie = "developer_api_console"

/** A session ends when no page was opened for this long, */
const idle = Duration.hours(1)
/** and this long after its link was followed. */
const longest = Duration.hours(8)

const Content = Schema.fromJsonString(
  Schema.Struct({ id: Schema.String, startedAt: Schema.Finite, expiresAt: Schema.Finite })
)
const decode = Schema.decodeUnknownOption(Content)
const encode = Schema.encodeSync(Content)

export interface Session {
  readonly id: string
  /** Milliseconds since 1970. */
  readonly startedAt: number
  readonly expiresAt: number
  /** The token that the forms of the session carry. */
  readonly csrf: string
}

type Response = HttpServerResponse.HttpServerResponse

export class Sessions extends Context.Service<
  Sessions,
  {
    /** Starts a session: its cookie is set by the answer. */
    readonly start: (response: Response) => Effect.Effect<Response>
    /** The session of a request's cookies, unless it is over, or not ours. */
    readonly find: (cookies: Readonly<Record<string, string | undefined>>) => Effect.Effect<Option.Option<Session>>
    /** Has the answer extend a session. */
    readonly extend: (session: Session, response: Response) => Effect.Effect<Response>
    /** Has the answer end the session. */
    readonly end: (response: Response) => Response
    /** Whether a form was made for the session. */
    readonly isFrom: (session: Session, csrf: string) => boolean
  }
>()("developer-api/console/Sessions") {
  static readonly layer = Layer.effect(
    Sessions,
    Effect.gen(function* () {
      const secret = yield* SecretKey
      const key = Redacted.value(secret.derive("console sessions"))
      const mac = (text: string) => createHmac("sha256", key).update(text).digest()
      const csrfOf = (id: string) => mac(`csrf ${id}`).toString("base64url")

      const withCookie = (response: Response, content: typeof Content.Type) => {
        const text = Buffer.from(encode(content)).toString("base64url")
        return set(response, `${text}.${mac(text).toString("base64url")}`)
      }

      const open = (value: string) => {
        const [text = "", signature = ""] = value.split(".")
        return isEqual(mac(text), Buffer.from(signature, "base64url"))
          ? decode(Buffer.from(text, "base64url").toString("utf8"))
          : Option.none()
      }

      return {
        start: (response) =>
          Effect.map(Clock.currentTimeMillis, (now) =>
            withCookie(response, { id: randomUUID(), startedAt: now, expiresAt: now + Duration.toMillis(idle) })
          ),
        find: (cookies) =>
          Effect.map(Clock.currentTimeMillis, (now) =>
            open(cookies[cookie] ?? "").pipe(
              Option.filter(({ expiresAt }) => now < expiresAt),
              Option.map((content) => ({ ...content, csrf: csrfOf(content.id) }))
            )
          ),
        extend: ({ id, startedAt }, response) =>
          Effect.map(Clock.currentTimeMillis, (now) => {
            const expiresAt = Math.min(now + Duration.toMillis(idle), startedAt + Duration.toMillis(longest))
            return withCookie(response, { id, startedAt, expiresAt })
          }),
        end: (response) => set(response, "", Duration.zero),
        isFrom: ({ csrf }, given) => isEqual(Buffer.from(csrf), Buffer.from(given))
      }
    })
  )
}

const isEqual = (one: Uint8Array, other: Uint8Array) => one.length === other.length && timingSafeEqual(one, other)

/** Seen by no script, sent by no other site, and to the console alone. */
const set = (response: Response, value: string, maxAge = longest) =>
  HttpServerResponse.setCookieUnsafe(response, cookie, value, {
    httpOnly: true,
    sameSite: "strict",
    path: "/console",
    maxAge
  })
