/** What one connection gets: bytes that are no request, unusual methods and targets, bodies that are refused (contract §1). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { codeOf, problemOf } from "../support/ContractAnswers.ts"
import { answersOf } from "../support/ContractHttp.ts"
import { TestServer } from "../support/TestServer.ts"

const clients = "/api/v1/developer/crm/clients"
const garbage = "nonsense\r\n\r\n"

layer(TestServer.layer(), { excludeTestServices: true })("a connection", (it) => {
  const ask = Effect.fnUntraced(function* (bytes: string, more?: string) {
    const { sendBytes } = yield* TestServer
    return answersOf(yield* sendBytes(bytes, more))
  })
  const create = (token: string, id: string) => {
    const body = JSON.stringify({ displayName: id })
    return [
      `POST ${clients} HTTP/1.1`,
      "host: a",
      `authorization: Bearer ${token}`,
      `x-request-id: ${id}`,
      `idempotency-key: key-${id}`,
      "content-type: application/json",
      `content-length: ${body.length}`,
      "",
      body
    ].join("\r\n")
  }

  const malformed = "400 validation_failed"
  for (const [what, bytes, refused] of [
    ["are no request", garbage, malformed],
    ["begin a TLS handshake", "\x16\x03\x01\x02", malformed],
    ["have a malformed length", "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: x\r\n\r\n", malformed],
    [
      "have two lengths of a body",
      "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
      malformed
    ],
    [
      "have a header section that is too large",
      `GET / HTTP/1.1\r\nx: ${"x".repeat(20_000)}\r\n\r\n`,
      "431 headers_too_large"
    ]
  ] as const) {
    it.effect(`whose bytes ${what} gets a problem after earlier answers, ends, and is not read further`, function* () {
      const { seed, send } = yield* TestServer
      const { token } = yield* seed()
      const [first, ...others] = yield* ask("GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n", bytes + create(token, "after"))
      assert.strictEqual(first?.status, 200)
      assert.lengthOf(others, 1)
      const [last = assert.fail("no answer")] = others
      assert.strictEqual(`${last.status} ${codeOf(last)}`, refused)
      problemOf(last, last.status, String(codeOf(last)))
      assert.strictEqual(last.headers["connection"], "close")
      assert.notInclude((yield* send({ path: clients, token })).text, '"displayName"')
    })
  }

  it.effect("that asks for a tunnel ends without an answer", function* () {
    assert.deepStrictEqual(yield* ask("CONNECT a:443 HTTP/1.1\r\nhost: a:443\r\n\r\n"), [])
  })

  it.effect("needs a Host header, unless the request is of HTTP/1.0", function* () {
    for (const target of ["/healthz", clients, "/nothing", "http://a/healthz"]) {
      const [answer = assert.fail("no answer")] = yield* ask(`GET ${target} HTTP/1.1\r\nconnection: close\r\n\r\n`)
      assert.deepStrictEqual(problemOf(answer, 400, "validation_failed").errors, { "header/host": ["is required"] })
    }
    assert.strictEqual((yield* ask("GET /healthz HTTP/1.0\r\n\r\n"))[0]?.status, 200)
    assert.strictEqual((yield* ask("GET /healthz HTTP/1.1\r\nhost:\r\nconnection: close\r\n\r\n"))[0]?.status, 200)
  })

  it.effect("gets a problem for each method and form of target that the service does not have", function* () {
    for (const [line, status, code, allow] of [
      ["TRACE /healthz", 405, "method_not_allowed", "GET, HEAD"],
      ["PROPFIND /healthz", 405, "method_not_allowed", "GET, HEAD"],
      [`OPTIONS ${clients}`, 405, "method_not_allowed", "GET, HEAD, POST"],
      ["TRACE /nothing", 404, "route_not_found"],
      ["OPTIONS *", 404, "route_not_found"],
      ["GET a:443", 400, "validation_failed"],
      ["GET http://a/nothing", 404, "route_not_found"],
      [`GET http://a${clients}`, 401, "credential_missing"]
    ] as const) {
      const [answer = assert.fail(line)] = yield* ask(`${line} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n`)
      assert.deepStrictEqual([answer.status, codeOf(answer)], [status, code], `${line} ${answer.text}`)
      problemOf(answer, status, code)
      assert.strictEqual(answer.headers["allow"], allow, line)
    }
  })

  it.effect(
    "gets a problem for a target whose percent-encoding is malformed, whatever the route and the token",
    function* () {
      for (const [part, location] of [
        ["%", "path"],
        ["a%zzb", "path"],
        ["%C0%80", "path"],
        ["%ED%A0%80", "path"],
        ["a?limit=%FF", "query"],
        ["a?%=1", "query"],
        ["a?limit=1&%ED%A0%80", "query"]
      ] as const) {
        for (const path of [`/${part}`, `${clients}/${part}`]) {
          const [answer = assert.fail(path)] = yield* ask(
            `GET ${path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n`
          )
          const { errors } = problemOf(answer, 400, "validation_failed")
          assert.deepStrictEqual(errors, { [location]: ["must be percent-encoded UTF-8"] }, path)
        }
      }
    }
  )

  it.effect("gets a problem for a declared body before any of it has arrived", function* () {
    const { token } = yield* (yield* TestServer).seed()
    const json = "content-type: application/json"
    const bearer = `authorization: Bearer ${token}`
    for (const [status, code, ...fields] of [
      [401, "credential_missing", json, "content-length: 100"],
      [413, "body_too_large", bearer, json, "content-length: 262145"],
      [413, "body_too_large", bearer, json, "content-length: 999999999999999"],
      [415, "unsupported_media_type", bearer, "content-length: 9"]
    ] as const) {
      const lines = [`POST ${clients} HTTP/1.1`, "host: x", ...fields, "connection: close", "", ""]
      const [answer = assert.fail("no answer"), ...others] = yield* ask(lines.join("\r\n"))
      assert.lengthOf(others, 0)
      problemOf(answer, status, code)
    }
  })

  it.effect("reads no request out of a refused body", function* () {
    const { seed, sendBytes } = yield* TestServer
    const { token } = yield* seed()
    const authorization = `authorization: Bearer ${token}\r\n`
    const smuggled = "GET /openapi.json HTTP/1.1\r\nhost: x\r\n\r\n"
    const chunk = `${smuggled.length.toString(16)}\r\n${smuggled}\r\n0\r\n\r\n`
    const last = "GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    for (const [status, head] of [
      [401, `POST ${clients} HTTP/1.1\r\n`],
      [415, `POST ${clients} HTTP/1.1\r\n${authorization}`],
      [400, `POST ${clients} HTTP/1.1\r\n${authorization}content-type: application/json\r\n`],
      [400, `GET ${clients} HTTP/1.1\r\n${authorization}`],
      [
        400,
        `DELETE /api/v1/developer/crm/deals/d/notes/n?expectedVersion=1 HTTP/1.1\r\n${authorization}idempotency-key: k\r\n`
      ],
      [404, "POST /nothing HTTP/1.1\r\n"],
      [405, "DELETE /healthz HTTP/1.1\r\n"]
    ] as const) {
      for (const body of [
        `content-length: ${smuggled.length}\r\n\r\n${smuggled}`,
        `transfer-encoding: chunked\r\n\r\n${chunk}`
      ]) {
        const text = yield* sendBytes(`${head}host: x\r\n${body}${last}`)
        const statuses = [...text.matchAll(/^HTTP\/1\.1 (\d+) /gm)].map(([, code]) => Number(code))
        // The server may close the connection instead of reading on, but must not read the body as a request.
        if (statuses.length === 1) assert.match(text, /^connection: close\r$/im)
        assert.deepStrictEqual(statuses, [status, 200].slice(0, statuses.length), head)
        assert.notInclude(text, '"openapi"')
      }
    }
  })

  it.effect("gives each request the rights of its own token, whichever the previous request had", function* () {
    const { apply, seed } = yield* TestServer
    const [own, other] = [yield* seed(), yield* seed()]
    yield* apply(own.projectId, { clients: [{ id: "c1", displayName: "C" }] })
    const damaged = own.token.slice(0, -1) + (own.token.endsWith("a") ? "b" : "a")
    const requests = [own.token, other.token, damaged, own.token, other.token].map(
      (token) => `GET ${clients}/c1 HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${token}\r\n\r\n`
    )
    const last = "GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
    const answers = yield* ask(`${requests.join("")}${last}`)
    assert.deepStrictEqual(
      answers.map(({ status }) => status),
      [200, 404, 401, 200, 404, 200]
    )
  })

  it.effect("gets a problem for a repeated header that decides who is asked, and by whom", function* () {
    for (const path of ["/healthz", clients, "/nothing"]) {
      for (const [lines, location, fault] of [
        ["HOST: b", "header/host", "must not be repeated"],
        ["authorization: a\r\nAuthorization: b", "header/authorization", "must not be repeated"]
      ] as const) {
        const bytes = `POST ${path} HTTP/1.1\r\nhost: a\r\n${lines}\r\nconnection: close\r\n\r\n`
        const [answer = assert.fail("no answer")] = yield* ask(bytes)
        assert.deepStrictEqual(problemOf(answer, 400, "validation_failed").errors, { [location]: [fault] })
      }
    }
  })
})
