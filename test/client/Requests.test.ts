/** The content of the requests that the client sends. */
import { assert, describe, it } from "../support/Vitest.ts"
import { Effect, Redacted } from "effect"
import { createClient } from "../../src/client/PromiseClient.ts"
import { answering, calling, problem, receipt, scripted, token } from "./Scripted.support.ts"

const page = answering(200, { items: [], nextCursor: null })

describe("a request of the client", () => {
  it.live("is sent as it is given, because the service names its faults", function* () {
    const refusal = problem(400, "validation_failed", {}, { errors: { "body/displayName": ["is too short"] } })
    const { clients, requests } = yield* calling([refusal])
    const payload: object = { displayName: "", surplus: [undefined, 1] }
    const headers: object = { "Idempotency-Key": "short" }
    for (const clientId of ["", "..", "\ud800"]) {
      const refused = yield* Effect.flip(clients.patchClient({ params: { clientId }, headers, payload }))
      assert.deepStrictEqual(refused._tag === "validation_failed" && refused.errors, {
        "body/displayName": ["is too short"]
      })
    }
    assert.deepStrictEqual(
      requests.map(({ body, headers, line }) => [line.split(" ")[1], headers["idempotency-key"], body]),
      ["clients/", "", "clients/%EF%BF%BD"].map((path) => [
        `/api/v1/developer/crm/${path}`,
        "short",
        '{"displayName":"","surplus":[null,1]}'
      ])
    )
  })

  it.live("carries the token, also a redacted one, and its body as JSON", function* () {
    const { notes, requests } = yield* calling([receipt], { token: Redacted.make(token) })
    yield* notes.createNote({ params: { dealId: "a/b" }, payload: { body: "☕" } })
    const [request] = requests
    assert.strictEqual(request?.line, "POST /api/v1/developer/crm/deals/a%2Fb/notes HTTP/1.1")
    assert.strictEqual(request?.headers["authorization"], `Bearer ${token}`)
    assert.strictEqual(request?.headers["content-type"], "application/json")
    assert.deepStrictEqual(JSON.parse(request?.body ?? ""), { body: "☕" })
  })

  it.live("leaves out undefined members", function* () {
    const { clients, requests } = yield* calling([receipt])
    // Callers without exactOptionalPropertyTypes can write this.
    const absent: object = { email: undefined, tags: undefined }
    const headers: object = { "idempotency-key": undefined }
    yield* clients.createClient({ payload: { displayName: "Robin", ...absent }, headers })
    assert.strictEqual(requests[0]?.body, '{"displayName":"Robin"}')
    assert.isDefined(requests[0]?.headers["idempotency-key"])
  })

  it.live("gives each mutation a key of its own that both forms of keys permit", function* () {
    const { clients, notes, requests } = yield* calling([receipt])
    yield* clients.createClient({ payload: { displayName: "Robin" } })
    yield* notes.createNote({ params: { dealId: "deal_espresso" }, payload: { body: "Called." } })
    const keys = requests.map(({ headers }) => headers["idempotency-key"] ?? "")
    assert.strictEqual(new Set(keys).size, 2)
    for (const key of keys) {
      assert.match(key, /^[A-Za-z0-9][A-Za-z0-9._:-]{7,159}$/)
      assert.match(key, /^[\x21-\x7E]{1,160}$/)
    }
  })

  it.live("for a list carries the given filters in its query", function* () {
    const { deals, requests } = yield* calling([page])
    yield* deals.listDeals()
    yield* deals.listDeals({ query: { limit: 7, status: "won", cursor: "abc" } })
    const queries = requests.map(({ line }) =>
      Object.fromEntries(new URL(line.split(" ")[1] ?? "", "http://a").searchParams)
    )
    assert.deepStrictEqual(queries, [{}, { limit: "7", status: "won", cursor: "abc" }])
  })
})

describe("the constructor of the client", () => {
  const wrong: ReadonlyArray<readonly [member: "baseUrl" | "token", value: string | URL]> = [
    ["baseUrl", ""],
    ["baseUrl", "127.0.0.1:3000"],
    ["baseUrl", "localhost:3000"],
    ["baseUrl", "/api"],
    ["baseUrl", "https://api.example.com?x=1"],
    ["baseUrl", "https://api.example.com/#top"],
    ["baseUrl", "https://me:secret@api.example.com"],
    ["baseUrl", "https://:secret@api.example.com"],
    ["baseUrl", new URL("file:///api")],
    ["token", ""],
    ["token", "dk_1\n"],
    ["token", "Bearer dk_1"]
  ]
  for (const [member, value] of wrong) {
    it(`rejects ${JSON.stringify(value)} for ${member}`, () => {
      const options = { baseUrl: "https://api.example.com", token, [member]: value }
      assert.throws(() => createClient(options), TypeError, `${member} has to be`)
    })
  }

  it("rejects missing options and lists all of them", () => {
    const missing: { baseUrl: string; token: string } = JSON.parse("{}")
    assert.throws(() => createClient(missing), /^baseUrl has to be .*; token has to be /)
  })
})

describe("an answer to the client", () => {
  it.live("with a redirect is not followed", function* () {
    const other = yield* scripted(receipt)
    const { clients, connections } = yield* calling([answering(307, "", { location: `${other.baseUrl}/` })])
    const failure = yield* Effect.flip(clients.createClient({ payload: { displayName: "R" } }))
    assert.strictEqual(failure._tag, "HttpClientError")
    assert.deepStrictEqual([connections(), other.connections()], [1, 0])
  })

  it.live("with unknown members is decoded without them", function* () {
    const more = answering(201, { resourceId: "cli_1", changed: true, more: 1 }, { etag: '"1"' })
    const { body } = yield* (yield* calling([more])).clients.createClient({ payload: { displayName: "R" } })
    assert.deepStrictEqual({ ...body }, { resourceId: "cli_1", changed: true })
  })

  const full = { type: "urn:other", title: "The moon is full.", status: 409, code: "moon_full" }
  for (const [what, answer, expected] of [
    [
      "that does not match the schema is a SchemaError",
      answering(201, { resourceId: 1 }, { etag: '"1"' }),
      { _tag: "SchemaError" }
    ],
    [
      "with an unknown problem code is a generic problem",
      answering(409, { ...full, type: "urn:developer-api:problem:moon_full" }),
      {
        _tag: "UnexpectedProblem",
        code: "moon_full",
        status: 409,
        title: "The moon is full.",
        message: "moon_full: The moon is full."
      }
    ],
    [
      "with an error status and no problem body is an HTTP error",
      answering(404, { title: "?" }),
      { _tag: "HttpClientError", "response.status": 404 }
    ],
    [
      "with an error status and other JSON is an HTTP error",
      answering(409, full, { "content-type": "application/json" }),
      { _tag: "HttpClientError", "response.status": 409 }
    ]
  ] as const) {
    it.live(what, function* () {
      const { clients, connections } = yield* calling([answer])
      const failure = yield* Effect.flip(clients.createClient({ payload: { displayName: "R" } }))
      for (const [path, value] of Object.entries(expected)) assert.nestedPropertyVal(failure, path, value)
      assert.strictEqual(connections(), 1)
    })
  }
})
