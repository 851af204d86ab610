/** The operators' console: pages on the admin port, rendered by the server, without JavaScript. */
import { Context, Effect, Layer, Option, Result, Schema } from "effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import { SqlClient, type SqlError } from "effect/sql"
import type { ServiceUnavailable } from "../api/Problems.ts"
import { Deliveries } from "../integrations/Deliveries.ts"
import { Replays } from "../integrations/Replays.ts"
import { Sender } from "../integrations/Sender.ts"
import { TestEvents } from "../integrations/TestEvents.ts"
import { WebhookControl } from "../integrations/WebhookControl.ts"
import { Messages } from "../messaging/Messages.ts"
import { Audit, Operator } from "../platform/Audit.ts"
import { ApiKeys } from "../platform/auth/ApiKeys.ts"
import { clients, statement } from "../platform/Database.ts"
import { Settings } from "../platform/Settings.ts"
import { isUnsafe } from "../platform/UnsafeText.ts"
import { actions, type ActionResult } from "./Actions.ts"
import { action as submit, html } from "./Html.ts"
import { pageResponse } from "./Layout.ts"
import { signInPath } from "./Links.ts"
import { type Content, inReadTransaction, PageError, type PageRequest } from "./Page.ts"
import { auditLog } from "./pages/AuditLog.ts"
import { campaigns } from "./pages/Campaigns.ts"
import { deliveries } from "./pages/Deliveries.ts"
import { delivery } from "./pages/Delivery.ts"
import { keys } from "./pages/Keys.ts"
import { messages } from "./pages/Messages.ts"
import { overview } from "./pages/Overview.ts"
import { project } from "./pages/Project.ts"
import { projects } from "./pages/Projects.ts"
import { replays } from "./pages/Replays.ts"
import { linkPage, signInPage } from "./pages/SignIn.ts"
import { webhook } from "./pages/Webhook.ts"
import { type Session, Sessions, withoutCookie } from "./Sessions.ts"
import { style } from "./Style.ts"

type Services = Audit | Deliveries | Replays | TestEvents | WebhookControl | Messages | ApiKeys | Settings | Operator
type Page = (
  sql: SqlClient.SqlClient,
  request: PageRequest
) => Effect.Effect<Content, PageError | SqlError.SqlError, Services>
type Action = (form: URLSearchParams) => Effect.Effect<ActionResult, { readonly message: string }, Services>
type Response = HttpServerResponse.HttpServerResponse

const pages = {
  "/console": overview,
  "/console/projects": projects,
  "/console/project": project,
  "/console/webhook": webhook,
  "/console/deliveries": deliveries,
  "/console/delivery": delivery,
  "/console/replays": replays,
  "/console/messages": messages,
  "/console/campaigns": campaigns,
  "/console/keys": keys,
  "/console/audit": auditLog
} as const satisfies Readonly<Record<string, Page>>

const styleSheet = "/console/style.css"
const signOutPath = "/console/sign-out"

/** Every path of the console with its method. */
export const paths: ReadonlyArray<readonly [method: "GET" | "POST", path: string]> = [
  ...[...Object.keys(pages), signInPath, styleSheet].map((path) => ["GET", path] as const),
  ...[...Object.keys(actions), signInPath, signOutPath].map((path) => ["POST", path] as const)
]

const errorPage = (title: string, message: string, status: number, session?: Session) =>
  pageResponse({ title, csrf: session?.csrf }, [html`<p>${message}</p>`], status)

const unavailable = (session?: Session) => (problem: ServiceUnavailable) =>
  errorPage("Not available", problem.detail ?? "", 503, session)

