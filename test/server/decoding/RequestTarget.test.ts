import { assert, describe, it } from "@effect/vitest"
import fc from "fast-check"
import { hasEmptySegment, routable, targetFaults } from "../../../src/server/decoding/RequestTarget.ts"
import { hostileParts } from "../../support/HostileTargets.ts"

const template = "/clients/:clientId/notes/:noteId"
const locations = (target: string) => targetFaults(target, template).map(([location]) => location)

/** The routes of these tests. */
const methods = (path: string) => (/^\/clients\/[^/]+(\/notes\/[^/]+)?$/.test(path) ? ["GET"] : [])
const routed = (target: string) => routable(target, methods)
const longestId = 160

describe("request targets", () => {
  it("reach the router with every character of an id", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", minLength: 1, maxLength: longestId }), (id) => {
        fc.pre(id.isWellFormed())
        const target = `/clients/${encodeURIComponent(id)}`
        assert.strictEqual(decodeURIComponent(routed(target)?.split("/")[2] ?? ""), id)
      })
    )
    const longest = `/clients/${encodeURIComponent("😀".repeat(longestId))}`
    assert.strictEqual(routed(longest), longest)
    assert.strictEqual(routed("/clients/a;b#c?limit=1"), "/clients/a%3Bb%23c?limit=1")
    assert.strictEqual(routed("/clients/a?cursor=%"), "/clients/a?cursor=%25")
    assert.strictEqual(routed("/clients/plain?limit=1"), "/clients/plain?limit=1")
  })

  it("reach the router neither malformed nor long, and not at all without a route", () => {
    const refused = new RegExp(`^/clients/x{${longestId + 1}}$`)
    for (const id of ["%zz", "%", "%FF", "%25".repeat(641), "%;"]) assert.match(routed(`/clients/${id}`) ?? "", refused)
    for (const target of ["*", "*clients/a", "a:443"]) assert.isUndefined(routed(target))
    for (const [name, part] of Object.entries(hostileParts)) {
      if (/[%;#]/.test(part)) assert.isUndefined(routed(`/x/${part}`), name)
      const [path = "", query = ""] = (routed(`/clients/${part}/notes/${part}?${part}`) ?? "").split("?")
      if (/[%;#]/.test(part)) for (const segment of path.split("/")) assert.isAtMost(segment.length, 1_920, name)
      assert.isAtMost(query.split("&").length, 100, name)
    }
  })

  it("are refused at the location of malformed percent-encoding, unsafe characters and repeats", () => {
    assert.deepStrictEqual(locations("/clients/%zz/notes/%FF"), ["path/clientId", "path/noteId"])
    assert.deepStrictEqual(locations("/clients/%00/notes/a%2Fb"), ["path/clientId"])
    assert.deepStrictEqual(locations("/clients/a/notes/b?x=%&y=%00&z=1&z=2&%zz=1"), [
      "query/x",
      "query/y",
      "query/z",
      "query/%zz"
    ])
    const many = (count: number) => `/clients/a/notes/b?${Array.from({ length: count }, (_, i) => `p${i}=%`).join("&")}`
    assert.notInclude(locations(many(100)), "query")
    assert.deepStrictEqual(locations(many(2_500)), ["query", ...locations(many(100))])
    assert.deepStrictEqual(locations("/clients/a/notes/b?q=100%25+%C3%A9"), [])
  })

  it("are parsed or refused without a defect", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary-ascii" }), (text) => {
        targetFaults(routed(`/clients/${text}`) ?? "", template)
        targetFaults(`/clients/${text}`, template)
      })
    )
  })

  it("with an empty segment or a trailing slash are different paths", () => {
    assert.deepStrictEqual(["/", "/clients", "/clients/", "//clients", "/clients//a"].map(hasEmptySegment), [
      false,
      false,
      true,
      true,
      true
    ])
  })
})
