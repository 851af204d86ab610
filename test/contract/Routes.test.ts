/** Requests outside the operations: unknown paths, open routes, and bytes that are not a request (contract §1, §15). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { assertUnlimited, codeOf, problemOf, requestIdOf } from "../support/ContractAnswers.ts"
import { answersOf } from "../support/ContractHttp.ts"
import { TestServer } from "../support/TestServer.ts"

/** Parses the only answer on a connection. */
const answerOf = (text: string) => {
  const [answer = assert.fail("no answer"), ...others] = answersOf(text)
  assert.lengthOf(others, 0)
  return answer
}

/** The routes outside the operations, with the status of their answer. */
const openRoutes = {
  "/": 302,
  "/healthz": 200,
  "/readyz": 200,
  "/openapi.json": 200,
  "/docs": 200,
  "/contract.md": 200,
  "/llms.txt": 200,
  "/.well-known/api-catalog": 200,
  "/arazzo.json": 200
}

const clients = "/api/v1/developer/crm/clients"
const note = "/api/v1/developer/crm/deals/d/notes/n?expectedVersion=1"

layer(TestServer.layer(), { excludeTestServices: true })("the main port", (it) => {
  it.effect("answers route_not_found for every unknown path with any method and token", function* () {
    const { seed, send } = yield* TestServer
    const { token } = yield* seed()
    for (const path of [
      "//",
      "/nothing",
      "/api",
      "/api/",
      "/api/v1",
      "/api/v1/developer",
      "/api/v1/developer/crm",
      `${clients}/x/y`,
      "/api/v1/developer/crm/deals//notes",
      "/api/v1/developer/crm/deals/x/notes/y/z",
      "/api/v1/developer/crm/deals/x/y",
      "/api/v1/developer/crm/tickets",
      "/api/v1/developer/crm/tickets/x",
      "/api/v1/developer/crm/tickets/x/rating/y",
      "/api/v1/developer/integrations/x",
      "/api/v1/developer/integrations/x/outbound-webhook/x",
      "/api/v1/developer/integrations/x/outbound-webhook/deliveries/y/z",
      "/api/v1/developer/integrations/x/outbound-webhook/deliveries//retry",
      "/v1/developer/crm/clients",
      "/api/v1/developer/crm/%63lients",
      "/api/v1/developer/crm/%63lients/x/y",
      "/%68ealthz",
      "/API/v1/developer/crm/clients",
      "/metrics",
      "/openapi.yaml",
      "/healthz/",
      "/docs/",
      "/favicon.ico",
      "/%00",
      "/%zz",
      "/%ED%A0%80",
      "/..",
      "/;",
      "/constructor",
      "/__proto__",
      `/${"x".repeat(8_000)}`
    ]) {
      for (const method of ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"]) {
        const answer = yield* send({ method, path, ...(method === "POST" ? { token } : {}) })
        if (method === "HEAD") assert.strictEqual(answer.status, 404)
        else problemOf(answer, 404, "route_not_found")
        assert.notProperty(answer.headers, "allow")
        assertUnlimited(answer)
      }
    }
  })

  it.effect("serves health, readiness, documents and reference without a credential", function* () {
    const { send } = yield* TestServer
    for (const [path, status] of Object.entries(openRoutes)) {
      const get = yield* send({ path, headers: { "x-request-id": "open-1" } })
      assert.strictEqual(get.status, status)
      assert.strictEqual(requestIdOf(get), "open-1")
      assertUnlimited(get)
      const head = yield* send({ method: "HEAD", path })
      assert.deepStrictEqual([head.status, head.text], [status, ""])
      assert.strictEqual(head.headers["content-length"], get.headers["content-length"])
      for (const method of ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"]) {
        const answer = yield* send({ method, path })
        problemOf(answer, 405, "method_not_allowed")
        assert.deepStrictEqual(answer.headers.allow?.split(/, */).toSorted(), ["GET", "HEAD"])
      }
    }
  })

  it.effect("answers a problem for bytes that are not a request", function* () {
    const { sendBytes } = yield* TestServer
    for (const bytes of [
      "nonsense\r\n\r\n",
      "GET / HTTP/1.1\r\nhost: x\r\nbad header\r\n\r\n",
      "GET / HTTP/1.1\r\nhost: x\r\nx-nul: a\u0000b\r\n\r\n",
      "GET /\u0000 HTTP/1.1\r\nhost: x\r\n\r\n",
      "FOO / HTTP/1.1\r\nhost: x\r\n\r\n",
      "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: nonsense\r\n\r\n",
      "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n"
    ]) {
      const answer = answerOf(yield* sendBytes(bytes))
      assert.isTrue(answer.status >= 400 && answer.status < 500, `${JSON.stringify(bytes)} ${answer.status}`)
      problemOf(answer, answer.status, String(codeOf(answer)))
    }
  })

  it.effect("answers a request with an unknown expectation, with a problem or without", function* () {
    const { sendBytes } = yield* TestServer
    const head = "host: x\r\nconnection: close\r\nexpect: the-unexpected"
    const answer = answerOf(yield* sendBytes(`GET /healthz HTTP/1.1\r\n${head}\r\n\r\n`))
    if (answer.status >= 400) problemOf(answer, answer.status, String(codeOf(answer)))
  })

  it.effect("takes a target in absolute form", function* () {
    const { seed, sendBytes, url } = yield* TestServer
    const { token } = yield* seed()
    const { host } = new URL(url)
    const ask = (target: string) =>
      Effect.map(
        sendBytes(
          `GET ${target} HTTP/1.1\r\nhost: ${host}\r\nauthorization: Bearer ${token}\r\nconnection: close\r\n\r\n`
        ),
        answerOf
      )
    assert.strictEqual((yield* ask(`${url}${clients}`)).status, 200)
    problemOf(yield* ask(`${url}${clients}/%00`), 400, "validation_failed")
    problemOf(yield* ask(`${url}${clients}/nothing`), 404, "client_not_found")
    problemOf(yield* ask(`${url}/nothing`), 404, "route_not_found")
  })

  it.effect("refuses a declared body before any of it has arrived", function* () {
    const { seed, sendBytes } = yield* TestServer
    const { token } = yield* seed()
    const ask = (...fields: ReadonlyArray<string>) =>
      Effect.map(
        sendBytes(
          ["POST /api/v1/developer/crm/clients HTTP/1.1", "host: x", ...fields, "connection: close", "", ""].join(
            "\r\n"
          )
        ),
        answerOf
      )
    const json = "content-type: application/json"
    problemOf(yield* ask(json, "content-length: 100"), 401, "credential_missing")
    problemOf(yield* ask(`authorization: Bearer ${token}`, json, "content-length: 262145"), 413, "body_too_large")
    problemOf(
      yield* ask(`authorization: Bearer ${token}`, json, "content-length: 999999999999999"),
      413,
      "body_too_large"
    )
    problemOf(yield* ask(`authorization: Bearer ${token}`, "content-length: 9"), 415, "unsupported_media_type")
  })

  it.effect("separates requests on one connection after a refused body", function* () {
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
      [400, `DELETE ${note} HTTP/1.1\r\n${authorization}idempotency-key: k\r\n`],
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
})
