/** Requests built to bypass a check or to cause excessive work. */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { assertFault, problemOf, receiptOf } from "../support/ContractAnswers.ts"
import { type Answer, send } from "../support/ContractHttp.ts"
import { hostileBodies } from "../support/HostileBodies.ts"
import { mcpRequest, resultOf, rpcOf } from "../support/Mcp.ts"
import { TestServer } from "../support/TestServer.ts"
import { requestOf } from "./Requests.ts"
import { samples, World } from "./Samples.ts"

const clients = "/api/v1/developer/crm/clients"

layer(World.layer, { excludeTestServices: true })("a hostile request", (it) => {
  it.effect("with an invalid Host header passes no check and changes no Link header", function* () {
    const { apply, send } = yield* TestServer
    const { ask, seed } = yield* World
    // The id is part of a list's path, and has characters that could end that path.
    const dealId = "a/b?c#d>;"
    const project = yield* seed()
    yield* apply(project.projectId, { deals: [{ id: dealId, title: "Hostile" }] })
    const { token } = project
    const params = { dealId: encodeURIComponent(dealId) }
    const lists = [
      { name: "createClient", list: clients, below: "clientId" },
      { name: "createDeal", list: "/api/v1/developer/crm/deals", below: "dealId" },
      { name: "createNote", list: `/api/v1/developer/crm/deals/${params.dealId}/notes` }
    ]
    for (const { below, list, name } of lists) {
      const sample = samples[name] ?? assert.fail(name)
      for (const _ of [1, 2]) receiptOf(yield* ask(sample, project, { params }), 201)
      const linked = (origin: string) => `<${origin}${list}?limit=1&cursor=`
      for (const host of ["a/b/c", "a?", "a b[", "x>;rel=prev", "a/b?x=1", "a#b", "[::1", "user@host"]) {
        const headers = { host }
        if (below !== undefined) {
          assertFault(yield* send({ path: `${list}/%00`, token, headers }), `path/${below}`)
        }
        assertFault(yield* send({ path: `${list}?limit=1&limit=2`, token, headers }), "query/limit")
        const { headers: answered, status } = yield* send({ path: `${list}?limit=1`, token, headers })
        assert.strictEqual(status, 200)
        const link = String(answered["link"])
        assert.strictEqual(link.replace(/[\w-]+>; rel="next"$/, ""), linked(""))
      }
      const page = yield* send({ path: `${list}?limit=1`, token, headers: { host: "api.example:8443" } })
      assert.include(String(page.headers["link"]), linked("http://api.example:8443"))
    }
  })

  it.effect("with an id of dots gets Link headers with its own path", function* () {
    const { apply, send, url } = yield* TestServer
    const { ask, seed } = yield* World
    const project = yield* seed()
    yield* apply(project.projectId, { deals: [{ id: "..", title: "Up" }] })
    const sample = samples["createNote"] ?? assert.fail("createNote")
    for (const _ of [1, 2]) receiptOf(yield* ask(sample, project, { params: { dealId: "%2E%2E" } }), 201)
    const deals = "/api/v1/developer/crm/deals"
    const { headers } = yield* send({ path: `${deals}/%2E%2E/notes?limit=1`, token: project.token })
    assert.include(String(headers["link"]), `<${url}${deals}/%2E%2E/notes?limit=1&cursor=`)
  })

  it.effect("with an Upgrade header is answered like any other", function* () {
    const { seed, send } = yield* TestServer
    const { token } = yield* seed()
    const headers = {
      connection: "Upgrade, HTTP2-Settings",
      upgrade: "h2c",
      "http2-settings": "AAMAAABkAAQCAAAAAAIAAAAA"
    }
    assert.strictEqual((yield* send({ path: clients, token, headers })).status, 200)
    problemOf(yield* send({ path: "/nothing", headers }), 404, "route_not_found")
  })
})

const maxAnswer = 64 * 1024

/** Milliseconds of CPU time that any request may take, this test's own work included. */
const maxCost = 15

/** Sends a request until its CPU time is low once, as other work of this process and machine adds to it; returns the lowest. */
const leastCost = Effect.fnUntraced(function* (send: Effect.Effect<Answer>, check: (answer: Answer) => void) {
  let least = Number.POSITIVE_INFINITY
  for (let round = 0; round < 50 && least >= maxCost; round++) {
    const before = process.cpuUsage()
    const answer = yield* send
    const { system, user } = process.cpuUsage(before)
    least = Math.min(least, (system + user) / 1_000)
    check(answer)
  }
  return least
})

const assertRefused = (text: string, shape: string) => {
  const { code, errors = {} } = JSON.parse(text)
  assert.strictEqual(code, "validation_failed", shape)
  assert.isAtMost(Buffer.byteLength(text), maxAnswer, shape)
  assert.isAtMost(Object.values(errors).flat().length, 100, shape)
  for (const location of Object.keys(errors)) {
    assert.isAtMost([...location].length, 256, shape)
    for (const name of location.split("/")) assert.isAtMost([...name.replace(/~[01]/g, "~")].length, 64, shape)
  }
}

layer(World.layer, { excludeTestServices: true })("a request made to cost much", (it) => {
  it.effect(
    "with a hostile body is refused with 400, at most 64 KiB and 15 ms of CPU time, whatever its shape",
    function* () {
      const { send } = yield* TestServer
      const { own } = yield* World
      for (const { body, operation, shape } of hostileBodies) {
        const sample = samples[operation] ?? assert.fail(operation)
        const request = requestOf(sample, own.token, { body })
        const least = yield* leastCost(send(request), (answer) => {
          problemOf(answer, 400, "validation_failed")
          assertRefused(answer.text, shape)
        })
        assert.isBelow(least, maxCost, shape)
      }
    }
  )

  it.effect(
    "with a hostile body is refused as cheaply as an argument of a tool, and ignored as cheaply elsewhere in a message",
    function* () {
      const { url } = yield* TestServer
      const { own } = yield* World
      for (const { body, operation, shape } of hostileBodies) {
        const asText = { body: body.replaceAll('"', "\\u0022") }
        const params = {
          name: operation,
          arguments: { ...samples[operation]?.params, idempotencyKey: "key-hostile", body: "here" }
        }
        for (const [method, given] of [
          ["tools/call", params],
          ["tools/call", { ...params, arguments: { ...params.arguments, ...asText } }],
          ["tools/call", { ...params, arguments: "here" }],
          ["ping", { _meta: "here" }]
        ] as const) {
          const { json, ...request } = mcpRequest(own.token, method, given)
          const text = JSON.stringify(json).replace('"here"', () => body)
          if (Buffer.byteLength(text) > 256 * 1024) continue
          const headers = { ...request.headers, "content-type": "application/json" }
          const least = yield* leastCost(send(url, { ...request, headers, body: text }), (answer) => {
            if (answer.status === 400) assertRefused(answer.text, shape)
            else if (method === "tools/call") assertRefused(JSON.stringify(resultOf(answer).structuredContent), shape)
            else rpcOf(answer)
          })
          assert.isBelow(least, maxCost, `${method}: ${shape}`)
        }
      }
    }
  )
})
