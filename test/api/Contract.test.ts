/** The tables of `src/api/CONTRACT.md` agree with the code. `contract/Campaigns.states` reads that of campaigns. */
import { assert, describe, it } from "@effect/vitest"
import { Context, Predicate, Schema } from "effect"
import * as HttpApi from "effect/http-api/HttpApi"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { Access } from "../../src/api/Access.ts"
import { Api } from "../../src/api/Api.ts"
import { eventTypes } from "../../src/api/integrations/Events.ts"
import * as Problems from "../../src/api/Problems.ts"

const contract = readFileSync(join(import.meta.dirname, "../../src/api/CONTRACT.md"), "utf8")

/** Returns the cells of the table rows of a section, without separator rows. */
const rowsOf = (section: string) =>
  (contract.split(`\n## ${section}`)[1] ?? "")
    .split("\n## ")[0]
    ?.split("\n")
    .filter((line) => line.startsWith("| ") && !line.startsWith("| -"))
    .map((line) =>
      line
        .slice(1, -1)
        .split(/(?<!\\)\|/)
        .map((cell) => cell.trim())
    ) ?? []

const codesIn = (text: string) => [...text.matchAll(/`([a-z_]+)`/g)].map(([, code = ""]) => code)

describe("the contract", () => {
  it("lists every operation with its method, path and scope", () => {
    const listed = rowsOf("Operations")
      .slice(1)
      .map(([name = "", route = "", scope = ""]) => {
        const [method, path] = route.replace(/ \(.*/, "").split(" ")
        return `${name} ${method} ${path?.replaceAll("`", "")} ${scope.replaceAll("`", "")}`
      })
    const declared: Array<string> = []
    HttpApi.reflect(Api, {
      onGroup: () => {},
      onEndpoint: ({ endpoint }) => {
        const { scope } = Context.getUnsafe(endpoint.annotations, Access)
        const path = endpoint.path.replace("/api/v1/developer", "").replaceAll(/:(\w+)/g, "{$1}")
        declared.push(`${endpoint.identifier} ${endpoint.method} ${path} ${scope}`)
      }
    })
    assert.deepStrictEqual(listed.toSorted(), declared.toSorted())
  })

  it("lists every problem with its status", () => {
    const listed = rowsOf("§2. ")
      .filter(([status = ""]) => /^\d/.test(status))
      .flatMap(([, codes = ""]) => codesIn(codes.replaceAll(/\([^)]*\)/g, "")))
    const declared = Object.values(Problems).flatMap((declaration) =>
      Predicate.hasProperty(declaration, "fields") &&
      Predicate.hasProperty(declaration.fields, "code") &&
      Schema.isSchema(declaration.fields.code) &&
      declaration.fields.code.ast._tag === "Literal"
        ? [String(declaration.fields.code.ast.literal)]
        : []
    )
    assert.deepStrictEqual(listed.toSorted(), declared.toSorted())
  })

  it("lists every event type", () => {
    const [, text = ""] = /\*\*Event types\*\*:([^]*?)\n\n/.exec(contract) ?? []
    assert.deepStrictEqual(
      [...text.matchAll(/`([\w.]+)`/g)].map(([, type]) => type),
      [...eventTypes]
    )
  })
})
