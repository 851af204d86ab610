/**
 * The documents that people and programs read before their first call (contract §15): the contract, `llms.txt`, the catalog of
 * RFC 9727 and the Arazzo workflows. `GET /` redirects to the reference.
 */
import { Context, Effect } from "effect"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as OpenApi from "effect/http-api/OpenApi"
import { readFile } from "node:fs/promises"
import { Api } from "../../api/Api.ts"
import { arazzo } from "./Arazzo.ts"
import { type Fixed, fixedAnswer } from "./FixedAnswer.ts"

type Make = (publicUrl: string, mcp: boolean) => Effect.Effect<Fixed>

const documents = {
  "/contract.md": () =>
    Effect.map(
      Effect.promise(() => readFile(new URL("../../api/CONTRACT.md", import.meta.url), "utf8")),
      (text): Fixed => ({ body: Buffer.from(withoutFiles(text)), contentType: "text/markdown; charset=utf-8" })
    ),
  "/llms.txt": (publicUrl, mcp) =>
    Effect.sync(() => ({ body: Buffer.from(llms(publicUrl, mcp)), contentType: "text/plain; charset=utf-8" })),
  "/.well-known/api-catalog": (publicUrl) =>
    Effect.sync(() => ({
      body: Buffer.from(JSON.stringify(catalog(publicUrl))),
      contentType: 'application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727"',
      // RFC 9727, section 2, requires this link in an answer to HEAD.
      headers: { link: `<${publicUrl}/.well-known/api-catalog>; rel="api-catalog"` }
    })),
  "/arazzo.json": (publicUrl) =>
    Effect.sync(() => ({ body: Buffer.from(JSON.stringify(arazzo(publicUrl))), contentType: "application/json" }))
} as const satisfies Readonly<Record<`/${string}`, Make>>

export const paths: ReadonlyArray<string> = ["/", ...Object.keys(documents)]

/** `mcp` tells whether the service has the endpoint of agents. */
export const layer = (publicUrl: string, mcp: boolean) =>
  HttpRouter.use((router) =>
    Effect.gen(function* () {
      const { pathname } = new URL(publicUrl)
      yield* router.add("GET", "/", HttpServerResponse.redirect(`${pathname.replace(/\/$/, "")}/docs`))
      for (const [path, make] of Object.entries<Make>(documents)) {
        yield* router.add("GET", `/${path.slice(1)}`, yield* fixedAnswer(make(publicUrl, mcp)))
      }
    })
  )

/**
 * Replaces each link to a file of the repository with the text of the link and a note that the file is in the repository. The
 * service does not serve these files.
 */
const withoutFiles = (markdown: string): string =>
  markdown.replace(/\[([^\]]*)\]\((?!#|[a-z]+:)[^)\s]+\)/g, "$1 in the service's repository")

const title = Context.getUnsafe(Api.annotations, OpenApi.Title)
const description = Context.getUnsafe(Api.annotations, OpenApi.Description)

/** Returns `llms.txt` in the format of llmstxt.org. */
const llms = (publicUrl: string, mcp: boolean): string => `# ${title}

> ${description}

Every path starts with ${publicUrl}/api/v1/developer. Every request carries \`Authorization: Bearer <token>\`; the token has a
project and scopes. Every mutation carries an \`idempotency-key\`: the same command sent again with the same key gets its first
answer and has no second effect. Every answer of 400 and above is \`application/problem+json\` (RFC 9457) with a stable \`code\`.

## Documents

- [The contract](${publicUrl}/contract.md): every operation, limit, problem, and the rules that all of them share
- [The OpenAPI document](${publicUrl}/openapi.json): OpenAPI 3.1 with every schema, header, problem and webhook
- [Workflows](${publicUrl}/arazzo.json): Arazzo 1.0; a first deal, a webhook and a campaign, step by step

${mcp ? agents(publicUrl) : ""}## Client

- [The typed client](${publicUrl}/contract.md#16-the-client-package): the package \`developer-api\`, which the operator of the service has; \`developer-api/client\` has every operation as a typed function, and verifies webhooks

## Optional

- [The interactive reference](${publicUrl}/docs): the OpenAPI document for people
- [The API catalog](${publicUrl}/.well-known/api-catalog): links to the same documents (RFC 9727)
`

const agents = (publicUrl: string): string => `## Agents

- [Model Context Protocol](${publicUrl}/contract.md#17-agents): \`POST ${publicUrl}/mcp\` with the same token has each operation as a tool

`

const catalog = (publicUrl: string) => ({
  linkset: [
    {
      anchor: `${publicUrl}/api/v1/developer`,
      "service-desc": [
        { href: `${publicUrl}/openapi.json`, type: "application/json", title: "The OpenAPI document" },
        { href: `${publicUrl}/arazzo.json`, type: "application/json", title: "Workflows (Arazzo)" }
      ],
      "service-doc": [
        { href: `${publicUrl}/docs`, type: "text/html", title: "The interactive reference" },
        { href: `${publicUrl}/contract.md`, type: "text/markdown", title: "The contract" },
        { href: `${publicUrl}/llms.txt`, type: "text/plain", title: "Where to read on" }
      ],
      status: [{ href: `${publicUrl}/readyz`, type: "application/json" }]
    }
  ]
})
