/**
 * The documents that people and programs read before their first call (contract §15): the contract and `llms.txt`. `GET /`
 * redirects to the reference.
 */
import { Context, Effect } from "effect"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as OpenApi from "effect/http-api/OpenApi"
import { readFile } from "node:fs/promises"
import { Api } from "../../api/Api.ts"
import { type Fixed, fixedAnswer } from "./FixedAnswer.ts"

type Make = (publicUrl: string, mcp: boolean) => Effect.Effect<Fixed>

const documents = {
  "/contract.md": () =>
    Effect.map(
      Effect.promise(() => readFile(new URL("../../api/CONTRACT.md", import.meta.url), "utf8")),
      (text): Fixed => ({ body: Buffer.from(withoutFiles(text)), contentType: "text/markdown; charset=utf-8" })
    ),
  "/llms.txt": (publicUrl, mcp) =>
    Effect.sync(() => ({ body: Buffer.from(llms(publicUrl, mcp)), contentType: "text/plain; charset=utf-8" }))
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

${mcp ? agents(publicUrl) : ""}## Client

- [The typed client](${publicUrl}/contract.md#16-the-client-package): the package \`developer-api\`, which the operator of the service has; \`developer-api/client\` has every operation as a typed function, and verifies webhooks

## Optional

- [The interactive reference](${publicUrl}/docs): the OpenAPI document for people
`

const agents = (publicUrl: string): string => `## Agents

- [Model Context Protocol](${publicUrl}/contract.md#17-agents): \`POST ${publicUrl}/mcp\` with the same token has each operation as a tool

`
