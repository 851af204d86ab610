/** What one connection gets: pipelined requests before bytes that are no request, unusual methods and targets (contract §1). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { connect } from "node:net"
import { setTimeout } from "node:timers/promises"
import { codeOf, problemOf, requestIdOf } from "../support/ContractAnswers.ts"
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
  const chunked = (token: string) =>
    create(token, "chunked").replace(/content-length[^]*/, "transfer-encoding: chunked\r\n\r\nnonsense\r\n\r\n")

  for (const count of [0, 1, 3]) {
    for (const [what, rest, status, code] of [
      ["bytes that are no request", () => garbage, 400, "validation_failed"],
      ["a body that is malformed", chunked, 400, "validation_failed"],
      [
        "a header section that is too large",
        () => `GET / HTTP/1.1\r\nx: ${"x".repeat(20_000)}\r\n\r\n`,
        431,
        "headers_too_large"
      ],
      ["CONNECT", () => "CONNECT a:443 HTTP/1.1\r\nhost: a:443\r\n\r\n", 404, "route_not_found"]
    ] as const) {
      it.effect(
        `with ${count} requests before ${what} gets their answers in order, then a problem, and ends`,
        function* () {
          const { seed, send } = yield* TestServer
          const { token } = yield* seed()
          const ids = Array.from({ length: count }, (_, i) => `request-${i}`)
          const requests = ids.map((id) => create(token, id)).join("")
          const answers = yield* ask(`${requests}${rest(token)}${create(token, "after")}`)
          const last = answers.at(-1) ?? assert.fail("no answer")
          assert.deepStrictEqual(
            answers.slice(0, -1).map((answer) => [answer.status, requestIdOf(answer)]),
            ids.map((id) => [201, id])
          )
          problemOf(last, status, code)
          assert.strictEqual(last.headers["connection"], "close")
          const { text } = yield* send({ path: clients, token })
          assert.strictEqual(text.split('"displayName"').length - 1, count)
        }
      )
    }
  }

  it.effect("whose caller sends no more gets the answers to its requests, and ends", function* () {
    const { seed, url } = yield* TestServer
    const { token } = yield* seed()
    const requests = ["first", "second", "third"].map((id) => create(token, id)).join("")
    for (const before of [0, 20]) {
      const { hostname, port } = new URL(url)
      const text = yield* Effect.promise(async () => {
        const socket = connect(Number(port), hostname)
        socket.write(requests)
        await setTimeout(before)
        socket.end()
        return (await socket.toArray()).join("")
      })
      const statuses = answersOf(text).map(({ status }) => status)
      assert.deepStrictEqual(statuses, [201, 201, 201], `after ${before} ms`)
    }
  })

  it.effect("with HEAD before bytes that are no request gets a problem with a body", function* () {
    const answers = yield* ask(`HEAD /healthz HTTP/1.1\r\nhost: a\r\n\r\n${garbage}`)
    assert.deepStrictEqual(
      answers.map(({ status, text }) => [status, text === ""]),
      [
        [200, true],
        [400, false]
      ]
    )
  })

  it.effect("gets a problem that says what is wrong with bytes that are no request", function* () {
    for (const [bytes, wrong] of [
      [garbage, "Invalid method encountered"],
      ["\x16\x03\x01\x02", "Invalid method encountered"],
      ["GET /a b HTTP/1.1\r\n\r\n", "Expected HTTP/, RTSP/ or ICE/"],
      ["GET / HTTP/9.9\r\n\r\n", "Invalid HTTP version"],
      ["GET / HTTP/1.1\r\nhost a\r\n\r\n", "Invalid header token"],
      ["POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n", "Invalid character in Content-Length"],
      ["GET / HTTP/1.1\r\nx-nul: a\u0000b\r\n\r\n", "Invalid header value char"],
      ["GET /\u0000 HTTP/1.1\r\n\r\n", "Invalid char in url path"],
      [
        "POST / HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
        "Transfer-Encoding can't be present with Content-Length"
      ],
      ["CONNECT /healthz HTTP/1.1\r\nhost: a\r\n\r\n", "The target of CONNECT is a host and a port"]
    ] as const) {
      const [answer = assert.fail(bytes)] = yield* ask(bytes)
      const { detail, errors } = problemOf(answer, 400, "validation_failed")
      assert.deepStrictEqual(errors, { request: [`must be well-formed HTTP/1.1: ${wrong}`] }, bytes)
      assert.strictEqual(detail, "See errors: request.")
    }
  })

  it.effect("gets one answer to a request whose body breaks off after its answer, and ends", function* () {
    const { seed } = yield* TestServer
    const { token } = yield* seed()
    const head = (id: string) =>
      create(id, id).replace(/content-length[^]*/, "transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n")
    const statusesAfter = (more: string) =>
      Effect.map(ask(head("unknown"), more), (answers) => answers.map(({ status }) => status))
    assert.deepStrictEqual(yield* statusesAfter("nonsense\r\n"), [401])
    // Once its body is complete, what follows is another message.
    const next = `0\r\n\r\n${create(token, "next")}${garbage}`
    assert.deepStrictEqual(yield* statusesAfter(next), [401, 201, 400])
  })

  it.effect("ends after a pipelined request that asks for it, without a further answer", function* () {
    const { seed } = yield* TestServer
    const { token } = yield* seed()
    const bytes = create(token, "last").replace("host: a", "host: a\r\nconnection: close")
    assert.deepStrictEqual(
      (yield* ask(`${bytes}${garbage}`)).map(({ status }) => status),
      [201]
    )
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
      ["GET *", 404, "route_not_found"],
      ["CONNECT a:443", 404, "route_not_found"],
      ["CONNECT /healthz", 400, "validation_failed"],
      ["GET a:443", 400, "validation_failed"],
      ["GET http://a/nothing", 404, "route_not_found"],
      [`GET http://a${clients}`, 401, "credential_missing"],
      ["GET http://", 404, "route_not_found"],
      ["GET http://[/healthz", 404, "route_not_found"]
    ] as const) {
      const [answer = assert.fail(line)] = yield* ask(`${line} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n`)
      assert.deepStrictEqual([answer.status, codeOf(answer)], [status, code], `${line} ${answer.text}`)
      problemOf(answer, status, code)
      assert.strictEqual(answer.headers["allow"], allow, line)
    }
  })

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
    const answers = yield* ask(`${requests.join("")}${garbage}`)
    assert.deepStrictEqual(
      answers.map(({ status }) => status),
      [200, 404, 401, 200, 404, 400]
    )
  })

  it.effect("gets a problem for a repeated header that decides how it is read, and for other codings", function* () {
    for (const path of ["/healthz", clients, "/nothing"]) {
      for (const [lines, location, fault] of [
        ["HOST: b", "header/host", "must not be repeated"],
        ["authorization: a\r\nAuthorization: b", "header/authorization", "must not be repeated"],
        ["Content-Type: application/json\r\ncontent-type: a", "header/content-type", "must not be repeated"],
        ["transfer-encoding: gzip, chunked", "header/transfer-encoding", "must be chunked, without another coding"]
      ] as const) {
        const end = lines.includes("chunked") ? "0\r\n\r\n" : ""
        const bytes = `POST ${path} HTTP/1.1\r\nhost: a\r\n${lines}\r\nconnection: close\r\n\r\n${end}`
        const [answer = assert.fail("no answer")] = yield* ask(bytes)
        assert.deepStrictEqual(problemOf(answer, 400, "validation_failed").errors, { [location]: [fault] })
      }
    }
  })
})
