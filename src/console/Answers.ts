/** The responses that are not pages of their own: what an action will do or has done, and errors. */
import { Effect, Schema } from "effect"
import { HttpServerResponse } from "effect/http"
import type { ServiceUnavailable } from "../api/Problems.ts"
import type { Session } from "../platform/requests/auth/OperatorSessions.ts"
import type { ActionResult } from "./Actions.ts"
import { action as submit, html } from "./Html.ts"
import { pageResponse } from "./Layout.ts"

export const errorPage = (title: string, message: string, status: number, session?: Session) =>
  pageResponse({ title, csrf: session?.csrf }, [html`<p>${message}</p>`], status)

export const unavailable = (session?: Session) => (problem: ServiceUnavailable) =>
  errorPage("Not available", problem.detail ?? "", 503, session)

export const foreignForm = (session: Session) =>
  errorPage("Not done", "The form belongs to another session, or is incomplete. Go back and try again.", 403, session)

/** Shows what an action will do or has done, or redirects to its page. */
export const actionResponse = <E extends { readonly message: string }>(
  { path, form, session }: { readonly path: string; readonly form: URLSearchParams; readonly session: Session },
  action: Effect.Effect<ActionResult, E>
) =>
  Effect.matchEffect(action, {
    onSuccess: ({ ask, done, hidden, page }) => {
      const project = form.get("project") ?? undefined
      const head = { csrf: session.csrf, project }
      if (ask !== undefined) {
        const fields = { ...Object.fromEntries(form), ...hidden, confirmed: "yes" }
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
