/** The tables of `src/api/CONTRACT.md` agree with the code. `contract/Campaigns.states` reads that of campaigns. */
import { assert, describe, it } from "@effect/vitest"
import { Context, Predicate, Schema } from "effect"
import { OpenApi } from "effect/http-api"
import * as HttpApi from "effect/http-api/HttpApi"
import { Access } from "../../src/api/Access.ts"
import { Api, endpoints } from "../../src/api/Api.ts"
import { eventTypes } from "../../src/api/integrations/Events.ts"
import * as Problems from "../../src/api/Problems.ts"
import { contract, operations, rowsOf } from "../contract/Operations.ts"

const codesIn = (text: string) => [...text.matchAll(/`([a-z_]+)`/g)].map(([, code = ""]) => code)

describe("the contract", () => {
  it("lists every operation with its method, path and scope", () => {
    const listed = [...operations].map(([name, { method, path, scope }]) => `${name} ${method} /api${path} ${scope}`)
    const declared: Array<string> = []
    HttpApi.reflect(Api, {
      onGroup: () => {},
      onEndpoint: ({ endpoint }) => {
        const { scope } = Context.getUnsafe(endpoint.annotations, Access)
        const path = endpoint.path.replaceAll(/:(\w+)/g, "{$1}")
        declared.push(`${endpoint.identifier} ${endpoint.method} ${path} ${scope}`)
      }
    })
    assert.deepStrictEqual(listed.toSorted(), declared.toSorted())
  })

  it("names the ids of campaigns that other paths hide", () => {
    const { getCampaign } = Object.fromEntries(endpoints().map(({ endpoint }) => [endpoint.identifier, endpoint]))
    const { annotations, path } = getCampaign ?? assert.fail()
    const hidden = endpoints().flatMap(({ endpoint }) => {
      const [, id = ""] = endpoint.path.split(path.replace(":campaignId", ""))
      return endpoint.method !== "GET" || id === "" || /[:/]/.test(id) ? [] : [id]
    })
    assert.deepStrictEqual(hidden.toSorted(), ["audience-segments", "templates"])
    const description = Context.getUnsafe(annotations, OpenApi.Description)
    for (const id of hidden) assert.include(description, `\`${id}\``)
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
