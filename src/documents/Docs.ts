/**
 * The OpenAPI document, and the interactive reference: a small page, the script of its viewer, and the document in the viewer's
 * form. All are rendered at their first request, because the script has megabytes and most processes never serve it. The content
 * security policy of the page forbids it to load anything from other hosts.
 */
import { Context, Effect } from "effect"
import { HttpRouter, HttpServerRequest } from "effect/http"
import { HttpApi, type HttpApiGroup, HttpApiScalar, OpenApi } from "effect/http-api"
import { createHash } from "node:crypto"
import { Api } from "../api/Api.ts"
import { completeDocument, isSpec } from "../api/document/Document.ts"
import { examplesOf, withComponents } from "../api/document/Components.ts"
import { type Fixed, fixedAnswer } from "./FixedAnswer.ts"
import { samplesOf } from "./Samples.ts"

const pages = { page: "/docs", viewer: "/docs/viewer.js", document: "/docs/openapi.json" } as const

export const paths: ReadonlyArray<string> = ["/openapi.json", ...Object.values(pages)]

export const layer = (publicUrl: string) =>
  HttpRouter.use((router) =>
    Effect.gen(function* () {
      const api = yield* Effect.cached(
        Effect.sync(() => completeDocument(Api.annotate(OpenApi.Servers, [{ url: publicUrl }])))
      )
      const viewer = yield* Effect.cached(viewerScript)
      const page = Effect.map(viewer, (script): Fixed => {
        const start = startOf(new URL(publicUrl).pathname)
        return {
          body: Buffer.from(pageOf(start, hashOf(script, "base64url"))),
          contentType: "text/html; charset=utf-8",
          headers: { "content-security-policy": policyOf(start, publicUrl), "referrer-policy": "no-referrer" }
        }
      })
      const script = Effect.map(viewer, (script): Fixed => ({
        body: Buffer.from(script),
        contentType: "text/javascript; charset=utf-8",
        // The page names the script with its hash, so a browser need not ask for it again, and keeps it compiled.
        headers: { "cache-control": "public, max-age=31536000, immutable" }
      }))
      const document = Effect.map(api, (api) => documentOf(forViewer(api, publicUrl)))
      yield* router.add("GET", "/openapi.json", fixedAnswer(Effect.map(api, documentOf)))
      yield* router.add("GET", pages.page, fixedAnswer(page))
      yield* router.add("GET", pages.viewer, fixedAnswer(script))
      yield* router.add("GET", pages.document, fixedAnswer(document))
    })
  )

/**
 * Settings of the viewer. They hide the tools of its vendor and its own samples, in which all requests have the same idempotency key. The
 * style replaces a line height that cuts off underscores in many fonts, and clips invisible parts that make narrow pages scroll sideways.
 */
const scalar = {
  withDefaultFonts: false,
  authentication: { preferredSecurityScheme: "DeveloperBearer" },
  showDeveloperTools: "never",
  hideClientButton: true,
  hiddenClients: true,
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
 * - The schema of a query parameter without example or default is wrapped in `anyOf`. Otherwise the viewer would send the first
 *   value of the enumeration.
 * - `x-request-id` is left out, because its example would be the same in all requests.
 */
const forViewer = <Id extends string, Groups extends HttpApiGroup.Constraint>(
  api: HttpApi.HttpApi<Id, Groups>,
  publicUrl: string
): HttpApi.HttpApi<Id, Groups> => {
  const complete = Context.getUnsafe(api.annotations, OpenApi.Transform)
  return api.annotate(OpenApi.Transform, (document) => {
    const completed = complete({ ...document, servers: [{ url: new URL(publicUrl).pathname }] })
    if (!isSpec(completed)) return completed
    const operations = Object.entries(completed.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => ({ path, method, operation }))
    )
    for (const { method, operation, path } of operations) {
      if (!("parameters" in operation)) continue
      Object.assign(operation, { "x-codeSamples": samplesOf(requestOf(`${publicUrl}${path}`, method, operation)) })
      operation.parameters = operation.parameters.filter(({ name }) => name !== "x-request-id")
      for (const parameter of operation.parameters) {
        if (parameter.name === "idempotency-key")
          parameter.description += " If it is empty here, each request gets a new one."
        const { in: place, schema } = parameter
        if ("example" in parameter) {
          if (!("default" in schema)) Object.assign(schema, { examples: [parameter.example] })
          delete parameter.example
        } else if (place === "query" && !("default" in schema)) {
          parameter.schema = { anyOf: [schema] }
        }
      }
    }
    return completed
  })
}

