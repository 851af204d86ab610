import { assert, describe, it } from "@effect/vitest"
import fc from "fast-check"
import { hasEmptySegment, routable, targetFaults } from "../../src/server/RequestTarget.ts"

const template = "/clients/:clientId/notes/:noteId"
const locations = (target: string) => targetFaults(target, template).map(([location]) => location)

describe("request targets", () => {
  it("reach the router with every character of an id", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", minLength: 1 }), (id) => {
        fc.pre(id.isWellFormed())
        const target = `/clients/${encodeURIComponent(id)}`
        assert.strictEqual(decodeURIComponent(routable(target).split("/")[2] ?? ""), id)
      })
    )
    assert.strictEqual(routable("/clients/a;b#c?limit=1"), "/clients/a%3Bb%23c?limit=1")
    assert.strictEqual(routable("/clients/%zz?cursor=%"), "/clients/%25zz?cursor=%25")
    assert.strictEqual(routable("/clients/plain?limit=1"), "/clients/plain?limit=1")
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
    assert.deepStrictEqual(locations("/clients/a/notes/b?q=100%25+%C3%A9"), [])
  })

  it("are parsed or refused without a defect", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary-ascii" }), (text) => {
        targetFaults(routable(`/clients/${text}`), template)
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
