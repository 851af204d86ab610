/** What one connection gets: pipelined requests before bytes that are no request, unusual methods and targets (contract §1). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
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
    for (const [what, rest, status] of [
      ["bytes that are no request", () => garbage, 400],
      ["a body that is malformed", chunked, 400],
      ["a header section that is too large", () => `GET / HTTP/1.1\r\nx: ${"x".repeat(20_000)}\r\n\r\n`, 431],
      ["CONNECT", () => "CONNECT a:443 HTTP/1.1\r\nhost: a:443\r\n\r\n", 404]
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
          problemOf(last, status, String(codeOf(last)))
          assert.strictEqual(last.headers["connection"], "close")
          const { text } = yield* send({ path: clients, token })
          assert.strictEqual(text.split('"displayName"').length - 1, count)
        }
      )
    }
  }

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
      ["GET http://", 404, "route_not_found"],
      ["GET http://[/healthz", 404, "route_not_found"]
    ] as const) {
      const [answer = assert.fail(line)] = yield* ask(`${line} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n`)
      assert.deepStrictEqual([answer.status, codeOf(answer)], [status, code], `${line} ${answer.text}`)
      problemOf(answer, status, code)
      assert.strictEqual(answer.headers["allow"], allow, line)
    }
  })
})
