/** Responses that are not pages of their own: confirmations of actions, and errors. */
import { Effect } from "effect"
import { HttpServerResponse } from "effect/http"
import type { ServiceUnavailable } from "../api/Problems.ts"
import type { OperatorSessions, Session } from "../platform/requests/auth/OperatorSessions.ts"
import type { ActionError, ActionResult } from "./Actions.ts"
import { action as submit, html } from "./Html.ts"
import { pageResponse } from "./Layout.ts"

export const errorPage = (title: string, message: string, status: number, session?: Session) =>
  pageResponse({ title, session }, [html`<p>${message}</p>`], status)

export const unavailable = (session?: Session) => (problem: ServiceUnavailable) =>
  errorPage("Not available", problem.detail ?? "", 503, session)

export const foreignForm = (session: Session) =>
  errorPage("Not done", "The form belongs to another session, or is incomplete. Go back and try again.", 403, session)

export const foreignSignIn = errorPage(
  "Not done",
  "A page of another site has sent the form. Open the link that the command prints.",
  403
)

interface Parts {
  readonly path: string
  readonly form: URLSearchParams
  readonly session: Session
  readonly notify: OperatorSessions["Service"]["notify"]
}

/**
 * Asks for a confirmation, or redirects to the page of the action, which says what was done. Without the redirect, reloading the
 * page would send the form again.
 */
export const actionResponse = <R>(
  { form, notify, path, session }: Parts,
  action: Effect.Effect<ActionResult, ActionError, R>
) => {
  const notDone = (message: string) => errorPage("Not done", message, 409, session)
  return Effect.flatMap(action, ({ ask, done, hidden, page }) => {
    if (ask === undefined) {
      const response = HttpServerResponse.redirect(page, { status: 303 })
      return Effect.succeed(done === undefined ? response : notify(response, page, done))
    }
    const fields = { ...Object.fromEntries(form), ...hidden, confirmed: "yes" }
    return pageResponse({ session, project: form.get("project") ?? undefined, title: ask.title }, [
      html`<p>${ask.message}</p>`,
      html`<div class="actions">${submit(path, session.csrf, fields, ask.label)}</div>`,
      html`<p><a href="${page}">Back, without a change</a></p>`
    ])
  }).pipe(
    Effect.catchTag(["ProjectUnknown", "Refused"], ({ message }) => notDone(message)),
    Effect.catchTag("SchemaError", () => notDone("A field of the form is missing or invalid."))
  )
}
