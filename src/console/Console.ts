/** The operators' console: pages on the admin port, rendered by the server, without JavaScript. */
import { Context, Effect, Layer, Option, Record } from "effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { SqlClient, type SqlError } from "effect/sql"
import { Sender } from "../webhooks/address/Sender.ts"
import { LongRunning, Mutations } from "../commands/Mutations.ts"
import { Operator } from "../operating/Audit.ts"
import { sqlClients } from "../sql/Connections.ts"
import { once, statement } from "../sql/Database.ts"
import { Settings } from "../platform/Settings.ts"
import { isUnsafe } from "../platform/Text.ts"
import type { ServiceUnavailable } from "../api/Problems.ts"
import type { ActionServices } from "../operators/Action.ts"
import { actions } from "../operators/Actions.ts"
import { actionPath } from "./Html.ts"
import { actionResponse, errorPage, foreignForm, foreignSignIn, linkPage, signInPage, unavailable } from "./Answers.ts"
import { pageResponse } from "./Layout.ts"
import { type Content, contentOf, inReadTransaction, type PageError, type PageRequest } from "./Page.ts"
import { auditLog, history, search } from "./pages/History.ts"
import { campaign, campaigns, failedRecipients } from "./pages/Campaigns.ts"
import { deliveries, delivery } from "./pages/Deliveries.ts"
import { keys, project, projects } from "./pages/Projects.ts"
import { message, messages } from "./pages/Messages.ts"
import { overview } from "./pages/Overview.ts"
import { replays, webhook } from "./pages/Webhooks.ts"
import { RateLimits } from "../http/limits/RateLimits.ts"
import { makeSessions, type Session, signInPath, withoutCookie } from "../http/auth/OperatorSessions.ts"
import { style } from "./Style.ts"

type Services = Exclude<ActionServices, Operator> | LongRunning | RateLimits | Settings
type Page = (
  sql: SqlClient.SqlClient,
  request: PageRequest
) => Effect.Effect<Content, PageError | SqlError.SqlError, Services>
type Request = HttpServerRequest.HttpServerRequest
type Responding = Effect.Effect<HttpServerResponse.HttpServerResponse, ServiceUnavailable>

const pages = {
  "/console": overview,
  "/console/projects": projects,
  "/console/project": project,
  "/console/webhook": webhook,
  "/console/deliveries": deliveries,
  "/console/delivery": delivery,
  "/console/replays": replays,
  "/console/messages": messages,
  "/console/message": message,
  "/console/campaigns": campaigns,
  "/console/campaign": campaign,
  "/console/failed-recipients": failedRecipients,
  "/console/keys": keys,
  "/console/audit": auditLog,
  "/console/search": search,
  "/console/history": history
} as const satisfies Readonly<Record<string, Page>>

const styleSheet = "/console/style.css"
const signOutPath = "/console/sign-out"

export const paths: ReadonlyArray<readonly [method: "GET" | "POST", path: string]> = [
  ...[...Object.keys(pages), signInPath, styleSheet].map((path) => ["GET", path] as const),
  ...[...Object.keys(actions).map(actionPath), signInPath, signOutPath].map((path) => ["POST", path] as const)
]

