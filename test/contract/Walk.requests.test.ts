/** Every operation: what is refused of a path, a query and a body, and where the fault is told (contract §1, §2). */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { assertFault, codeOf, faultsOf, problemOf, remainingOf } from "../support/ContractAnswers.ts"
import type { Answer } from "../support/ContractHttp.ts"
import { TestServer } from "../support/TestServer.ts"
import { type Change, queryOf, requestOf, stringsOf } from "./Requests.ts"
import { type Sample, samples, World } from "./Samples.ts"

const limit = 256 * 1024

/** A good body, made long with white space. */
const padded = (sample: Sample, bytes: number) => {
  const text = JSON.stringify(sample.body)
  return text + " ".repeat(bytes - Buffer.byteLength(text))
}

/** What a database, a calendar or a number could take for something else. */
const hostileTexts = [
  " ",
  "null",
  "'; --",
  "\\",
  "%_",
  "{}",
  "\u007f",
  "\ufffe",
  "😀",
  "x".repeat(2_000),
  "infinity",
  "-infinity",
  "epoch",
  "now",
  "0001-01-01",
  "0000-01-01",
  "-0001-01-01",
  "9999-12-31",
  "10000-01-01",
  "0001-01-01 BC",
  "NaN",
  "1e3",
  "+1",
  "01",
  "0",
  "-1",
  "2147483648",
  "9007199254740991",
  "9007199254740992",
  "9223372036854775808",
  "9".repeat(400)
]
/** As it is written: JSON.stringify would write some of the numbers otherwise. */
const hostileJson = [
  ...["", ...hostileTexts].map((text) => JSON.stringify(text)),
  "null",
  "true",
  "0",
  "-0",
  "-1",
  "1.5",
  "1.0",
  "1e0",
  "32768",
  "2147483648",
  "9007199254740991",
  "9007199254740993",
  "9223372036854775808",
  "1e308",
  "1e999",
  "1e-999"
]

const bytes = (...parts: ReadonlyArray<string | ReadonlyArray<number>>) =>
  Buffer.concat(parts.map((part) => (typeof part === "string" ? Buffer.from(part) : Buffer.from([...part]))))