/** The request of an operation with its examples. A parameter without an example is left out. */
const requestOf = (url: string, method: string, operation: OpenApi.OpenAPISpecOperation) => {
  const { parameters } = operation
  const query = new URLSearchParams()
  let filled = url
  for (const parameter of parameters) {
    if (!("example" in parameter)) continue
    const value = String(parameter.example)
    if (parameter.in === "path") filled = filled.replace(`{${parameter.name}}`, encodeURIComponent(value))
    if (parameter.in === "query") query.set(parameter.name, value)
  }
  return {
    method: method.toUpperCase(),
    url: query.size === 0 ? filled : `${filled}?${query}`,
    isKeyed: parameters.some(({ name }) => name === "idempotency-key"),
    body: Object.values(examplesOf(operation.requestBody ?? {})[0] ?? {})[0]?.value
  }
}

const documentOf = <Id extends string, Groups extends HttpApiGroup.Constraint>(
  api: HttpApi.HttpApi<Id, Groups>
): Fixed => ({
  body: Buffer.from(JSON.stringify(withComponents(OpenApi.fromApi(api)))),
  contentType: "application/json"
})

const title = Context.getUnsafe(Api.annotations, OpenApi.Title)
const description = Context.getUnsafe(Api.annotations, OpenApi.Description)

/** The script of the viewer. The framework offers it only as a part of its page, so the page of an empty API is rendered. */
const viewerScript = Effect.gen(function* () {
  const { body } = yield* Effect.flatten(HttpRouter.toHttpEffect(HttpApiScalar.layer(HttpApi.make("empty"))))
  const html = body._tag === "Uint8Array" ? Buffer.from(body.body).toString("utf8") : ""
  return /<script>([^]*?)<\/script>/.exec(html)?.[1] ?? ""
}).pipe(
  Effect.provideServiceEffect(
    HttpServerRequest.HttpServerRequest,
    Effect.sync(() => HttpServerRequest.fromWeb(new Request("http://localhost/docs")))
  ),
  Effect.scoped,
  Effect.orDie
)

const hashOf = (script: string, encoding: "base64" | "base64url") =>
  createHash("sha256").update(script).digest(encoding)

/**
 * The inline script of the page, which starts the viewer. `path` is the path of the service. A request whose idempotency key the
 * reader has not entered gets a new one each time it is sent. A browser has `randomUUID` only where the page is secure.
 */
const startOf = (path: string) =>
  `Scalar.createApiReference("#reference", { ...${JSON.stringify({ ...scalar, url: `${path.replace(/\/$/, "")}${pages.document}` })},
  onBeforeRequest: ({ request }) => {
    if (request.method !== "GET" && !request.headers.get("idempotency-key"))
      request.headers.set("idempotency-key", crypto.getRandomValues(new Uint32Array(4)).join("-"))
  }
})`

/** Has an empty icon, so that the browser requests none. */
const pageOf = (start: string, version: string) => `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <meta name="description" content="${description}" />
    <link rel="icon" href="data:," />
    <title>${title}</title>
  </head>
  <body>
    <div id="reference"></div>
    <script src="docs/viewer.js?v=${version}"></script>
    <script>${start}</script>
  </body>
</html>
`

/**
 * The content security policy of the reference: it runs only the script of the viewer and its inline script, by its hash, and
 * sends requests only to the API. Inline styles are allowed, as the reference creates its style sheets in the browser.
 */
const policyOf = (start: string, publicUrl: string): string =>
  `default-src 'none'; script-src 'self' 'sha256-${hashOf(start, "base64")}'; style-src 'unsafe-inline'; ` +
  `img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self' ${new URL(publicUrl).origin}; ` +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
