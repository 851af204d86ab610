/**
 * The OpenAPI document and the interactive reference, which loads nothing from other hosts; its content security policy
 * forbids it. Each is rendered at its first request, as most processes never serve them and the reference contains megabytes
 * of script.
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

/** `GET /openapi.json` and `GET /docs`, for a service that is reached at `publicUrl`. */
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
 * Settings of the viewer. It shows nothing of its maker: no tools, no links to products. Its own height of a line cuts off
 * the underscores of codes and patterns in many fonts, and invisible parts make narrow pages scroll sideways. It offers
 * samples for curl and fetch: those for Node and Python import what is not installed, or lose the port.
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
    // Where the answer would be below the form of the request, out of sight.
    '@media (max-width: 1279px) { section[aria-label="Response"]:has(.animate-response-children) ' +
    "{ order: -1; flex: none; max-height: 45vh; overflow: auto } }"
}

/**
 * Changes the document so that the viewer's requests and samples can be sent as they are. They go to the server that the page
 * comes from, at `path`: a browser does not send them elsewhere, and `localhost` is not `127.0.0.1` for it. If a body has named
 * examples, the viewer reads a parameter's value from its schema alone. It sends an optional parameter of the query that has
 * no value as an empty one, unless its value is an empty list. The id that a caller may give to a request is left out: it
 * would be the same in all of them.
 */
const forViewer = <Id extends string, Groups extends HttpApiGroup.Constraint>(
  api: HttpApi.HttpApi<Id, Groups>,
  path: string
): HttpApi.HttpApi<Id, Groups> => {
  const complete = Context.getUnsafe(api.annotations, OpenApi.Transform)
  return api.annotate(OpenApi.Transform, (document) => {
    const completed = complete(document)
    if (!isSpec(completed)) return completed
    completed.servers = [{ url: path }]
    for (const operation of Object.values(completed.paths).flatMap((path) => Object.values(path))) {
      if (!("parameters" in operation)) continue
      operation.parameters = operation.parameters.filter(({ name }) => name !== "x-request-id")
      for (const parameter of operation.parameters) {
        const { in: place, schema } = parameter
        if ("example" in parameter) {
          if (!("default" in schema)) Object.assign(schema, { examples: [parameter.example] })
          delete parameter.example
        } else if (place === "query" && !("default" in schema)) Object.assign(parameter, { example: [] })
      }
    }
    return completed
  })
}

/** The reference as HTML. The framework offers it only as a route, which is run here once. */
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

/** Replaces the descriptions of the page, which are the whole introduction, by its first sentence, and adds an empty icon. */
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
