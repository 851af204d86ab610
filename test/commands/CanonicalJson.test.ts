import { assert, describe, it } from "@effect/vitest"
import fc from "fast-check"
import { ProjectId } from "../../src/api/schema/Ids.ts"
import { canonicalJson, command } from "../../src/commands/Command.ts"

/** Returns the value with the members of every object in reverse order. */
const shuffled = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(shuffled)
  if (typeof value !== "object" || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .map(([name, member]) => [name, shuffled(member)] as const)
      .toReversed()
  )
}

const fingerprint = (identifier: string, payload: object, params: object = {}) =>
  Buffer.from(
    command(ProjectId.make("p"), { endpoint: { identifier }, headers: { "idempotency-key": "k" }, params, payload })
      .fingerprint
  ).toString("hex")

const body = fc.dictionary(fc.string(), fc.jsonValue())

describe("canonical JSON", () => {
  it("is equal for any order of members", () => {
    fc.assert(
      fc.property(fc.jsonValue({ noUnicodeString: false }), (value) => {
        // -0 is written 0 (RFC 8785, 3.2.2.3, as ECMAScript does).
        assert.deepStrictEqual(JSON.parse(canonicalJson(value)), JSON.parse(JSON.stringify(value)))
        assert.strictEqual(canonicalJson(shuffled(value)), canonicalJson(value))
      })
    )
  })

  it("sorts by UTF-16 code units and writes numbers as ECMAScript does (RFC 8785, 3.2)", () => {
    assert.strictEqual(
      canonicalJson({ "\u20ac": "Euro Sign", "\r": "Carriage Return", "\u{1f600}": 1, "\ufb33": 2, 1: "One" }),
      '{"\\r":"Carriage Return","1":"One","\u20ac":"Euro Sign","\u{1f600}":1,"\ufb33":2}'
    )
    assert.strictEqual(
      canonicalJson([333333333.3333333, 1e30, 4.5, 2e-3, 1e-27]),
      "[333333333.3333333,1e+30,4.5,0.002,1e-27]"
    )
  })
})

describe("fingerprints of requests", () => {
  it("differ with body, operation or path, not with the order of members", () => {
    fc.assert(
      fc.property(body, body, (left, right) => {
        assert.strictEqual(fingerprint("o", Object(shuffled(left))), fingerprint("o", left))
        fc.pre(canonicalJson(left) !== canonicalJson(right))
        assert.notStrictEqual(fingerprint("o", left), fingerprint("o", right))
        assert.notStrictEqual(fingerprint("o", left), fingerprint("p", left))
        assert.notStrictEqual(fingerprint("o", {}, left), fingerprint("o", {}, right))
        // A member of the path differs from the same member of the body.
        assert.notStrictEqual(fingerprint("o", left, right), fingerprint("o", right, left))
      })
    )
  })
})
