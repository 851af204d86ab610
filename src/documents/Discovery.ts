/**
 * The documents that people and programs read before their first call (contract §15): the manuals and `llms.txt`. `GET /`
 * redirects to the reference.
 */
import { Context, Effect } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import { OpenApi } from "effect/http-api"
import { execFile } from "node:child_process"
import { mkdtemp, readFile, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { Api } from "../api/Api.ts"
import { type Fixed, fixedAnswer } from "./FixedAnswer.ts"

type Make = (publicUrl: string, mcp: boolean) => Effect.Effect<Fixed>

/** The manuals. Each is served as a page, and as text with the ending `.md`. Both name the URL of the service in their examples. */
const manuals = { contract: "api/CONTRACT.md", client: "client/README.md", agents: "client/Agents.md" } as const

const pages = Object.fromEntries(
  Object.entries(manuals).flatMap(([name, file]): ReadonlyArray<readonly [string, Make]> => {
    const source = new URL(`../${file}`, import.meta.url)
    const text = (publicUrl: string, ending: string) =>
      Effect.map(
        Effect.promise(() => readFile(source, "utf8")),
        (markdown) => withServedLinks(markdown, source, ending).replaceAll("http://127.0.0.1:3000", publicUrl)
      )
    const page = (markdown: string) => Effect.promise(async () => (await import("./Manual.ts")).manualPage(markdown))
    const plain = (markdown: string): Fixed => ({
      body: Buffer.from(markdown),
      contentType: "text/markdown; charset=utf-8"
    })
    return [
      [`/${name}`, (publicUrl) => Effect.flatMap(text(publicUrl, ""), page)],
      [`/${name}.md`, (publicUrl) => Effect.map(text(publicUrl, ".md"), plain)]
    ]
  })
)

const documents: Readonly<Record<string, Make>> = {
  ...pages,
  "/client.tgz": () => Effect.map(clientPackage, (body): Fixed => ({ body, contentType: "application/gzip" })),
  "/llms.txt": (publicUrl, mcp) =>
    Effect.sync(() => ({ body: Buffer.from(llms(publicUrl, mcp)), contentType: "text/plain; charset=utf-8" }))
}

export const paths: ReadonlyArray<string> = ["/", ...Object.keys(documents)]

/** `mcp` tells whether the service has the endpoint of agents. */
export const layer = (publicUrl: string, mcp: boolean) =>
  HttpRouter.use((router) =>
    Effect.gen(function* () {
      const { pathname } = new URL(publicUrl)
      yield* router.add("GET", "/", HttpServerResponse.redirect(`${pathname.replace(/\/$/, "")}/docs`))
      for (const [path, make] of Object.entries(documents)) {
        yield* router.add("GET", `/${path.slice(1)}`, fixedAnswer(make(publicUrl, mcp)))
      }
    })
  )

/** Where an image has the package of the client. */
export const packageFile = join(import.meta.dirname, "../client/client.tgz")

/** The package of the client: `packageFile`, or made from the sources at the first request, which needs the tools of development. */
const clientPackage = Effect.promise(async (): Promise<Uint8Array> => {
  const made = await readFile(packageFile).catch(() => undefined)
  if (made !== undefined) return made
  const folder = await mkdtemp(join(tmpdir(), "developer-api-"))
  try {
    const file = join(folder, "client.tgz")
    await promisify(execFile)(process.execPath, [join(import.meta.dirname, "../pack.ts"), file])
    return await readFile(file)
  } finally {
    await rm(folder, { recursive: true })
  }
})

/** Leads links between the manuals to their routes. A link to another file becomes a note that the repository has it. */
const withServedLinks = (markdown: string, source: URL, ending: string): string =>
  markdown.replace(/\[([^\]]*)\]\((?!#|[a-z]+:)([^)\s]+)\)/g, (_, text: string, target: string) => {
    const { hash, href } = new URL(target, source)
    const served = Object.entries(manuals).find(([, file]) => href.endsWith(`/${file}${hash}`))
    return served === undefined ? `${text} in the service's repository` : `[${text}](${served[0]}${ending}${hash})`
  })

const title = Context.getUnsafe(Api.annotations, OpenApi.Title)
const description = Context.getUnsafe(Api.annotations, OpenApi.Description)

const llms = (publicUrl: string, mcp: boolean): string => `# ${title}

> ${description}

Every path starts with ${publicUrl}/api/v1/developer. Every request carries \`Authorization: Bearer <token>\`; the token has a
project and scopes. Every mutation carries an \`idempotency-key\`: the same command sent again with the same key gets its first
answer and has no second effect. Every answer of 400 and above is \`application/problem+json\` (RFC 9457) with a stable \`code\`.

## Documents

- [The contract](${publicUrl}/contract.md): every operation, limit, problem, and the rules that all of them share
- [The OpenAPI document](${publicUrl}/openapi.json): OpenAPI 3.1 with every schema, header, problem and webhook

${mcp ? agents(publicUrl) : ""}## Client

- [The package](${publicUrl}/client.tgz): \`npm install ${publicUrl}/client.tgz effect@4.1.0\`; \`developer-api/client\` has every operation as a typed function, \`developer-api/webhooks\` verifies webhooks without \`effect\`
- [The manual of the client](${publicUrl}/client.md): its behaviour, the sync of a shop, receiving webhooks

## Optional

- [The interactive reference](${publicUrl}/docs): the OpenAPI document for people
- [The contract as a page](${publicUrl}/contract): the same text for people
`

const agents = (publicUrl: string): string => `## Agents

- [Model Context Protocol](${publicUrl}/agents.md): \`POST ${publicUrl}/mcp\` with the same token has each operation as a tool

`
