/** Responses that are not pages of the database: confirmations and results of actions, errors, and the sign-in. */
import { Effect } from "effect"
import { HttpServerResponse } from "effect/http"
import type { ServiceUnavailable } from "../api/Problems.ts"
import { faultsOf } from "../api/schema/Faults.ts"
import { Instant } from "../api/schema/Fields.ts"
import { type makeSessions, type Session, signInPath } from "../http/auth/OperatorSessions.ts"
import { newOnce } from "../operating/AuditedActions.ts"
import { CurrentRequest } from "../platform/CurrentRequest.ts"
import { cli } from "../platform/Text.ts"
import { reasonOf } from "../sql/Database.ts"
import type { Action } from "../operators/Action.ts"
import { type ActionName, actions } from "../operators/Actions.ts"
import { actionForm, block, html, instantOf } from "./Html.ts"
import { pageResponse } from "./Layout.ts"
import { recordPage } from "./Page.ts"

export const errorPage = (title: string, message: string, status: number, session?: Session) =>
  pageResponse({ title, session }, [html`<p>${message}</p>`], status)

export const unavailable = (session?: Session) => (problem: ServiceUnavailable) =>
  Effect.flatMap(CurrentRequest, ({ outage }) => {
    const reason = outage === undefined ? (problem.detail ?? "") : `The database can't be used: ${reasonOf(outage)}.`
    return errorPage("Not available", `${reason} To find out more, run \`${cli} doctor\`.`, 503, session)
  })

export const foreignForm = (session: Session) =>
  errorPage("Not done", "The form belongs to another session, or is incomplete. Go back and try again.", 403, session)

export const foreignSignIn = errorPage(
  "Not done",
  "A page of another site has sent the form. Open the link that the command prints.",
  403
)

interface SubmittedAction {
  readonly name: ActionName
  readonly form: URLSearchParams
  readonly session: Session
  readonly notify: Effect.Success<typeof makeSessions>["notify"]
}

/**
 * Asks for a confirmation, or carries out the action and redirects to the page of its record, which says what was done: a reload does
 * not send the form again. An action whose confirmation is sent twice is carried out once, by its field `once`.
 */
export const actionResponse = ({ form, name, notify, session }: SubmittedAction) => {
  const { fields, on, target }: Action = actions[name]
  const isTime = (name: string) => fields.some((field) => field.name === name && field.schema === Instant)
  const notDone = (message: string) => errorPage("Not done", message, 409, session)
  const values = [...form].map(([name, value]) => [name, isTime(name) ? instantOf(value) : value] as const)
  const { confirmed, once, project = "", ...texts } = Object.fromEntries(values)
  return Effect.gen(function* () {
    const { question, run } = yield* on(project, once ?? (yield* newOnce), texts)
    const page = recordPage(target, { projectId: project, id: texts[target] ?? "" })
    if (question === undefined || confirmed === "yes") {
      const { message, texts, title } = yield* run
      // A redirect would have to carry the texts.
      if (texts !== undefined) {
        return yield* pageResponse({ session, project, title }, [
          html`<p>${message}.</p>`,
          ...Object.entries(texts).map(([name, text]) => block(name, text)),
          html`<p><a href="${page}">Back</a></p>`
        ])
      }
      return notify(HttpServerResponse.redirect(page, { status: 303 }), page, { title, message })
    }
    const { label, message, title } = yield* question
    const hidden = { ...texts, project, once: yield* newOnce, confirmed: "yes", csrf: session.csrf }
    return yield* pageResponse({ session, project, title }, [
      html`<p>${message}</p>`,
      html`<div class="actions">${actionForm(name, hidden, label)}</div>`,
      html`<p><a href="${page}">Back, without a change</a></p>`
    ])
  }).pipe(
    Effect.catchTag(["ProjectUnknown", "Refused"], ({ message }) => notDone(message)),
    Effect.catchTag("SchemaError", ({ issue }) => {
      const faults = faultsOf(issue).map(({ message, path }) => `"${path.join("")}" ${message}.`)
      return notDone(faults.join(" "))
    })
  )
}

export const signInPage = pageResponse(
  { title: "Sign in" },
  [
    html`<p>This is the operators' console. To sign in, run this command on the host of the service</p>`,
    html`<pre>npm run --silent cli -- console</pre>`,
    html`<p>and open the link that it prints. It works once, for 10 minutes.</p>`
  ],
  401
)

/** The page of a sign-in link. Its button redeems the link, as software that previews links may load the page. */
export const linkPage = (code: string) =>
  pageResponse({ title: "Sign in" }, [
    html`<form method="post" action="${signInPath}">
      <input type="hidden" name="code" value="${code}" /><button>Sign in</button>
    </form>`
  ])
