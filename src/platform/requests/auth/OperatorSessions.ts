/**
 * Sessions of the console. A session is a signed cookie, and has a CSRF token for its forms. Every replica accepts the cookie,
 * and a new `SECRET_KEY` ends all sessions. The database stores only sessions that an operator has ended, until their cookies
 * expire. All times come from the database's clock, because replicas share it.
 */
import { Context, Duration, Effect, Layer, Option, Redacted, Schema } from "effect"
import { Cookies, HttpServerResponse } from "effect/http"
import { SqlClient } from "effect/sql"
import { createHash, createHmac, randomUUID, timingSafeEqual } from "node:crypto"
import type { ServiceUnavailable } from "../../../api/Problems.ts"
import { statement } from "../../database/Database.ts"
import { SecretKey } from "../../secrets/SecretKey.ts"
import { redeem } from "./SignInLinks.ts"

const cookie = "developer_api_console"

/** Maximum time between two requests of a session. */
const idleTimeout = Duration.toMillis(Duration.hours(1))
const maxDuration = Duration.toMillis(Duration.hours(8))

/**
 * What an action has done. The cookie of the answer has it, so that the page to which the answer redirects shows it once. `page` is
 * `placeOf` the page's path and query: a path with two long ids would be too long for a cookie.
 */
const Notice = Schema.Struct({ page: Schema.String, title: Schema.String, message: Schema.String })
export type Notice = typeof Notice.Type

/** Returns a short text that stands for a page. */
export const placeOf = (page: string): string => createHash("sha256").update(page).digest("base64url").slice(0, 16)

const Content = Schema.fromJsonString(
  Schema.Struct({
    id: Schema.String,
    startedAt: Schema.Finite,
    expiresAt: Schema.Finite,
    notice: Schema.optionalKey(Notice)
  })
)
const decode = Schema.decodeUnknownOption(Content)
const encode = Schema.encodeSync(Content)

export interface Session {
  readonly id: string
  /** Milliseconds since 1970. */
  readonly startedAt: number
  /** Time of the current request, in milliseconds since 1970. */
  readonly now: number
  readonly csrf: string
  readonly notice?: Notice | undefined
}

type Response = HttpServerResponse.HttpServerResponse

export class OperatorSessions extends Context.Service<
  OperatorSessions,
  {
    /** Redeems the code of a sign-in link. Starts a session, and sets its cookie in the response. None for an invalid code. */
    readonly start: (code: string, response: Response) => Effect.Effect<Option.Option<Response>, ServiceUnavailable>
    /** Returns the session of a request's cookies; none if it has ended or its signature is invalid. */
    readonly find: (
      cookies: Readonly<Record<string, string | undefined>>
    ) => Effect.Effect<Option.Option<Session>, ServiceUnavailable>
    /** Extends a session, and sets its cookie in the response, unless the response sets this cookie already. */
    readonly extend: (session: Session, response: Response, notice?: Notice) => Response
    /** Ends a session on every replica. */
    readonly end: (session: Session) => Effect.Effect<void, ServiceUnavailable>
    readonly hasToken: (session: Session, csrf: string) => boolean
  }
>()("developer-api/platform/requests/auth/OperatorSessions") {
  static readonly layer = Layer.effect(
    OperatorSessions,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
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
        start: (code, response) =>
          Effect.map(statement(redeem(sql, code)), ([redeemed]) =>
            redeemed === undefined
              ? Option.none()
              : Option.some(
                  withCookie(response, {
                    id: randomUUID(),
                    startedAt: redeemed.now,
                    expiresAt: redeemed.now + idleTimeout
                  })
                )
          ),
        find: Effect.fnUntraced(function* (cookies) {
          const content = open(cookies[cookie] ?? "")
          if (Option.isNone(content)) return Option.none()
          const { expiresAt, id, notice, startedAt } = content.value
          const rows = yield* statement(sql<{ readonly now: number }>`
            SELECT (extract(epoch FROM now()) * 1000)::float8 AS now
            WHERE NOT EXISTS (SELECT FROM console_ended_sessions WHERE session_id = ${id}::uuid)`)
          return Option.fromIterable(
            rows
              .filter(({ now }) => now < expiresAt)
              .map(({ now }) => ({ id, startedAt, now, csrf: csrfOf(id), notice }))
          )
        }),
        extend: ({ id, now, startedAt }, response, notice) => {
          if (Option.isSome(Cookies.get(response.cookies, cookie))) return response
          const expiresAt = Math.min(now + idleTimeout, startedAt + maxDuration)
          return withCookie(response, { id, startedAt, expiresAt, ...(notice && { notice }) })
        },
        // Expired rows are deleted here, because only this statement adds rows.
        end: ({ id, startedAt }) =>
          Effect.asVoid(
            statement(sql`
              WITH expired AS (DELETE FROM console_ended_sessions WHERE expires_at <= now())
              INSERT INTO console_ended_sessions (session_id, expires_at)
              VALUES (${id}::uuid, ${new Date(startedAt + maxDuration)})
              ON CONFLICT DO NOTHING`)
          ),
        hasToken: ({ csrf }, given) => isEqual(Buffer.from(csrf), Buffer.from(given))
      }
    })
  )
}

const isEqual = (one: Uint8Array, other: Uint8Array) => one.length === other.length && timingSafeEqual(one, other)

export const withoutCookie = (response: Response): Response => setCookie(response, "", 0)

/** Sets the cookie. It is hidden from scripts, is not sent with cross-site requests, and is sent only to the console. */
const setCookie = (response: Response, value: string, maxAge = maxDuration) =>
  HttpServerResponse.setCookieUnsafe(response, cookie, value, {
    httpOnly: true,
    sameSite: "strict",
    path: "/console",
    maxAge: Duration.millis(maxAge)
  })
