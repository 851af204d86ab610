/** Checks of the OpenAPI document by linters and by a generator of types. */
import { assert, describe, it } from "@effect/vitest"
import { createConfig, lintFromString } from "@redocly/openapi-core"
import SpectralCore from "@stoplight/spectral-core"
import SpectralRulesets from "@stoplight/spectral-rulesets"
import { OpenApi } from "effect/http-api"
import { execFile } from "node:child_process"
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { afterAll, beforeAll } from "vitest"
import { Api } from "../../src/api/Api.ts"
import { completeDocument } from "../../src/api/document/Document.ts"
import { withComponents } from "../../src/api/document/Components.ts"

const run = promisify(execFile)
const compiler = join(import.meta.dirname, "../../node_modules/.bin/tsc")
const generator = join(import.meta.dirname, "node_modules/openapi-typescript/bin/cli.js")

let directory: string
let file: string

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "developer-api-reference-"))
  file = join(directory, "openapi.json")
  const api = completeDocument(Api.annotate(OpenApi.Servers, [{ url: "https://api.developer.test" }]))
  await writeFile(file, JSON.stringify(withComponents(OpenApi.fromApi(api))))
})

afterAll(() => rm(directory, { recursive: true }))

describe("the OpenAPI document", () => {
  it("passes Redocly's recommended rules", async () => {
    // No method is on both `deals/by-external-id/{externalId}` and `deals/{dealId}/notes`, so no request is ambiguous.
    const config = await createConfig({ extends: ["recommended"], rules: { "no-ambiguous-paths": "off" } })
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
      compiler,
      [...strict, "--noEmit", "--module", "nodenext", "--types", "", "program.ts"],
      { cwd: directory }
    )
    assert.strictEqual(stdout, "")
  })
})
