/** What all pages share: navigation, notice, footer, and response headers. */
import { Effect } from "effect"
import { HttpServerResponse } from "effect/http"
import { type Notice, type Session, withoutNotice } from "../http/auth/OperatorSessions.ts"
import { type Fragment, hiddenFields, html, link } from "./Html.ts"

/** A page loads only the style sheet of the console: no script, no frame, nothing from another host. */
const headers = {
  "content-security-policy":
    "default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
  "cache-control": "no-store",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff"
}

interface Head {
  readonly title: string
  readonly project?: string | undefined
  /** Without a session the header links only to the overview. */
  readonly session?: Session | undefined
  /** The URL of the page, if the page may be refreshed and may show what an action has done. */
  readonly url?: string | undefined
}

/** Seconds after which a page is loaded again, if its query has `refresh=on`. */
const refreshAfter = 10

const refreshOf = (url: string) => {
  const [path = "", text = ""] = url.split("?")
  const { refresh, ...query } = Object.fromEntries(new URLSearchParams(text))
  const isOn = refresh === "on"
  return {
    isOn,
    link: isOn
      ? link(path, query, "Stop the refresh")
      : link(path, { ...query, refresh: "on" }, `Refresh every ${refreshAfter} s`)
  }
}

const sections: ReadonlyArray<readonly [path: string, name: string]> = [
  ["/console/project", "Webhooks"],
  ["/console/deliveries", "Deliveries"],
  ["/console/replays", "Replays"],
  ["/console/messages", "Messages"],
  ["/console/campaigns", "Campaigns"],
  ["/console/keys", "API keys"],
  ["/console/audit", "Audit"]
]

export const pageResponse = (head: Head, content: Fragment, status = 200) =>
  Effect.sync(() => {
    const text = String(layout(head, content))
    const response = HttpServerResponse.text(text, { status, contentType: "text/html; charset=utf-8", headers })
    const { session, url } = head
    return url === undefined || session?.notice === undefined ? response : withoutNotice(response, url)
  })

const layout = ({ project, session, title, url }: Head, content: Fragment) => {
  const refresh = url === undefined ? undefined : refreshOf(url)
  const notice = url === undefined ? undefined : session?.notice
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        ${refresh?.isOn === true ? html`<meta http-equiv="refresh" content="${refreshAfter}" />` : ""}
        <title>${title} · developer-api console</title>
        <link rel="icon" href="data:," />
        <link rel="stylesheet" href="/console/style.css" />
      </head>
      <body>
        <a class="skip" href="#content">Skip to the content</a>
        <header>
          <nav aria-label="Console">
            <a href="/console" class="home">developer-api console</a>
            ${session && html`${link("/console/projects", {}, "Projects")} ${searchIn(project)} ${signOut(session.csrf)}`}
          </nav>
          ${project && session && sectionsOf(project)}
        </header>
        <main id="content" tabindex="-1">
          <h1>${title}</h1>
          ${notice && noticeOf(notice)} ${content}
        </main>
        <footer>Times are UTC. ${refresh?.link}</footer>
      </body>
    </html>`
}

const noticeOf = ({ message, title }: Notice) =>
  html`<section class="notice" role="status">
    <h2>${title}</h2>
    <p>${message}</p>
  </section>`

const searchIn = (project: string | undefined) =>
  html`<form method="get" action="/console/search" role="search">
    ${project && hiddenFields({ project })}
    <input type="search" name="q" aria-label="An id or its beginning" placeholder="Id or its beginning" required />
    <button>Search</button>
  </form>`

const signOut = (csrf: string) =>
  html`<form method="post" action="/console/sign-out">
    <input type="hidden" name="csrf" value="${csrf}" /><button>Sign out</button>
  </form>`

const sectionsOf = (project: string) =>
  html`<nav aria-label="Project ${project}">
    <span class="project">${project}</span>
    ${sections.map(([path, name]) => link(path, { project }, name))}
  </nav>`
