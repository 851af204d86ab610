/** The console of a service, and a project with content on each page. */
import { assert } from "@effect/vitest"
import { Context, Effect, Layer, Redacted, Schema } from "effect"
import { at, documentOf, run } from "../cli/Cli.support.ts"
import { type Answering, ok, open, receiver, settings, status } from "../webhooks/delivery/Deliveries.support.ts"
import { freePort } from "../support/Process.ts"
import { type Environment, startServer } from "../support/TestServer.ts"
import { fillMessaging, partsOf } from "./Outage.support.ts"

/** A name that would run as a script wherever it is not escaped. */
export const hostile = `<img src=x onerror="document.title='taken'"><script>document.title='taken'</script>'"&`

const Link = Schema.Struct({ url: Schema.String, expiresAt: Schema.String })

/** Starts a service with a console. */
export const startConsole = Effect.fnUntraced(function* (environment: Environment = {}) {
  const port = yield* Effect.promise(freePort)
  const admin = { ADMIN_PORT: String(port) }
  const server = yield* startServer({
    ...settings,
    ...admin,
    TRACE_URL_TEMPLATE: "https://traces.example.com/{traceId}?from=console",
    ...environment
  })
  const command = (...args: ReadonlyArray<string>) =>
    run(args, { env: { ...at(Redacted.make(server.databaseUrl)), ...admin } })
  const link = Effect.map(command("console", "--json"), (ended) => Schema.decodeUnknownSync(Link)(documentOf(ended)))
  return { ...server, admin: `http://127.0.0.1:${port}`, command, link }
})
export type Console = Effect.Success<ReturnType<typeof startConsole>>

/** A console that the tests of a file share. */
export class Shared extends Context.Service<Shared, Console>()(
  "developer-api-service/test/console/Console.support/Shared"
) {
  static readonly layer = Layer.effect(Shared, startConsole())
}

/** Requests a path of the console, without following redirects. */
export const request = (server: Console, path: string, init: RequestInit = {}) =>
  Effect.promise(async () => {
    const response = await fetch(`${server.admin}${path}`, { redirect: "manual", ...init })
    return { status: response.status, headers: response.headers, text: await response.text() }
  })

/** Returns the cookies that a browser with the cookies `before` sends after an answer. */
export const cookieOf = (headers: Headers, before = "") =>
  [...before.split("; "), ...headers.getSetCookie()]
    .map((cookie) => cookie.split(";")[0] ?? "")
    .filter((cookie, at, all) => cookie !== "" && all.findLastIndex((other) => nameOf(other) === nameOf(cookie)) === at)
    .join("; ")

const nameOf = (cookie: string) => cookie.split("=", 1)[0]

/** Submits the form of a link's page, as a browser with the cookies `cookie`. */
export const redeem = (server: Console, url: string, cookie = "", more: Readonly<Record<string, string>> = {}) => {
  const { pathname, searchParams } = new URL(url)
  return request(server, pathname, { method: "POST", headers: { cookie, ...more }, body: searchParams })
}

/** Signs in with a link of the command `console`; returns the cookie of the session. */
export const signIn = Effect.fnUntraced(function* (server: Console, before = "") {
  const { url } = yield* server.link
  const answer = yield* redeem(server, url, before)
  assert.deepStrictEqual([answer.status, answer.headers.get("location")], [303, "/console"])
  return { cookie: cookieOf(answer.headers), answer, url }
})

/** Signs in, or continues a session; returns its requests for pages, and by forms that may be about a project. */
export const sessionOf = Effect.fnUntraced(function* (server: Console, project?: string, before?: string) {
  const cookie = before ?? (yield* signIn(server)).cookie
  const headers = { cookie }
  const get = (path: string) => request(server, path, { headers })
  const csrf = csrfOf((yield* get("/console")).text)
  const post = (action: string, fields: Readonly<Record<string, string>> = {}) => {
    const body = new URLSearchParams({ csrf, ...(project === undefined ? {} : { project }), ...fields })
    return request(server, `/console/${action}`, { method: "POST", headers, body })
  }
  return { cookie, csrf, get, post }
})

/** Returns the token of a page's forms. */
const csrfOf = (text: string) => /name="csrf" value="([^"]+)"/.exec(text)?.[1] ?? assert.fail("no token")

/**
 * Creates a project with a dead and a delivered delivery, messages and a campaign, all with hostile names. Its endpoint answers with 200
 * until `answerWith`.
 */
export const fillProject = Effect.fnUntraced(function* (server: Console) {
  let answering = status(500)
  const to = yield* receiver((hit, n) => answering(hit, n))
  const project = yield* open(server, ["shop"], partsOf(hostile))
  yield* project.subscribe("shop", to.url)
  yield* project.created({ title: hostile })
  yield* project.finished
  answering = ok
  yield* project.created()
  yield* project.finished
  yield* fillMessaging(server, project)
  const [dead = assert.fail("no dead delivery"), ...others] = yield* project.deliveries()
  assert.deepStrictEqual([dead.status, others.map((other) => other.status)], ["dead", ["delivered"]])
  return { ...project, to, dead, answerWith: (next: Answering) => void (answering = next) }
})
export type FilledProject = Effect.Success<ReturnType<typeof fillProject>>

/** Returns the path of every page of a project that has a dead delivery. */
export const pagesOf = (
  { dead, projectId }: { readonly dead: { readonly id: string }; readonly projectId: string },
  { campaign = "cmp_running", installation = "shop", message = "msg_reply_1" } = {}
): ReadonlyArray<string> => {
  const project = `project=${projectId}`
  return [
    "/console",
    "/console/projects",
    `/console/project?${project}`,
    `/console/webhook?${project}&installation=${installation}`,
    `/console/deliveries?${project}`,
    `/console/deliveries?${project}&status=dead`,
    `/console/deliveries?${project}&answer=500&since=2026-01-01T00:00&until=2099-01-01T00:00`,
    `/console/deliveries?${project}&installation=${installation}&answer=500`,
    `/console/delivery?${project}&id=${dead.id}`,
    `/console/replays?${project}`,
    `/console/replays?${project}&installation=${installation}&since=2026-01-01T00:00`,
    `/console/messages?${project}`,
    `/console/messages?${project}&status=unknown`,
    `/console/messages?${project}&status=needs+decision`,
    `/console/messages?${project}&error=http_403&campaign=${campaign}&channel=chan&since=2026-01-01T00:00`,
    `/console/message?${project}&id=${message}`,
    `/console/campaigns?${project}`,
    `/console/campaigns?${project}&status=running`,
    `/console/campaign?${project}&id=${campaign}`,
    `/console/failed-recipients?${project}&campaign=${campaign}`,
    `/console/failed-recipients?${project}&campaign=${campaign}&reason=http_403&cursor=1`,
    `/console/keys?${project}`,
    `/console/audit?${project}`,
    `/console/audit?${project}&until=2099-01-01T00:00`,
    `/console/history?${project}&kind=delivery&id=${dead.id}`,
    `/console/history?${project}&kind=message&id=${message}`,
    "/console/search?q=cmp",
    `/console/search?${project}&q=msg_`
  ]
}
