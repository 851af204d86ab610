/** Clients that other programs generate from the document of a running service call that service. */
import { assert, describe, it } from "../support/Vitest.ts"
import { Effect } from "effect"
import { execFile } from "node:child_process"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { startServer } from "../support/TestServer.ts"

const run = promisify(execFile)
const judges = join(import.meta.dirname, "node_modules")

const tool = (file: string, args: ReadonlyArray<string>, cwd: string) => run(process.execPath, [file, ...args], { cwd })

const heyApi = join(judges, "@hey-api/openapi-ts/bin/run.js")
const orval = join(judges, "orval/dist/bin/orval.mjs")
const compiler = join(judges, "typescript/bin/tsc")

const strict = ["--strict", "--module", "commonjs", "--target", "es2022", "--lib", "es2022,dom,dom.iterable"]

/**
 * Calls the service with both clients and prints what they answer. The compiler fails too if the line that is marked as wrong
 * compiles.
 */
const program = `
import { createClient, getClient, listClients } from "./heyApi"
import { client } from "./heyApi/client.gen"
import * as orval from "./orval"

declare const process: { readonly argv: ReadonlyArray<string> }
const [, , baseUrl = "", token = ""] = process.argv
const authorization = \`Bearer \${token}\`

const withHeyApi = async () => {
  client.setConfig({ baseUrl, auth: () => token })
  const create = (displayName: string) =>
    createClient({ body: { displayName }, headers: { "idempotency-key": displayName + "-0001" }, throwOnError: true })
  await create("Ada")
  const { data } = await create("Robin")
  const read = await getClient({ path: { clientId: data.resourceId }, throwOnError: true })
  const listed: Array<string> = []
  let cursor: string | null = null
  do {
    const query: { limit: number; cursor?: string } = cursor === null ? { limit: 1 } : { limit: 1, cursor }
    const page = await listClients({ query, throwOnError: true })
    listed.push(...page.data.items.map(({ displayName }) => displayName))
    cursor = page.data.nextCursor
  } while (cursor !== null)
  const { error } = await getClient({ path: { clientId: "nobody" } })
  // @ts-expect-error This operation never answers this problem.
  if (error?.code === "deal_not_found") throw new Error("A deal")
  return { read: read.data.displayName, listed, refused: error?.code }
}

const withOrval = async () => {
  const headers = { authorization }
  const created = await orval.createClient({ displayName: "Kim" }, { headers: { ...headers, "idempotency-key": "Kim-0001" } })
  if (created.status !== 201) throw new Error(created.data.title)
  const read = await orval.getClient(created.data.resourceId, { headers })
  if (read.status !== 200) throw new Error(read.status === 304 ? "not modified" : read.data.title)
  const page = await orval.listClients({ limit: 2 }, { headers })
  if (page.status !== 200) throw new Error(page.data.title)
  const rest = await orval.listClients({ limit: 2, cursor: page.data.nextCursor ?? "" }, { headers })
  if (rest.status !== 200) throw new Error(rest.data.title)
  const listed = [...page.data.items, ...rest.data.items].map(({ displayName }) => displayName)
  const refused = await orval.getClient("nobody", { headers })
  if (refused.status !== 404) throw new Error("Found")
  const code: "client_not_found" = refused.data.code
  return { read: read.data.displayName, listed, refused: code }
}

const main = async () => {
  console.log(JSON.stringify({ heyApi: await withHeyApi(), orval: await withOrval() }))
}
void main()
`

/** Generates both clients, compiles them with the program that calls them, and returns what the program prints. */
const judge = async (directory: string, url: string, token: string) => {
  const input = `${url}/openapi.json`
  const output = { mode: "single", target: "./orval.ts", client: "fetch", baseUrl: url }
  await writeFile(join(directory, "orval.config.mjs"), `export default ${JSON.stringify({ api: { input, output } })}`)
  await writeFile(join(directory, "program.ts"), program)
  await tool(heyApi, ["-i", input, "-o", "heyApi", "-c", "@hey-api/client-fetch", "--no-log-file"], directory)
  await tool(orval, ["--config", "orval.config.mjs"], directory)
  const compiled = await run(process.execPath, [compiler, ...strict, "--outDir", "out", "program.ts"], {
    cwd: directory
  }).catch((error: { readonly stdout: string }) => error)
  assert.strictEqual(compiled.stdout, "")
  const { stdout } = await tool(join(directory, "out/program.js"), [url, token], directory)
  return JSON.parse(stdout)
}

describe("clients by @hey-api/openapi-ts and orval", () => {
  it.live(
    "compile strictly, create, read and list records, and have typed problems",
    function* () {
      const { apply, issue, url } = yield* startServer()
      yield* apply("generated")
      const token = yield* issue("generated")
      const directory = yield* Effect.acquireRelease(
        Effect.promise(() => mkdtemp(join(tmpdir(), "developer-api-generated-"))),
        (directory) => Effect.promise(() => rm(directory, { recursive: true }))
      )
      const printed = yield* Effect.promise(() => judge(directory, url, token))
      assert.deepStrictEqual(printed, {
        heyApi: { read: "Robin", listed: ["Robin", "Ada"], refused: "client_not_found" },
        orval: { read: "Kim", listed: ["Kim", "Robin", "Ada"], refused: "client_not_found" }
      })
    },
    60_000
  )
})
