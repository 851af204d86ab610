/**
 * Sessions of the console. A session is a signed cookie, and has a CSRF token for its forms. All processes of the service accept
 * the cookie, and a new `SECRET_KEY` ends all sessions. Cells share that key, so a session is also bound to the database in which it
 * began. The database stores only sessions that an operator has ended, until their cookies expire. All times come from the database's
 * clock, because all processes share it.
 */
import { Duration, Effect, Option, Redacted, Schema } from "effect"
import { Cookies, HttpServerResponse } from "effect/http"
import { SqlClient } from "effect/sql"
import { createHash, createHmac, randomBytes, randomUUID } from "node:crypto"
import type { ServiceUnavailable } from "../../api/Problems.ts"
import { databaseIdentity, statement } from "../../sql/Database.ts"
import { SecretKey } from "../../secrets/SecretBox.ts"
import { insertServiceEntry } from "../../operating/Audit.ts"
import { sameHash } from "./Credentials.ts"

const cookie = "developer_api_console"

const idleTimeout = Duration.toMillis(Duration.hours(1))
const maxDuration = Duration.toMillis(Duration.hours(8))

/**
 * What an action has done. The answer of the action redirects to a page, and this page shows the notice once. Each notice has
 * its own cookie, named after the page, so that an answer to another tab of the browser neither shows nor removes the notice.
 */
const NoticeText = Schema.fromJsonString(Schema.Struct({ title: Schema.String, message: Schema.String }))
export type Notice = typeof NoticeText.Type

/** Names the cookie of a page's notice by a hash, because a path with two long ids would be too long. */
const noticeCookie = (page: string): string =>
  `${cookie}_${createHash("sha256").update(page).digest("base64url").slice(0, 16)}`

const Content = Schema.fromJsonString(
  Schema.Struct({
    id: Schema.String,
    /** The identity of the database in which the session began. */
    database: Schema.String,
    /** The user of the operating system who issued the link. */
    actor: Schema.String,
    /** Milliseconds since 1970, as all times here. */
    startedAt: Schema.Finite,
    expiresAt: Schema.Finite
  })
)

export interface Session extends Omit<typeof Content.Type, "expiresAt"> {
  /** Time of the current request. */
  readonly now: number
  readonly csrf: string
  readonly notice?: Notice | undefined
}

type Response = HttpServerResponse.HttpServerResponse

