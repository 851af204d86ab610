/**
 * The OpenAPI document and the interactive reference. Both are rendered at their first request, because the reference contains
 * megabytes of script and most processes never serve it. The content security policy of the reference forbids it to load
 * anything from other hosts.
 */
import { Context, Effect } from "effect"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServerRequest from "effect/http/HttpServerRequest"
import type * as HttpApi from "effect/http-api/HttpApi"
import type * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as HttpApiScalar from "effect/http-api/HttpApiScalar"
import * as OpenApi from "effect/http-api/OpenApi"
import { createHash } from "node:crypto"
import { Api } from "../../api/Api.ts"
import { completeDocument, isSpec } from "../../api/Document.ts"
import { type Fixed, fixedAnswer } from "./FixedAnswer.ts"

export const layer = (publicUrl: string) =>
  HttpRouter.use((router) =>
    Effect.gen(function* () {
      const api = yield* Effect.cached(
        Effect.sync(() => completeDocument(Api.annotate(OpenApi.Servers, [{ url: publicUrl }])))
      )
      const document = Effect.map(api, (api): Fixed => ({
        body: Buffer.from(JSON.stringify(OpenApi.fromApi(api))),
        contentType: "application/json"
      }))
      const reference = Effect.map(
        Effect.flatMap(api, (api) => pageOf(forViewer(api, new URL(publicUrl).pathname))),
        (html): Fixed => ({
          body: Buffer.from(html),
          contentType: "text/html; charset=utf-8",
          headers: { "content-security-policy": policyOf(html, publicUrl), "referrer-policy": "no-referrer" }
        })
      )
      yield* router.add("GET", "/openapi.json", yield* fixedAnswer(document))
      yield* router.add("GET", "/docs", yield* fixedAnswer(reference))
    })
  )

/**
 * Settings of the viewer. The tools of its vendor and links to products are hidden. The line height is larger than the viewer's
 * own, which cuts off underscores in many fonts. Overflow is clipped, because invisible parts make narrow pages scroll sideways.
 * Samples are for curl and fetch only. Samples for Node and Python import packages that are not installed, or leave the port out
 * of the URL.
 */
const scalar = {
  withDefaultFonts: false,
  authentication: { preferredSecurityScheme: "DeveloperBearer" },
  showDeveloperTools: "never",
  hideClientButton: true,
  hiddenClients: (
    "c clojure csharp dart fsharp go http java kotlin node objc ocaml php powershell python r ruby rust swift " +
    "js/axios js/jquery js/ofetch js/xhr shell/httpie shell/wget"
  ).split(" "),
  telemetry: false,
  customCss:
    'a[href*="scalar.com"] { display: none } ' +
    ".references-rendered { overflow-x: clip } " +
    ".markdown.markdown-summary, .markdown-summary *, .property-detail-value { line-height: 1.75 } " +
    // On narrow pages, moves the answer above the form of the request, so that the answer is in sight.
    '@media (max-width: 1279px) { section[aria-label="Response"]:has(.animate-response-children) ' +
    "{ order: -1; flex: none; max-height: 45vh; overflow: auto } }"
}

/**
 * Changes the document so that the viewer's requests and samples can be sent as they are:
 *
 * - Requests go to the server of the page, at `path`. The page can't send them to another origin, and `localhost` and
 *   `127.0.0.1` are two origins.
 * - Examples of parameters move to the schemas. If the body has named examples, the viewer reads the examples of parameters only
 *   in their schemas.
 * - A query parameter without example or default gets an empty list as example, and its schema is wrapped in `anyOf`. Otherwise
 *   the viewer would send an empty value, or the first value of the enumeration.
 * - `x-request-id` is left out, because its example would be the same in all requests.
 */
const forViewer = <Id extends string, Groups extends HttpApiGroup.Constraint>(
  api: HttpApi.HttpApi<Id, Groups>,
  path: string
): HttpApi.HttpApi<Id, Groups> => {
  const complete = Context.getUnsafe(api.annotations, OpenApi.Transform)
  return api.annotate(OpenApi.Transform, (document) => {
    const completed = complete({ ...document, servers: [{ url: path }] })
    if (!isSpec(completed)) return completed
    for (const operation of Object.values(completed.paths).flatMap((path) => Object.values(path))) {
      if (!("parameters" in operation)) continue
      operation.parameters = operation.parameters.filter(({ name }) => name !== "x-request-id")
      for (const parameter of operation.parameters) {
        const { in: place, schema } = parameter
        if ("example" in parameter) {
          if (!("default" in schema)) Object.assign(schema, { examples: [parameter.example] })
          delete parameter.example
        } else if (place === "query" && !("default" in schema)) {
          Object.assign(parameter, { example: [], schema: { anyOf: [schema] } })
        }
      }
    }
    return completed
  })
}

/** Renders the reference as HTML. The framework offers the page only as a route, so the route is run here. */
const pageOf = <Id extends string, Groups extends HttpApiGroup.Constraint>(api: HttpApi.HttpApi<Id, Groups>) =>
  Effect.gen(function* () {
    const { body } = yield* Effect.flatten(HttpRouter.toHttpEffect(HttpApiScalar.layer(api, { path: "/docs", scalar })))
    return withHead(body._tag === "Uint8Array" ? Buffer.from(body.body).toString("utf8") : "")
  }).pipe(
    Effect.provideService(
      HttpServerRequest.HttpServerRequest,
      HttpServerRequest.fromWeb(new Request("http://localhost/docs"))
    ),
    Effect.scoped,
    Effect.orDie
  )

/**
 * Shortens the page's `description` metadata to the first sentence, because it contains the whole introduction. Adds an empty
 * icon, so that the browser requests none.
 */
const withHead = (html: string) =>
  html
    .replace(/(<meta name="(?:og:)?description" content=")([^".]*\.)[^"]*/g, "$1$2")
    .replace("<head>", '<head>\n    <link rel="icon" href="data:," />')

/**
 * The content security policy of the reference: it runs only its inline scripts, by their hashes, and sends requests only to
 * the API. Inline styles are allowed, as the reference creates its style sheets in the browser.
 */
const policyOf = (html: string, publicUrl: string): string => {
  const hashes = [...html.matchAll(/<script>([^]*?)<\/script>/g)].map(
    // A browser hashes the parsed script, in which every line break is one line feed.
    ([, script = ""]) => createHash("sha256").update(script.replace(/\r\n?/g, "\n")).digest("base64")
  )
  return [
    "default-src 'none'",
    `script-src ${hashes.map((hash) => `'sha256-${hash}'`).join(" ")}`,
    "style-src 'unsafe-inline'",
    "img-src 'self' data: blob:",
    "font-src 'self' data:",
    `connect-src 'self' ${new URL(publicUrl).origin}`,
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'"
  ].join("; ")
}