layer(World.layer, { excludeTestServices: true })("every operation", (it) => {
  const walk = (
    what: string,
    test: (
      sample: Sample,
      ask: (change: Change) => Effect.Effect<Answer>
    ) => Effect.Effect<void, never, World | TestServer>,
    among: (sample: Sample) => boolean = () => true
  ) => {
    for (const [name, sample] of Object.entries(samples).filter(([, sample]) => among(sample))) {
      it.effect(`${name}: ${what}`, () =>
        Effect.gen(function* () {
          const { ask, own } = yield* World
          // Whatever is wrong with a request stands behind the limiter.
          yield* test(sample, (change) =>
            Effect.tap(ask(sample, own, change), (answer) => Effect.sync(() => remainingOf(answer, sample.policy)))
          )
        })
      )
    }
  }
  const hasBody = ({ body }: Sample) => body !== undefined
  const hasParams = ({ params }: Sample) => params !== undefined

  // Paths

  walk(
    "refuses malformed percent-encoding, U+0000 and surrogates in each path parameter",
    (sample, ask) =>
      Effect.gen(function* () {
        const faults = ["%", "%2", "%zz", "a%zzb", "%C3", "%FF", "%C0%80", "%ED%A0%80", "%00", "a%00b", "%F4%90%80%80"]
        for (const name of Object.keys(sample.params ?? {})) {
          for (const value of faults) {
            assert.deepStrictEqual(faultsOf(yield* ask({ params: { [name]: value } })), [`path/${name}`], value)
          }
        }
      }),
    hasParams
  )

  walk(
    "refuses an id of more than 160 characters, and takes the longest",
    (sample, ask) =>
      Effect.gen(function* () {
        for (const name of Object.keys(sample.params ?? {})) {
          for (const character of ["a", "ä", "😀"]) {
            const id = (length: number) => ({ params: { [name]: encodeURIComponent(character.repeat(length)) } })
            assert.deepStrictEqual(faultsOf(yield* ask(id(161))), [`path/${name}`])
            assert.strictEqual((yield* ask(id(160))).status, 404)
          }
        }
      }),
    hasParams
  )

  walk(
    "takes an encoded slash for a part of an id",
    (sample, ask) =>
      Effect.gen(function* () {
        for (const { at, code } of sample.references ?? []) {
          const [slot, name] = at
          if (slot === "path") problemOf(yield* ask({ params: { [name]: "a%2Fb%2f" } }), 404, code)
        }
      }),
    hasParams
  )

  // Queries

  walk("refuses unknown query parameters", (sample, ask) =>
    Effect.gen(function* () {
      const good = new URLSearchParams(queryOf(sample).map(([...pair]) => pair)).toString()
      const and = good === "" ? "" : `${good}&`
      for (const name of ["surprise", "Limit", "__proto__", "constructor", "toString", "limit[]"]) {
        const query = `${and}${encodeURIComponent(name)}=1`
        assert.deepStrictEqual(faultsOf(yield* ask({ query })), [`query/${name}`], query)
      }
      assert.deepStrictEqual(faultsOf(yield* ask({ query: `${and}surprise` })), ["query/surprise"])
      assertFault(yield* ask({ query: `${and}surprise=1&surprise=2` }), "query/surprise")
      assert.deepStrictEqual(faultsOf(yield* ask({ query: `${and}one=1&two=2` })), ["query/one", "query/two"])
    })
  )

  walk(
    "refuses repeated query parameters, and bad characters in each",
    (sample, ask) =>
      Effect.gen(function* () {
        for (const [name, value] of queryOf(sample)) {
          for (const query of [
            `${name}=${value}&${name}=${value}`,
            `${name}=${value}&%${name.charCodeAt(0).toString(16)}${name.slice(1)}=${value}`
          ]) {
            assert.deepStrictEqual(faultsOf(yield* ask({ query })), [`query/${name}`], query)
          }
        }
        for (const name of Object.keys(sample.query ?? {})) {
          for (const value of ["%00", "a%00", "%ED%A0%80", "%ED%B0%80", "%", "%zz", "%C3", "%FF"]) {
            assert.deepStrictEqual(faultsOf(yield* ask({ query: `${name}=${value}` })), [`query/${name}`], value)
          }
        }
        const all = Object.keys(sample.query ?? {})
        const query = all.map((name) => `${name}=%00`).join("&")
        assert.deepStrictEqual(faultsOf(yield* ask({ query })), all.map((name) => `query/${name}`).toSorted())
      }),
    ({ query }) => query !== undefined
  )

  walk("refuses bad characters in the names of query parameters", (_, ask) =>
    Effect.gen(function* () {
      for (const name of ["%00", "%ED%A0%80", "%", "%zz"]) {
        for (const query of [name, `${name}=1`]) {
          assert.isTrue(
            faultsOf(yield* ask({ query })).every((location) => location.startsWith("query")),
            query
          )
        }
      }
    })
  )

  // Bodies

  walk(
    "refuses any body",
    (_, ask) =>
      Effect.gen(function* () {
        for (const chunked of [false, true]) {
          for (const body of ["{}", "x"]) {
            const headers = { "content-type": "application/json" }
            assert.deepStrictEqual(faultsOf(yield* ask({ body, chunked, headers })), ["body"])
            assert.deepStrictEqual(faultsOf(yield* ask({ body, chunked })), ["body"])
          }
        }
        assert.oneOf((yield* ask({ body: "" })).status, [200, 201])
      }),
    ({ body }) => body === undefined
  )

  walk(
    "takes a body of 256 KiB and none longer, its length declared or not",
    (sample, ask) =>
      Effect.gen(function* () {
        for (const chunked of [false, true]) {
          assert.strictEqual((yield* ask({ body: padded(sample, limit), chunked })).status, sample.status)
          problemOf(yield* ask({ body: padded(sample, limit + 1), chunked }), 413, "body_too_large")
          problemOf(yield* ask({ body: padded(sample, 10 * limit), chunked }), 413, "body_too_large")
        }
      }),
    hasBody
  )

  walk(
    "takes application/json and nothing else",
    (sample, ask) =>
      Effect.gen(function* () {
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
        const { send } = yield* TestServer
        const { own } = yield* World
        const { headers: _, ...untyped } = requestOf(sample, own.token, { body })
        for (const request of [untyped, { ...untyped, chunked: true }, { ...untyped, body: "" }]) {
          problemOf(yield* send(request), 415, "unsupported_media_type")
        }
      }),
    hasBody
  )

  walk(
    "refuses what is no JSON text in UTF-8",
    (sample, ask) =>
      Effect.gen(function* () {
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
          for (const chunked of [false, true]) {
            problemOf(yield* ask({ body, chunked }), 400, "malformed_json")
          }
        }
      }),
    hasBody
  )

  walk(
    "wants an object",
    (_, ask) =>
      Effect.gen(function* () {
        for (const json of [[], [{}], "text", 1, true, null]) {
          const { errors } = problemOf(yield* ask({ json }), 400, "validation_failed")
          assert.deepStrictEqual(errors, { body: ["must be an object"] }, JSON.stringify(json))
        }
      }),
    hasBody
  )

  walk(
    "refuses unknown members, and misses those that are required",
    (sample, ask) =>
      Effect.gen(function* () {
        for (const name of ["surprise", "__proto__", "constructor", "toString", "", "displayname", "version"]) {
          const body = JSON.stringify(sample.body).replace("{", `{${JSON.stringify(name)}:{"a":1},`)
          assert.deepStrictEqual(faultsOf(yield* ask({ body })), [`body/${name}`], body)
        }
        for (const name of sample.required ?? []) {
          const { [name]: _, ...json } = sample.body ?? {}
          assert.include(faultsOf(yield* ask({ json })), `body/${name}`)
        }
      }),
    hasBody
  )

  walk(
    "refuses U+0000 and unpaired surrogates in every string of the body",
    (sample, ask) =>
      Effect.gen(function* () {
        for (const [location, replaced] of stringsOf(sample.body, "body")) {
          for (const text of ["\u0000", "a\u0000b", "\ud800", "\udc00", "a\ud83d", "\ude00\ud83d"]) {
            const json = replaced(text)
            assert.deepStrictEqual(faultsOf(yield* ask({ json })), [location], JSON.stringify(text))
          }
          // The byte itself, not its escape.
          const raw = JSON.stringify(replaced("\u0001")).replace("\\u0001", "\u0000")
          problemOf(yield* ask({ body: raw }), 400, "malformed_json")
        }
        for (const name of ["a\u0000", "\ud800"]) {
          const locations = faultsOf(yield* ask({ json: { ...sample.body, [name]: 1 } }))
          assert.isTrue(locations.length > 0 && locations.every((location) => location.startsWith("body")))
        }
      }),
    hasBody
  )

  walk(
    "refuses numbers, arrays and objects where a string belongs",
    (sample, ask) =>
      Effect.gen(function* () {
        for (const [name, value] of Object.entries(sample.body ?? {})) {
          if (typeof value !== "string") continue
          for (const wrong of [1, true, [], {}, [value], { toString: value }]) {
            const answer = yield* ask({ json: { ...sample.body, [name]: wrong } })
            assert.isTrue(
              faultsOf(answer).every((location) => location === `body/${name}` || location.startsWith(`body/${name}/`)),
              `${name} ${JSON.stringify(wrong)} ${answer.text}`
            )
          }
        }
      }),
    hasBody
  )

  walk(
    "refuses deep bodies, escapes in them or not",
    (sample, ask) =>
      Effect.gen(function* () {
        const good = JSON.stringify(sample.body)
        for (const depth of [1_000, 3_000, 20_000, 100_000]) {
          const arrays = `${"[".repeat(depth)}${"]".repeat(depth)}`
          const objects = `${'{"a":'.repeat(Math.min(depth, 30_000))}1${"}".repeat(Math.min(depth, 30_000))}`
          for (const deep of [arrays, objects]) {
            for (const value of [deep, `[${deep},"\\u0041"]`]) {
              const answer = yield* ask({ body: good.replace("{", `{"surprise":${value},`) })
              assert.deepStrictEqual(faultsOf(answer), ["body/surprise"], `${depth}`)
            }
          }
        }
        for (const name of Object.keys(sample.body ?? {})) {
          const members = JSON.stringify({ ...sample.body, [name]: "deep" })
          const body = members.replace(`"${name}":"deep"`, `"${name}":${"[".repeat(90_000)}${"]".repeat(90_000)}`)
          const locations = faultsOf(yield* ask({ body }))
          assert.isTrue(locations.length > 0 && locations.every((location) => location.startsWith(`body/${name}`)))
        }
      }),
    hasBody
  )

  walk(
    "tells the faults of bodies that have thousands",
    (sample, ask) =>
      Effect.gen(function* () {
        const names = Array.from({ length: 15_000 }, (_, index) => `"m${index}":0`).join(",")
        const body = JSON.stringify(sample.body).replace("{", `{${names},`)
        assertFault(yield* ask({ body }), "body/m0")
        for (const [name, member] of Object.entries(sample.body ?? {})) {
          if (!Array.isArray(member)) continue
          for (const items of [Array(50_000).fill(1), Array(60_000).fill("")]) {
            assertFault(yield* ask({ json: { ...sample.body, [name]: items } }), `body/${name}/0`)
          }
        }
      }),
    hasBody
  )

  // Anywhere

  walk("answers no value of any parameter or member with a failure of the server", (sample, ask) =>
    Effect.gen(function* () {
      const assertSound = (answer: Answer, what: string) => {
        assert.isBelow(answer.status, 500, what)
        if (answer.status !== sample.status) problemOf(answer, answer.status, String(codeOf(answer)))
      }
      for (const text of ["", ...hostileTexts]) {
        // Without an id a path is another one.
        for (const name of text === "" ? [] : Object.keys(sample.params ?? {})) {
          assertSound(yield* ask({ params: { [name]: encodeURIComponent(text) } }), `${name}: ${text}`)
        }
        for (const name of Object.keys(sample.query ?? {})) {
          const query = new URLSearchParams({ ...Object.fromEntries(queryOf(sample)), [name]: text }).toString()
          assertSound(yield* ask({ query }), query)
        }
      }
      for (const name of Object.keys(sample.body ?? {})) {
        for (const value of hostileJson) {
          const members = JSON.stringify({ ...sample.body, [name]: "here" })
          const body = members.replace(`"${name}":"here"`, () => `"${name}":${value}`)
          assertSound(yield* ask({ body }), body.slice(0, 300))
        }
      }
    })
  )

  walk("repeats in no problem what looks like a token", (sample, ask) =>
    Effect.gen(function* () {
      const { own } = yield* World
      for (const secret of [own.token, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]) {
        const changes: ReadonlyArray<Change> = [
          { query: `${secret}=1` },
          { query: "surprise=1", headers: { "x-request-id": secret } },
          ...Object.keys(sample.params ?? {}).map((name) => ({ params: { [name]: secret } })),
          ...Object.keys(sample.query ?? {}).map((name) => ({ query: `${name}=${secret}` })),
          ...[...stringsOf(sample.body, "body")].map(([, replaced]) => ({ json: replaced(secret) })),
          ...(sample.body === undefined ? [{ body: secret }] : [{ json: { ...sample.body, [secret]: secret } }]),
          ...(sample.key === undefined ? [] : [{ key: `${secret} ` }, { key: `${secret}é` }])
        ]
        for (const change of changes) {
          const { status, text } = yield* ask(change)
          if (status >= 400) assert.notInclude(text, secret.slice(-20), JSON.stringify(change))
        }
      }
    })
  )

  // Everywhere at once

  walk("tells every fault of path, query, header and body in one answer", (sample, ask) =>
    Effect.gen(function* () {
      const params = Object.keys(sample.params ?? {})
      const query = Object.keys(sample.query ?? {})
      const required = sample.required ?? []
      const answer = yield* ask({
        params: Object.fromEntries(params.map((name) => [name, "x".repeat(161)])),
        query: [...query.map((name) => `${name}=`), "surprise=1"].join("&"),
        ...(sample.key === undefined ? {} : { key: undefined }),
        ...(sample.body === undefined ? { body: "{}" } : { json: { surprise: 1 } })
      })
      assert.deepStrictEqual(
        faultsOf(answer),
        [
          ...params.map((name) => `path/${name}`),
          ...query.map((name) => `query/${name}`),
          "query/surprise",
          ...(sample.key === undefined ? [] : ["header/idempotency-key"]),
          ...(sample.body === undefined ? ["body"] : ["body/surprise", ...required.map((name) => `body/${name}`)])
        ].toSorted()
      )
    })
  )
})
