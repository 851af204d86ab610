/** Checks of the reference by other programs: linters, a generator of types, a browser; and against the service's answers. */
import { assert, describe, it } from "@effect/vitest"
import { createConfig, lintFromString } from "@redocly/openapi-core"
import SpectralCore from "@stoplight/spectral-core"
import SpectralRulesets from "@stoplight/spectral-rulesets"
import { Effect } from "effect"
import { OpenApi } from "effect/http-api"
import { execFile } from "node:child_process"
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { get as httpGet, type IncomingMessage } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { buffer } from "node:stream/consumers"
import { promisify } from "node:util"
import { brotliDecompressSync, gunzipSync } from "node:zlib"
import { afterAll, beforeAll } from "vitest"
import { Api } from "../../src/api/Api.ts"
import { documented } from "../../src/api/Document.ts"
import { startBrowser } from "../support/Browser.ts"
import { assertDocumented } from "../support/Documented.ts"
import { requires } from "../support/Programs.ts"
import { startServer } from "../support/TestServer.ts"

const run = promisify(execFile)
const bin = (name: string) => join(import.meta.dirname, "../../node_modules/.bin", name)
const generator = join(import.meta.dirname, "../judges/node_modules/openapi-typescript/bin/cli.js")

let directory: string
let file: string

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "developer-api-reference-"))
  file = join(directory, "openapi.json")
  const api = documented(Api.annotate(OpenApi.Servers, [{ url: "https://api.developer.test" }]))
  await writeFile(file, JSON.stringify(OpenApi.fromApi(api)))
})

afterAll(() => rm(directory, { recursive: true }))

describe("the OpenAPI document", () => {
  it("passes Redocly's recommended rules", async () => {
    const config = await createConfig({ extends: ["recommended"] })
    const problems = await lintFromString({ source: await readFile(file, "utf8"), config })
    assert.deepStrictEqual(problems, [])
  })

  it("passes Spectral's OpenAPI rules except for the missing contact", async () => {
    const spectral = new SpectralCore.Spectral()
    spectral.setRuleset({ ...SpectralRulesets.oas, extends: [] })
    const { default: document } = await import(file, { with: { type: "json" } })
    const findings = await spectral.run(document)
    assert.deepStrictEqual(
      findings.map(({ code, path }) => `${code} ${path.join("/")}`),
      ["info-contact info"]
    )
  })

  it("generates types that compile strictly and reject a wrong program", async () => {
    await run(process.execPath, [generator, file, "--output", join(directory, "api.d.ts")])
    await writeFile(
      join(directory, "program.ts"),
      `import type { components, webhooks } from "./api.js"
type Body = webhooks["crm.deal.created.v1"]["post"]["requestBody"]["content"]["application/json"]
export const title = (body: Body): string => body.data.deal.title
export const patch: components["schemas"]["DeveloperClientPatch"] = { email: null }
// @ts-expect-error A name is never null.
export const wrong: components["schemas"]["DeveloperClientPatch"] = { displayName: null }
`
    )
    // tsc fails if a line does not compile, or if the line marked as wrong does.
    const strict = ["--ignoreConfig", "--strict", "--exactOptionalPropertyTypes", "--noUncheckedIndexedAccess"]
    const { stdout } = await run(
      bin("tsc"),
      [...strict, "--noEmit", "--module", "nodenext", "--types", "", "program.ts"],
      { cwd: directory }
    )
    assert.strictEqual(stdout, "")
  })

  it("fails the check of answers when an answer differs from it", () => {
    const path = "/api/v1/developer/crm/clients?limit=1"
    const unlimited = { "x-request-id": "r", "content-type": "application/json" }
    const headers = { ...unlimited, ratelimit: "", "ratelimit-policy": "" }
    const answer = (json: unknown, status = 200) => ({ status, headers, json, text: JSON.stringify(json) })
    const page = { items: [], nextCursor: null }
    assertDocumented({ path }, answer(page))
    assert.throws(() => assertDocumented({ path }, answer({ ...page, total: 0 })), /as documented/)
    assert.throws(() => assertDocumented({ path }, answer({ items: [] })), /as documented/)
    assert.throws(() => assertDocumented({ path }, answer(page, 202)), /Not documented/)
    assert.throws(() => assertDocumented({ path }, { ...answer(page), headers: unlimited }), /ratelimit/)
  })
})