export const makeSessions = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const secret = yield* SecretKey
  const key = Redacted.value(secret.derive("console sessions"))
  const mac = (text: string) => createHmac("sha256", key).update(text).digest()
  const csrfOf = (id: string) => mac(`csrf ${id}`).toString("base64url")

  /** Signs the value of a cookie, for this cookie alone. `label` is the name of a notice's cookie, or empty. */
  const sign = (label: string, value: string) => {
    const text = Buffer.from(value).toString("base64url")
    return `${text}.${mac(label + text).toString("base64url")}`
  }

  const open = (label: string, signed = "") => {
    const [text = "", signature = ""] = signed.split(".")
    return sameHash(mac(label + text), Buffer.from(signature, "base64url"))
      ? Option.some(Buffer.from(text, "base64url").toString("utf8"))
      : Option.none()
  }

  const withSession = (response: Response, { actor, database, id, now, startedAt }: Omit<Session, "csrf">) => {
    const expiresAt = Math.min(now + idleTimeout, startedAt + maxDuration)
    const content = Schema.encodeSync(Content)({ id, database, actor, startedAt, expiresAt })
    return setCookie(response, cookie, sign("", content), maxDuration)
  }

  return {
    /** Redeems the code of a sign-in link. Starts a session, and sets its cookie in the response. None for an invalid code. */
    start: (code: string, response: Response) =>
      Effect.map(statement(redeem(sql, code)), ([redeemed]) =>
        redeemed === undefined
          ? Option.none()
          : Option.some(withSession(response, { id: randomUUID(), startedAt: redeemed.now, ...redeemed }))
      ),
    /** Returns the session in the cookies of a request, with the notice for the page at `url`; none without a valid session. */
    find: Effect.fnUntraced(function* (
      cookies: Readonly<Record<string, string | undefined>>,
      url: string
    ): Effect.fn.Return<Option.Option<Session>, ServiceUnavailable> {
      const content = Option.flatMap(open("", cookies[cookie]), Schema.decodeUnknownOption(Content))
      if (Option.isNone(content)) return Option.none()
      const { actor, database, expiresAt, id, startedAt } = content.value
      const name = noticeCookie(url)
      const notice = Option.flatMap(open(name, cookies[name]), Schema.decodeUnknownOption(NoticeText))
      const rows = yield* statement(sql<{ readonly now: number }>`
        SELECT (extract(epoch FROM now()) * 1000)::float8 AS now
        WHERE NOT EXISTS (SELECT FROM console_ended_sessions WHERE session_id = ${id}::uuid)
          AND ${databaseIdentity(sql)} = ${database}`)
      const session = { id, database, actor, startedAt, csrf: csrfOf(id), notice: Option.getOrUndefined(notice) }
      return Option.fromIterable(rows.filter(({ now }) => now < expiresAt).map(({ now }) => ({ ...session, now })))
    }),
    /** Extends a session, and sets its cookie in the response, unless the response sets this cookie already. */
    extend: (session: Session, response: Response) =>
      Option.isSome(Cookies.get(response.cookies, cookie)) ? response : withSession(response, session),
    /** Sets the cookie of a notice for a page, which is a path with its query. */
    notify: (response: Response, page: string, notice: Notice) => {
      const name = noticeCookie(page)
      return setCookie(response, name, sign(name, Schema.encodeSync(NoticeText)(notice)), 60_000)
    },
    // Expired rows are deleted here, because only this statement adds rows.
    end: ({ id, startedAt }: Session) =>
      Effect.asVoid(
        statement(sql`
          WITH expired AS (DELETE FROM console_ended_sessions WHERE expires_at <= now())
          INSERT INTO console_ended_sessions (session_id, expires_at)
          VALUES (${id}::uuid, ${new Date(startedAt + maxDuration)})
          ON CONFLICT DO NOTHING`)
      ),
    hasToken: ({ csrf }: Session, given: string) => sameHash(Buffer.from(csrf), Buffer.from(given))
  }
})

export const withoutCookie = (response: Response): Response => setCookie(response, cookie, "", 0)

export const withoutNotice = (response: Response, page: string): Response =>
  setCookie(response, noticeCookie(page), "", 0)

const setCookie = (response: Response, name: string, value: string, maxAge: number) =>
  HttpServerResponse.setCookieUnsafe(response, name, value, {
    httpOnly: true,
    sameSite: "strict",
    path: "/console",
    maxAge: Duration.millis(maxAge)
  })

/** The path of a link. A GET only shows a form, and its POST redeems the link. So software that previews links redeems none. */
export const signInPath = "/console/enter"

const digestOf = (code: string) => createHash("sha256").update(code).digest()

export const issue = Effect.fn("SignInLinks.issue")(function* (sql: SqlClient.SqlClient, actor: string) {
  const code = randomBytes(32).toString("base64url")
  const rows = yield* Effect.orDie(sql<{ readonly expiresAt: Date }>`
    WITH expired AS (DELETE FROM console_links WHERE expires_at <= now())
    INSERT INTO console_links (digest, expires_at, actor)
    VALUES (${digestOf(code)}::bytea, now() + interval '10 minutes', ${actor})
    RETURNING expires_at AS "expiresAt"`)
  return rows.map(({ expiresAt }) => ({ code, expiresAt }))
})

/**
 * Redeems a link, and records the sign-in. Returns one row, or none if the link is invalid: the current time in milliseconds since
 * 1970, the identity of the database, and the user who issued the link. If several requests use a link at once, one redeems it.
 */
const redeem = (sql: SqlClient.SqlClient, code: string) => sql<{
  readonly now: number
  readonly database: string
  readonly actor: string
}>`
  WITH redeemed AS (
    DELETE FROM console_links WHERE digest = ${digestOf(code)}::bytea AND expires_at > now() RETURNING actor
  ),
  audited AS (
    ${insertServiceEntry(sql, { action: "console.sign_in", target: "console" }, sql`SELECT actor FROM redeemed`)}
  )
  SELECT (extract(epoch FROM now()) * 1000)::float8 AS now, ${databaseIdentity(sql)} AS database, actor FROM redeemed`
