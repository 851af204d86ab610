/**
 * Sessions of the console: a signed cookie, and a CSRF token for the forms of the session. Sessions are not stored: every
 * replica accepts them, and a new `SECRET_KEY` ends them.
 */
import { Clock, Context, Duration, Effect, Layer, Option, Redacted, Schema } from "effect"
import { HttpServerResponse } from "effect/http"
import { createHmac, randomUUID, timingSafeEqual } from "node:crypto"
import { SecretKey } from "../platform/SecretKey.ts"

const cookie = "developer_api_console"

/** Maximum time between two requests of a session. */
const idleTimeout = Duration.hours(1)
/** Maximum duration of a session. */
const maxDuration = Duration.hours(8)

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
  /** The token of the forms of the session. */
  readonly csrf: string
}

type Response = HttpServerResponse.HttpServerResponse

export class Sessions extends Context.Service<
  Sessions,
  {
    /** Starts a session, and sets its cookie in the response. */
    readonly start: (response: Response) => Effect.Effect<Response>
    /** Returns the session of a request's cookies; none if it has ended or its signature is invalid. */
    readonly find: (cookies: Readonly<Record<string, string | undefined>>) => Effect.Effect<Option.Option<Session>>
    /** Extends a session, and sets its cookie in the response. */
    readonly extend: (session: Session, response: Response) => Effect.Effect<Response>
    /** Ends the session by removing its cookie in the response. */
    readonly end: (response: Response) => Response
    /** Whether a CSRF token belongs to the session. */
    readonly hasToken: (session: Session, csrf: string) => boolean
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
        return setCookie(response, `${text}.${mac(text).toString("base64url")}`)
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
            withCookie(response, { id: randomUUID(), startedAt: now, expiresAt: now + Duration.toMillis(idleTimeout) })
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
            const expiresAt = Math.min(now + Duration.toMillis(idleTimeout), startedAt + Duration.toMillis(maxDuration))
            return withCookie(response, { id, startedAt, expiresAt })
          }),
        end: (response) => setCookie(response, "", Duration.zero),
        hasToken: ({ csrf }, given) => isEqual(Buffer.from(csrf), Buffer.from(given))
      }
    })
  )
}

const isEqual = (one: Uint8Array, other: Uint8Array) => one.length === other.length && timingSafeEqual(one, other)

/** Sets the cookie: hidden from scripts, not sent with cross-site requests, and sent only to the console. */
const setCookie = (response: Response, value: string, maxAge = maxDuration) =>
  HttpServerResponse.setCookieUnsafe(response, cookie, value, {
    httpOnly: true,
    sameSite: "strict",
    path: "/console",
    maxAge
  })