describe("/docs", () => {
  requires("chromium")

  it.live("renders in a browser without a request to another host", () =>
    Effect.gen(function* () {
      const { url } = yield* startServer()
      const browser = yield* startBrowser
      const page = yield* Effect.promise(() => browser.newPage())
      const asked = new Set<string>()
      const failures: Array<string> = []
      page.on("request", (request) => {
        const { origin, protocol } = new URL(request.url())
        if (protocol !== "data:" && protocol !== "blob:") asked.add(origin)
      })
      page.on("pageerror", (error) => failures.push(error.message))
      // The browser reports a violated content security policy on its console only.
      page.on("console", (message) => {
        if (message.text().includes("Content Security Policy")) failures.push(message.text())
      })
      yield* Effect.promise(async () => {
        await page.goto(`${url}/docs`, { waitUntil: "networkidle" })
        await page.getByText("Create a client").first().waitFor()
        await page.getByText("Idempotency").first().waitFor()
      })
      assert.deepStrictEqual([...asked], [url])
      assert.deepStrictEqual(failures, [])

      // Injected markup is neither run nor loaded, and nothing is sent to another origin.
      const smuggled = yield* Effect.promise(() =>
        page.evaluate(`(async () => {
          const script = document.createElement("script")
          script.textContent = "globalThis.smuggled = true"
          document.body.append(script)
          const elsewhere = await fetch("http://127.0.0.2:9/").then(() => "answered", () => "refused")
          return [globalThis.smuggled === true, elsewhere]
        })()`)
      )
      assert.deepStrictEqual(smuggled, [false, "refused"])
      assert.isAtLeast(failures.length, 2)
    }).pipe(Effect.scoped)
  )
})

describe("the document and the reference", () => {
  it.live("are compressed for clients that accept it, and answered with 304 while they are unchanged", () =>
    Effect.gen(function* () {
      const { url } = yield* startServer()
      const get = (path: string, headers: Record<string, string> = {}) =>
        Effect.promise(async () => {
          const response = await new Promise<IncomingMessage>((resolve, reject) =>
            httpGet(new URL(path, url), { headers, agent: false }, resolve).on("error", reject)
          )
          return { status: response.statusCode, headers: response.headers, body: await buffer(response) }
        })
      for (const path of [
        "/openapi.json",
        "/docs",
        "/contract.md",
        "/llms.txt",
        "/.well-known/api-catalog",
        "/arazzo.json"
      ]) {
        const plain = yield* get(path)
        assert.strictEqual(plain.headers["content-encoding"], undefined)
        assert.strictEqual(plain.headers["x-content-type-options"], "nosniff")
        assert.strictEqual(plain.headers["vary"], "accept-encoding")
        const tags = new Set([plain.headers.etag])
        for (const [accepted, encoding, decompress] of [
          ["gzip, deflate, br, zstd", "br", brotliDecompressSync],
          ["deflate, GZIP;q=0.5", "gzip", gunzipSync],
          ["br;q=0, gzip", "gzip", gunzipSync]
        ] as const) {
          const small = yield* get(path, { "accept-encoding": accepted })
          assert.strictEqual(small.headers["content-encoding"], encoding)
          assert.isBelow(small.body.length, plain.body.length / (plain.body.length < 10_000 ? 1.5 : 2.5))
          assert.isTrue(decompress(small.body).equals(plain.body))
          tags.add(small.headers.etag)
          const again = yield* get(path, {
            "accept-encoding": accepted,
            "if-none-match": `"other", W/${small.headers.etag}`
          })
          assert.deepStrictEqual([again.status, again.body.length, again.headers.etag], [304, 0, small.headers.etag])
        }
        assert.strictEqual(tags.size, 3)
        assert.strictEqual((yield* get(path, { "if-none-match": '"other"' })).status, 200)
      }
    }).pipe(Effect.scoped)
  )
})
