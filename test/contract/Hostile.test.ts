/** Requests built to bypass a check or to cause excessive work. */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { assertFault, problemOf, receiptOf } from "../support/ContractAnswers.ts"
import { type Answer, type Request, send } from "../support/ContractHttp.ts"
import { hostileBodies } from "../support/HostileBodies.ts"
import { mcpRequest, resultOf } from "../support/Mcp.ts"
import { TestServer } from "../support/TestServer.ts"
import { samples, World } from "./Samples.ts"

const clients = "/api/v1/developer/crm/clients"

layer(World.layer, { excludeTestServices: true })("a hostile request", (it) => {
  it.effect("with an invalid Host header passes no check and changes no Link header", function* () {
    const { apply, send } = yield* TestServer
    const { ask, seed } = yield* World
    // The id is part of a list's path, and has characters that could end that path.
    const dealId = "a/b?c#d>; é"
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

/** A create of a client with this text as its body. */
const posting = (token: string, body: string): Request => ({
  method: "POST",
  path: clients,
  token,
  key: "hostile-body",
  headers: { "content-type": "application/json" },
  body
})

const maxAnswer = 64 * 1024

/** Sends a request five times; returns the CPU time of the cheapest in milliseconds, which contains the least of other work. */
const leastCost = (
  send: (request: Request) => Effect.Effect<Answer>,
  request: Request,
  check: (answer: Answer) => void
): Effect.Effect<number> =>
  Effect.gen(function* () {
    let least = Number.POSITIVE_INFINITY
    for (let round = 0; round < 5; round++) {
      const before = process.cpuUsage()
      const answer = yield* send(request)
      const { system, user } = process.cpuUsage(before)
      least = Math.min(least, (system + user) / 1_000)
      check(answer)
    }
    return least
  })

layer(TestServer.layer(), { excludeTestServices: true })("a hostile body", (it) => {
  for (const [name, { body, omits = false }] of Object.entries(hostileBodies)) {
    it.effect(`is refused with 400, at most 64 KiB and 100 ms of CPU time: ${name}`, function* () {
      const { seed, send } = yield* TestServer
      const { token } = yield* seed()
      const least = yield* leastCost(send, posting(token, body), (answer) => {
        assert.strictEqual(answer.status, 400)
        assert.isAtMost(Buffer.byteLength(answer.text), maxAnswer)
        const { code, detail, errors } = problemOf(answer, 400, "validation_failed")
        assert.strictEqual(code, "validation_failed")
        for (const location of Object.keys(errors ?? {})) assert.isAtMost([...location].length, 256)
        assert.strictEqual(/At least [0-9]+ more faults? (?:is|are) left out\.$/.test(String(detail)), omits)
      })
      assert.isBelow(least, 100)
    })

    it.effect(`is refused as cheaply as an argument of a tool: ${name}`, function* () {
      const { seed, url } = yield* TestServer
      const { token } = yield* seed()
      const params = { name: "createClient", arguments: { idempotencyKey: "hostile-body", body: "here" } }
      const { json, ...request } = mcpRequest(token, "tools/call", params)
      const text = JSON.stringify(json).replace('"here"', () => body)
      const headers = { ...request.headers, "content-type": "application/json" }
      const least = yield* leastCost(
        (request) => send(url, request),
        { ...request, headers, body: text },
        (answer) => {
          // A message that is nested too deeply has no arguments that could be refused.
          const problem = answer.status === 400 ? answer.text : JSON.stringify(resultOf(answer).structuredContent)
          assert.strictEqual(JSON.parse(problem).code, "validation_failed")
          assert.isAtMost(Buffer.byteLength(problem), maxAnswer)
        }
      )
      assert.isBelow(least, 100)
    })
  }

  it.effect("of too many items or members costs at most twice what a harmless one of its length costs", function* () {
    const { seed, send } = yield* TestServer
    const { token } = yield* seed()
    const bodies = ["120,000 faulty tags", "20,000 unknown members"].map((name) => hostileBodies[name]?.body ?? name)
    const pairs = bodies.map(
      (body) => [posting(token, body), posting(token, '{"displayName":""}'.padEnd(body.length))] as const
    )
    /** Returns the CPU time of both sides in milliseconds. */
    const costOf = Effect.fnUntraced(function* (request: Request) {
      const before = process.cpuUsage()
      assert.strictEqual((yield* send(request)).status, 400)
      const { system, user } = process.cpuUsage(before)
      return (system + user) / 1_000
    })
    for (const [hostile, harmless] of pairs) {
      // In turns, as other work of this process adds to both. The least of each contains the least of it.
      let [least, usual] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY]
      for (let round = 0; round < 100 && (round < 5 || least > 2 * usual); round++) {
        usual = Math.min(usual, yield* costOf(harmless))
        least = Math.min(least, yield* costOf(hostile))
      }
      assert.isAtMost(least, 2 * usual, hostile.path.slice(0, 60))
    }
  })
})