const routes = HttpRouter.use(
  Effect.fnUntraced(function* (router) {
    const reports = Context.get(yield* Layer.build(sqlClients.reports), SqlClient.SqlClient)
    const sessions = yield* makeSessions
    const services = yield* Effect.context<Services>()
    const provideServices = <A, E>(effect: Effect.Effect<A, E, Services>) => Effect.provideContext(effect, services)
    const sessionOf = ({ cookies, url }: Request) => sessions.find(cookies, url)

    const withSession = (respond: (session: Session, request: Request) => Responding) =>
      Effect.gen(function* () {
        const request = yield* HttpServerRequest.HttpServerRequest
        const session = Option.getOrUndefined(yield* sessionOf(request))
        if (session === undefined) return yield* signInPage
        const responding = respond(session, request).pipe(Effect.catchTag("service_unavailable", unavailable(session)))
        return sessions.extend(session, yield* responding)
      }).pipe(Effect.catchTag("service_unavailable", unavailable()))

    const pageRoute = (path: string, page: Page) =>
      withSession((session, request) =>
        page(reports, { path, session, query: queryOf(request.url) }).pipe(
          Effect.catchTag(["Malformed", "ProjectUnknown", "Refused"], (error) => Effect.succeed(contentOf(error))),
          Effect.provideService(SqlClient.SqlClient, reports),
          provideServices,
          (content) => statement(inReadTransaction(reports, content)),
          Effect.flatMap(({ body, elsewhere, project, status, title }) =>
            elsewhere === undefined
              ? pageResponse({ title, project, session, url: request.url }, body, status)
              : Effect.succeed(HttpServerResponse.redirect(elsewhere, { status: 303 }))
          )
        )
      )

    const formRoute = (respond: (form: URLSearchParams, session: Session) => Responding) =>
      withSession((session, request) =>
        Effect.flatMap(formOf(request), (form) =>
          sessions.hasToken(session, form.get("csrf") ?? "") ? respond(form, session) : foreignForm(session)
        )
      )

    yield* router.add(
      "GET",
      "/console/:page",
      withSession((session) => errorPage("Not found", "The console has no page at this address.", 404, session))
    )
    for (const [path, page] of Object.entries(pages))
      yield* router.add("GET", `/${path.slice(1)}`, pageRoute(path, page))
    // An action may count millions of rows, so it has the pool for long statements.
    const { mutations, withLongTimeout } = yield* LongRunning
    for (const name of Record.keys(actions)) {
      const carryOut = (form: URLSearchParams, session: Session) =>
        actionResponse({ name, form, session, notify: sessions.notify }).pipe(
          Effect.provideService(SqlClient.SqlClient, mutations.sql),
          Effect.provideService(Mutations, mutations),
          withLongTimeout,
          Effect.provideService(Operator, { actor: `${session.actor} (console)` }),
          provideServices,
          once,
          Effect.catchTag("Contended", () =>
            errorPage("Not available", "Something else holds the record. Go back and try again.", 503, session)
          )
        )
      yield* router.add("POST", actionPath(name), formRoute(carryOut))
    }

    const openLink = Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ url }) => {
      const code = queryOf(url).get("code") ?? ""
      return code === "" ? signInPage : linkPage(code)
    })
    yield* router.add("GET", signInPath, openLink)
    const signIn = Effect.gen(function* () {
      const request = yield* HttpServerRequest.HttpServerRequest
      if (isCrossSite(request)) return yield* foreignSignIn
      const form = yield* formOf(request)
      const overview = HttpServerResponse.redirect("/console", { status: 303 })
      const started = yield* sessions.start(form.get("code") ?? "", overview)
      if (Option.isNone(started)) return yield* signInPage
      // The new cookie replaces the cookie of an earlier session. Nobody could sign out of that session later, so it ends now.
      const earlier = yield* sessionOf(request)
      if (Option.isSome(earlier)) yield* sessions.end(earlier.value)
      return started.value
    }).pipe(Effect.catchTag("service_unavailable", unavailable()))
    yield* router.add("POST", signInPath, signIn)
    const signOut = formRoute((_, session) =>
      Effect.andThen(sessions.end(session), Effect.map(signInPage, withoutCookie))
    )
    yield* router.add("POST", signOutPath, signOut)

    const asStyle = { contentType: "text/css; charset=utf-8", headers: { "cache-control": "no-cache" } }
    yield* router.add("GET", styleSheet, HttpServerResponse.text(style, asStyle))
  })
)

/**
 * Whether a page of another site has sent the sign-in form, which has no session and no token. Browsers send `Sec-Fetch-Site` over
 * HTTPS and to the loopback. Without it, `Origin` is checked. The console's own pages send `Origin: null`, because they send no referrer.
 */
const isCrossSite = ({ headers }: Request) => {
  const { host, origin, "sec-fetch-site": site } = headers
  if (site !== undefined) return site !== "same-origin" && site !== "none"
  return origin !== undefined && origin !== "null" && URL.parse(origin)?.host !== host
}

/** Reads the form of a POST; an empty one if its body does not arrive. */
const formOf = (request: Request) =>
  Effect.map(
    Effect.orElseSucceed(request.text, () => ""),
    paramsOf
  )

const queryOf = (url: string) => paramsOf(url.split("?")[1] ?? "")

/** Parses a query or a form, and drops values that PostgreSQL cannot store: no record has them. */
const paramsOf = (text: string) =>
  new URLSearchParams([...new URLSearchParams(text)].filter(([, value]) => !isUnsafe(value)))

export const layer = routes.pipe(Layer.provide(Sender.layerOfSettings))
