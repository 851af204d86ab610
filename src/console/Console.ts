/** The operators' console: pages that the server renders, on the admin port. They work without JavaScript and have none. */
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
import { reportLayer, statement } from "../platform/Database.ts"
import { Settings } from "../platform/Settings.ts"
import { isUnsafe } from "../platform/UnsafeText.ts"
import { actions, type Done } from "./Actions.ts"
import { html } from "./Html.ts"
import { answer } from "./Layout.ts"
import { entrance, redeem } from "./Links.ts"
import { type Asked, type Content, NotShown, reading } from "./Page.ts"
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
import { webhook } from "./pages/Webhook.ts"
import { type Session, Sessions } from "./Sessions.ts"
import { style } from "./Style.ts"

type Services = Audit | Deliveries | Replays | TestEvents | WebhookControl | Messages | ApiKeys | Settings | Operator
type Page = (sql: SqlClient.SqlClient, asked: Asked) => Effect.Effect<Content, NotShown | SqlError.SqlError, Services>
type Act = (form: URLSearchParams) => Effect.Effect<Done, { readonly message: string }, Services>
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
const exit = "/console/sign-out"

/** Every path of the console with its method. */
export const paths: ReadonlyArray<readonly [method: "GET" | "POST", path: string]> = [
  ...[...Object.keys(pages), entrance, styleSheet].map((path) => ["GET", path] as const),
  ...[...Object.keys(actions), exit].map((path) => ["POST", path] as const)
]

const hint = answer(
  { title: "Sign in" },
  [
    html`<p>This is the console of the operators. To sign in, run on the host of the service</p>`,
    html`<pre>npm run --silent cli -- console</pre>`,
    html`<p>and open the link that it prints. It works once, within 10 minutes.</p>`
  ],
  401
)

const failed = (title: string, message: string, status: number, session: Session) =>
  answer({ title, csrf: session.csrf }, [html`<p>${message}</p>`], status)

const unavailable = (session: Session) => (problem: ServiceUnavailable) =>
  failed("Not available", problem.detail ?? "", 503, session)

/** The routes of the console. */
const routes = HttpRouter.use(
  Effect.fnUntraced(function* (router) {
    const sql = yield* SqlClient.SqlClient
    const reports = Context.get(yield* Layer.build(reportLayer), SqlClient.SqlClient)
    const sessions = yield* Sessions
    const services = yield* Effect.context<Services>()
    const provided = <A, E>(effect: Effect.Effect<A, E, Services>) => Effect.provideContext(effect, services)

    /** Answers within a session; without one there is the hint alone. */
    const within = (
      answering: (session: Session, request: HttpServerRequest.HttpServerRequest) => Effect.Effect<Response>
    ) =>
      Effect.gen(function* () {
        const request = yield* HttpServerRequest.HttpServerRequest
        const session = yield* sessions.find(request.cookies)
        if (Option.isNone(session)) return yield* hint
        const response = yield* answering(session.value, request)
        return isOver(response) ? response : yield* sessions.extend(session.value, response)
      })

    const shown = (page: Page) =>
      within((session, request) =>
        statement(
          reading(reports, withoutFailure(provided(page(reports, { session, query: queryOf(request.url) }))))
        ).pipe(
          Effect.flatMap(Effect.fromResult),
          Effect.flatMap(({ body, title, ...content }) =>
            answer({ title, project: content.project, csrf: session.csrf }, body)
          ),
          Effect.catchTags({
            NotShown: ({ message, status }) =>
              failed(status === 404 ? "Not found" : "Not understood", message, status, session),
            service_unavailable: unavailable(session)
          })
        )
      )

    /** The form of a POST, if it was made for the session. */
    const formOf = (session: Session, request: HttpServerRequest.HttpServerRequest) =>
      Effect.map(Effect.option(request.text), (text) =>
        Option.filter(Option.map(text, paramsOf), (form) => sessions.isFrom(session, form.get("csrf") ?? ""))
      )

    const acting = (act: (form: URLSearchParams, session: Session) => Effect.Effect<Response>) =>
      within((session, request) =>
        Effect.flatMap(
          formOf(session, request),
          Option.match({ onNone: () => refused(session), onSome: (form) => act(form, session) })
        )
      )

    for (const [path, page] of Object.entries(pages)) yield* router.add("GET", `/${path.slice(1)}`, shown(page))
    for (const [path, act] of Object.entries<Act>(actions)) {
      yield* router.add(
        "POST",
        `/${path.slice(1)}`,
        acting((form, session) => carriedOut(session, provided(act(form))))
      )
    }
    yield* router.add(
      "POST",
      exit,
      acting(() => Effect.map(hint, sessions.end))
    )

    yield* router.add(
      "GET",
      entrance,
      Effect.gen(function* () {
        const request = yield* HttpServerRequest.HttpServerRequest
        const works = yield* statement(redeem(sql, queryOf(request.url).get("code") ?? ""))
        if (!works) return yield* hint
        const page = yield* answer({ title: "Signed in", next: "/console" }, [
          html`<p><a href="/console">Open the console</a></p>`
        ])
        return yield* sessions.start(page)
      })
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

const refused = (session: Session) =>
  failed("Not done", "The form is of another session, or incomplete. Go back and try again.", 403, session)

/** Whether an answer ends the session, or shows that there is none. */
const isOver = ({ status }: Response) => status === 401

/** A page that is not there is an outcome like another: only a failure of SQL ends the transaction. */
const withoutFailure = <R>(page: Effect.Effect<Content, NotShown | SqlError.SqlError, R>) =>
  page.pipe(
    Effect.map((content): Result.Result<Content, NotShown> => Result.succeed(content)),
    Effect.catchTag("NotShown", (error) => Effect.succeed(Result.fail(error)))
  )

/** Goes on where an action leads, or tells what came of it. */
const carriedOut = <E extends { readonly message: string }>(session: Session, act: Effect.Effect<Done, E>) =>
  Effect.matchEffect(act, {
    onSuccess: ({ back, says }) =>
      says === undefined
        ? Effect.succeed(HttpServerResponse.redirect(back, { status: 303 }))
        : answer({ title: "Done", csrf: session.csrf }, [
            html`<p role="status">${says}</p>`,
            html`<p><a href="${back}">Back</a></p>`
          ]),
    onFailure: (error) =>
      failed(
        "Not done",
        Schema.isSchemaError(error) ? "The form is not filled in as it has to be." : error.message,
        409,
        session
      )
  })

const queryOf = (url: string) => paramsOf(url.split("?")[1] ?? "")

/** Members of a query or a form, without those that PostgreSQL can't store: no record has such a text. */
const paramsOf = (text: string) =>
  new URLSearchParams([...new URLSearchParams(text)].filter(([, value]) => !isUnsafe(value)))

/** The console with the services that it shows and acts by. */
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
