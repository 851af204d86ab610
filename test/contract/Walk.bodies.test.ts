/** Every operation: the faults of a body, and their locations (contract §1, §2). */
import { assert, it as pure, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { usualBody } from "../../src/api/Requests.ts"
import { maxFaults } from "../../src/api/schema/Faults.ts"
import { checkBody } from "../../src/http/path/JsonBody.ts"
import { assertFault, faultsOf, problemOf } from "../support/ContractAnswers.ts"
import { TestServer } from "../support/TestServer.ts"
import { requestOf, stringsOf } from "./Requests.ts"
import type { Sample } from "./Sample.ts"
import { World } from "./Samples.ts"
import { each, hasBody, walking } from "./Walk.support.ts"

const limitsOf = ({ receipt }: Sample) =>
  receipt === "batch"
    ? { bytes: 1024 * 1024, entries: 12_000, members: 2_000 }
    : { bytes: 256 * 1024, entries: 6_000, members: 6_000 }

/** Returns a good body, padded with white space. */
const padded = (sample: Sample, bytes: number) => {
  const text = JSON.stringify(sample.body)
  return text + " ".repeat(bytes - Buffer.byteLength(text))
}

const bytes = (...parts: ReadonlyArray<string | ReadonlyArray<number>>) =>
  Buffer.concat(parts.map((part) => (typeof part === "string" ? Buffer.from(part) : Buffer.from([...part]))))

/** A member that is a number and not 0. */
const number = /":([1-9]\d*)([,}])/

layer(World.layer, { excludeTestServices: true })("every operation", (it) => {
  const walkBodies = walking(it, hasBody)
  const walkBodiless = walking(it, ({ body }) => body === undefined)
  const walkNumbers = walking(it, ({ body }) => number.test(JSON.stringify(body)))
  const walkPatches = walking(it, ({ method, required = [] }) => method === "PATCH" && required.length === 0)

  walkBodiless("refuses any body", function* (_, ask) {
    for (const chunked of [false, true]) {
      for (const body of ["{}", "x"]) {
        const headers = { "content-type": "application/json" }
        assert.deepStrictEqual(faultsOf(yield* ask({ body, chunked, headers })), ["body"])
        assert.deepStrictEqual(faultsOf(yield* ask({ body, chunked })), ["body"])
      }
    }
    for (const chunked of [false, true]) assert.oneOf((yield* ask({ body: "", chunked })).status, [200, 201])
  })

  walkBodies(
    "accepts a body of up to 256 KiB, or 1 MiB of a batch, its length declared or not",
    function* (sample, ask) {
      const { bytes: limit } = limitsOf(sample)
      for (const chunked of [false, true]) {
        assert.strictEqual((yield* ask({ body: padded(sample, limit), chunked })).status, sample.status)
        problemOf(yield* ask({ body: padded(sample, limit + 1), chunked }), 413, "body_too_large")
        problemOf(yield* ask({ body: padded(sample, 10 * limit), chunked }), 413, "body_too_large")
      }
    }
  )

  walkBodies("accepts application/json and no other media type or coding", function* (sample, ask) {
    const body = JSON.stringify(sample.body)
    for (const type of [
      "application/json",
      "Application/JSON",
      "application/json;charset=utf-8",
      'application/json ; charset="UTF-8"; x=y'
    ]) {
      assert.strictEqual((yield* ask({ body, headers: { "content-type": type } })).status, sample.status, type)
    }
    for (const type of [
      "text/plain",
      "text/json",
      "application/jsonx",
      "application/json-patch+json",
      "application/problem+json",
      "application/x-www-form-urlencoded",
      "multipart/form-data; boundary=x",
      "application/octet-stream",
      "application/xml, application/json",
      "*/*",
      "json"
    ]) {
      problemOf(yield* ask({ body, headers: { "content-type": type } }), 415, "unsupported_media_type")
    }
    const coded = (coding: string) =>
      ask({ body, headers: { "content-type": "application/json", "content-encoding": coding } })
    problemOf(yield* coded("gzip"), 415, "unsupported_media_type")
    assert.strictEqual((yield* coded("identity")).status, sample.status)
    const { send } = yield* TestServer
    const { own } = yield* World
    const { headers: _, ...untyped } = requestOf(sample, own.token, { body })
    for (const request of [untyped, { ...untyped, chunked: true }, { ...untyped, body: "" }]) {
      problemOf(yield* send(request), 415, "unsupported_media_type")
    }
  })

  walkBodies("refuses bodies that are not JSON in UTF-8", function* (sample, ask) {
    const good = JSON.stringify(sample.body)
    for (const body of [
      "",
      " ",
      "{",
      good.slice(0, -1),
      `${good}x`,
      `${good}${good}`,
      `${good.slice(0, -1)},}`,
      good.replaceAll('"', "'"),
      "nul",
      "NaN",
      "undefined",
      "// comment\n{}",
      '"\t"',
      '"\\x"',
      '"\\u12"',
      "01",
      bytes([0xef, 0xbb, 0xbf], good),
      Buffer.from(`\ufeff${good}`, "utf16le"),
      bytes(['"'.charCodeAt(0), 0xff], '"'),
      bytes('"', [0xc0, 0x80], '"'),
      bytes('"', [0xed, 0xa0, 0x80], '"'),
      bytes('"', [0xf5, 0x80, 0x80, 0x80], '"'),
      bytes('"', [0xe2, 0x82]),
      bytes("{", [0x00], "}")
    ]) {
      yield* each([false, true], (chunked) =>
        Effect.map(ask({ body, chunked }), (answer) => problemOf(answer, 400, "malformed_json"))
      )
    }
  })

  walkBodies("refuses a body that is not an object", function* (_, ask) {
    for (const json of [[], [{}], "text", 1, true, null]) {
      const { errors } = problemOf(yield* ask({ json }), 400, "validation_failed")
      assert.deepStrictEqual(errors, { body: ["must be an object"] }, JSON.stringify(json))
    }
  })

  walkPatches("requires a member to change", function* (_, ask) {
    const { errors } = problemOf(yield* ask({ json: {} }), 400, "validation_failed")
    assert.deepStrictEqual(errors, { body: ["must be at least one member to change"] })
  })

  walkBodies("refuses unknown members", function* (sample, ask) {
    for (const name of ["surprise", "__proto__", "constructor", "toString", "", "displayname", "version"]) {
      const body = JSON.stringify(sample.body).replace("{", `{${JSON.stringify(name)}:{"a":1},`)
      assert.deepStrictEqual(faultsOf(yield* ask({ body })), [`body/${name}`], body)
    }
  })

  walkBodies("cuts the name of a member in its location", function* (sample, ask) {
    const body = JSON.stringify(sample.body).replace("{", `{"${"x".repeat(65)}":0,`)
    assert.deepStrictEqual(faultsOf(yield* ask({ body })), [`body/${"x".repeat(64)}`])
  })

  walkBodies("takes the last of repeated members", function* (sample, ask) {
    const good = JSON.stringify(sample.body)
    const first = Object.keys(sample.body ?? {}).map((name) => `${JSON.stringify(name)}:[],`)
    assert.strictEqual((yield* ask({ body: good.replace("{", () => `{${first.join("")}`) })).status, sample.status)
  })

  walkNumbers("reads a number as a double, however it is written", function* (sample, ask) {
    for (const form of ["$1.0", "$1e0", "$1.00000000000000000001"]) {
      const body = JSON.stringify(sample.body).replace(number, `":${form}$2`)
      assert.strictEqual((yield* ask({ body })).status, sample.status, body)
    }
  })

  walkBodies("refuses U+0000 and unpaired surrogates in every string of the body", function* (sample, ask) {
    for (const [location, replaced] of stringsOf(sample.body, "body")) {
      for (const text of ["\u0000", "a\u0000b", "\ud800", "\udc00", "a\ud83d", "\ude00\ud83d"]) {
        const json = replaced(text)
        assert.deepStrictEqual(faultsOf(yield* ask({ json })), [location], JSON.stringify(text))
      }
      // The raw byte instead of its escape.
      const raw = JSON.stringify(replaced("\u0001")).replace("\\u0001", "\u0000")
      problemOf(yield* ask({ body: raw }), 400, "malformed_json")
    }
    for (const name of ["a\u0000", "\ud800"]) {
      const locations = faultsOf(yield* ask({ json: { ...sample.body, [name]: 1 } }))
      assert.isTrue(locations.length > 0 && locations.every((location) => location.startsWith("body")))
    }
  })

  walkBodies("refuses a body nested deeper than 32 levels at body, whatever else it holds", function* (sample, ask) {
    const good = JSON.stringify(sample.body)
    const nested = (depth: number) => [
      `${"[".repeat(depth)}${"]".repeat(depth)}`,
      `${'{"a":'.repeat(Math.min(depth, 1_500))}1${"}".repeat(Math.min(depth, 1_500))}`,
      `["]\\"]",${"[".repeat(depth - 1)}"\\u0000"${"]".repeat(depth - 1)}]`
    ]
    // The members of a body are at its first level.
    for (const value of nested(31).slice(0, 2)) {
      const answer = yield* ask({ body: good.replace("{", `{"surprise":${value},`) })
      assert.deepStrictEqual(faultsOf(answer), ["body/surprise"])
    }
    for (const value of [...nested(32), ...nested(33), ...nested(3_000), ...nested(100_000)]) {
      const answer = yield* ask({ body: good.replace("{", `{"surprise":${value},`) })
      const { errors } = problemOf(answer, 400, "validation_failed")
      assert.deepStrictEqual(errors, { body: ["must not be nested deeper than 32 levels"] })
    }
  })

  walkBodies(
    "refuses more than 1,000 entries at their place, and more than 6,000 in all, or 12,000 of a batch, at body",
    function* (sample, ask) {
      const { bytes, entries, members } = limitsOf(sample)
      const good = JSON.stringify(sample.body)
      const named = (length: number) => Array.from({ length }, (_, index) => `"m${index}":0`).join(",")
      const errorsOf = (value: string) =>
        Effect.map(
          ask({ body: good.replace("{", `{"surprise":${value},`) }),
          (answer) => problemOf(answer, 400, "validation_failed").errors
        )
      const list = (length: number, item: string) => `[${Array(length).fill(item).join(",")}]`
      for (const value of [list(1_000, "0"), `{${named(1_000)}}`, list(5, list(999, "0"))]) {
        assert.deepStrictEqual(Object.keys((yield* errorsOf(value)) ?? {}), ["body/surprise"])
      }
      for (const value of [list(1_001, "0"), list(100_000, "0"), `{${named(1_001)}}`]) {
        assert.deepStrictEqual(yield* errorsOf(value), { "body/surprise": ["must have at most 1000 entries"] })
      }
      const whole = [list(entries / 1_000 + 1, list(1_000, "0"))]
      // A list of that many is not parsed.
      if (bytes > 256 * 1024) whole.push(list(150_000, "0"))
      for (const value of whole) {
        assert.deepStrictEqual(yield* errorsOf(value), { body: [`must have at most ${entries} entries in all`] })
      }
      for (const value of [`{${named(15_000)}}`, list(15_000, '{ "a" : 0 }')]) {
        assert.deepStrictEqual(yield* errorsOf(value), { body: [`must have at most ${members} members in all`] })
      }
      // No text of an entry counts as an entry.
      for (const text of ['":'.repeat(5_000), ":".repeat(40_000), '\\":,['.repeat(20_000)]) {
        assert.deepStrictEqual(Object.keys((yield* errorsOf(JSON.stringify(text))) ?? {}), ["body/surprise"])
      }
    }
  )

  walkBodies("reports at most 100 faults, and how many are left out", function* (sample, ask) {
    const names = Array.from({ length: 900 }, (_, index) => `"m${index}":0`).join(",")
    const answer = yield* ask({ body: JSON.stringify(sample.body).replace("{", `{${names},`) })
    const { detail, errors } = problemOf(answer, 400, "validation_failed")
    assert.strictEqual(Object.keys(errors ?? {}).length, 100)
    assertFault(answer, "body/m0")
    assert.match(String(detail), /At least 1 more fault is left out\.$/)
  })
})

pure("the check of a body gathers one fault more than an answer reports, however many there are", () => {
  assert.lengthOf(checkBody(Array(1_000).fill("\u0000"), usualBody).faults, maxFaults + 1)
})