/** The routes of the console. */
const routes = HttpRouter.use(
  Effect.fnUntraced(function* (router) {
    const reports = Context.get(yield* Layer.build(clients.reports), SqlClient.SqlClient)
    const sessions = yield* Sessions
    const services = yield* Effect.context<Services>()
    const provided = <A, E>(effect: Effect.Effect<A, E, Services>) => Effect.provideContext(effect, services)
    const sessionOf = ({ cookies }: HttpServerRequest.HttpServerRequest) => sessions.find(cookies)

    /** Responds within a session, which is extended; without one, with the sign-in page. */
    const withSession = (
      respond: (session: Session, request: HttpServerRequest.HttpServerRequest) => Effect.Effect<Response>
    ) =>
      Effect.gen(function* () {
        const request = yield* HttpServerRequest.HttpServerRequest
        const session = yield* sessionOf(request)
        if (Option.isNone(session)) return yield* signInPage
        const response = yield* respond(session.value, request)
        return hasSignedOut(response) ? response : sessions.extend(session.value, response)
      }).pipe(Effect.catchTag("service_unavailable", unavailable()))

    const pageRoute = (page: Page) =>
      withSession((session, request) =>
        statement(
          inReadTransaction(reports, asResult(provided(page(reports, { session, query: queryOf(request.url) }))))
        ).pipe(
          Effect.flatMap(Effect.fromResult),
          Effect.flatMap(({ body, title, ...content }) =>
            pageResponse({ title, project: content.project, csrf: session.csrf, url: request.url }, body)
          ),
          Effect.catchTags({
            PageError: ({ message, status }) =>
              errorPage(status === 404 ? "Not found" : "Bad request", message, status, session),
            service_unavailable: unavailable(session)
          })
        )
      )

    const formRoute = (respond: (form: URLSearchParams, session: Session) => Effect.Effect<Response>) =>
      withSession((session, request) =>
        Effect.flatMap(
          Effect.map(
            formOf(request),
            Option.filter((form) => sessions.hasToken(session, form.get("csrf") ?? ""))
          ),
          Option.match({ onNone: () => foreignForm(session), onSome: (form) => respond(form, session) })
        )
      )

    yield* router.add(
      "GET",
      "/console/:page",
      withSession((session) => errorPage("Not found", "The console has no page at this address.", 404, session))
    )
    for (const [path, page] of Object.entries(pages)) yield* router.add("GET", `/${path.slice(1)}`, pageRoute(page))
    for (const [path, action] of Object.entries<Action>(actions)) {
      yield* router.add(
        "POST",
        `/${path.slice(1)}`,
        formRoute((form, session) => actionResponse({ path, form, session }, provided(action(form))))
      )
    }
    yield* router.add(
      "POST",
      signOutPath,
      formRoute((_, session) =>
        sessions
          .end(session)
          .pipe(
            Effect.andThen(Effect.map(signInPage, withoutCookie)),
            Effect.catchTag("service_unavailable", unavailable(session))
          )
      )
    )

    yield* router.add(
      "GET",
      signInPath,
      Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ url }) => {
        const code = queryOf(url).get("code") ?? ""
        return code === "" ? signInPage : linkPage(code)
      })
    )
    yield* router.add(
      "POST",
      signInPath,
      Effect.gen(function* () {
        const request = yield* HttpServerRequest.HttpServerRequest
        const form = Option.getOrElse(yield* formOf(request), () => new URLSearchParams())
        const overview = HttpServerResponse.redirect("/console", { status: 303 })
        const started = yield* sessions.start(form.get("code") ?? "", overview)
        if (Option.isNone(started)) return yield* signInPage
        // The browser forgets the cookie of an earlier session, so that session ends.
        const earlier = yield* sessionOf(request)
        if (Option.isSome(earlier)) yield* sessions.end(earlier.value)
        return started.value
      }).pipe(Effect.catchTag("service_unavailable", unavailable()))
    )
    yield* router.add(
      "GET",
      styleSheet,
      HttpServerResponse.text(style, {
        contentType: "text/css; charset=utf-8",
        headers: { "cache-control": "no-cache" }
      })
    )
  })
)

const foreignForm = (session: Session) =>
  errorPage("Not done", "The form belongs to another session, or is incomplete. Go back and try again.", 403, session)

/** Whether a response is the sign-in page. */
const hasSignedOut = ({ status }: Response) => status === 401

/** Makes a page error a value, so that only an SQL error rolls the transaction back. */
const asResult = <R>(page: Effect.Effect<Content, PageError | SqlError.SqlError, R>) =>
  page.pipe(
    Effect.map((content): Result.Result<Content, PageError> => Result.succeed(content)),
    Effect.catchTag("PageError", (error) => Effect.succeed(Result.fail(error)))
  )

/** Shows what an action will do or has done, or redirects to its page. */
const actionResponse = <E extends { readonly message: string }>(
  { path, form, session }: { readonly path: string; readonly form: URLSearchParams; readonly session: Session },
  action: Effect.Effect<ActionResult, E>
) =>
  Effect.matchEffect(action, {
    onSuccess: ({ ask, done, page }) => {
      const project = form.get("project") ?? undefined
      const head = { csrf: session.csrf, project }
      if (ask !== undefined) {
        const fields = { ...Object.fromEntries(form), confirmed: "yes" }
        return pageResponse({ ...head, title: ask.title }, [
          html`<p>${ask.message}</p>`,
          html`<div class="actions">${submit(path, session.csrf, fields, ask.label)}</div>`,
          html`<p><a href="${page}">Back, without a change</a></p>`
        ])
      }
      return done === undefined
        ? Effect.succeed(HttpServerResponse.redirect(page, { status: 303 }))
        : pageResponse({ ...head, title: done.title }, [
            html`<p role="status">${done.message}</p>`,
            html`<p><a href="${page}">Back</a></p>`
          ])
    },
    onFailure: (error) =>
      errorPage(
        "Not done",
        Schema.isSchemaError(error) ? "A field of the form is missing or invalid." : error.message,
        409,
        session
      )
  })

/** Reads the form of a POST; none if its body does not arrive. */
const formOf = (request: HttpServerRequest.HttpServerRequest) =>
  Effect.map(Effect.option(request.text), Option.map(paramsOf))

const queryOf = (url: string) => paramsOf(url.split("?")[1] ?? "")

/** Parses a query or a form, and drops values that PostgreSQL cannot store: no record has them. */
const paramsOf = (text: string) =>
  new URLSearchParams([...new URLSearchParams(text)].filter(([, value]) => !isUnsafe(value)))

/** The console with its services. */
export const layer = routes.pipe(
  Layer.provide([
    Sessions.layer,
    Deliveries.layer,
    Replays.layer,
    TestEvents.layer,
    WebhookControl.layer,
    Messages.layer,
    ApiKeys.layer,
    Layer.succeed(Operator, { actor: "console session" })
  ]),
  Layer.provide(Sender.layerOfSettings),
  Layer.provide(Audit.layer)
)
