/** Requests that were made to get past a check, or to cost more than they should. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { assertFault, problemOf, receiptOf } from "../support/ContractAnswers.ts"
import { TestServer } from "../support/TestServer.ts"
import { samples, World } from "./Samples.ts"

const clients = "/api/v1/developer/crm/clients"

layer(World.layer, { excludeTestServices: true })("a hostile request", (it) => {
  it.effect("with an invalid Host header passes no check and changes no Link header", () =>
    Effect.gen(function* () {
      const { apply, send } = yield* TestServer
      const { ask, seed } = yield* World
      // Its place in the path of a list holds what could end that path.
      const dealId = "a/b?c#d>; é"
      const project = yield* seed()
      yield* apply(project.projectId, { deals: [{ id: dealId, title: "Hostile" }] })
      const { token } = project
      const params = { dealId: encodeURIComponent(dealId) }
      const lists = [
        { name: "createClient", list: "/api/v1/developer/crm/clients", below: "clientId" },
        { name: "createDeal", list: "/api/v1/developer/crm/deals", below: "dealId" },
        { name: "createNote", list: `/api/v1/developer/crm/deals/${params.dealId}/notes` }
      ]
      for (const { below, list, name } of lists) {
        const sample = samples[name] ?? assert.fail(name)
        for (const _ of [1, 2]) receiptOf(yield* ask(sample, project, { params }), 201)
        const linked = (origin: string) => `<${origin}${list}?limit=1&cursor=`
        for (const host of ["a/b/c", "a?", "a b[", "x>;rel=prev", "a/b?x=1", "a#b", "[::1", "user@host"]) {
          const headers = { host }
          for (const id of below === undefined ? [] : ["%00", "%FF"]) {
            assertFault(yield* send({ path: `${list}/${id}`, token, headers }), `path/${below}`)
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
  )

  it.effect("with an id of dots gets Link headers with its own path", () =>
    Effect.gen(function* () {
      const { apply, send, url } = yield* TestServer
      const { ask, seed } = yield* World
      const project = yield* seed()
      yield* apply(project.projectId, { deals: [{ id: "..", title: "Up" }] })
      const sample = samples["createNote"] ?? assert.fail("createNote")
      for (const _ of [1, 2]) receiptOf(yield* ask(sample, project, { params: { dealId: "%2E%2E" } }), 201)
      const deals = "/api/v1/developer/crm/deals"
      const { headers } = yield* send({ path: `${deals}/%2E%2E/notes?limit=1`, token: project.token })
      assert.include(String(headers["link"]), `<${url}${deals}/%2E%2E/notes?limit=1&cursor=`)

      yield* apply(project.projectId, { deals: [{ id: "a#b", title: "Hash" }] })
      for (const _ of [1, 2]) receiptOf(yield* ask(sample, project, { params: { dealId: "a%23b" } }), 201)
      const hash = yield* send({ path: `${deals}/a#b/notes?limit=1`, token: project.token })
      assert.include(String(hash.headers["link"]), `<${url}${deals}/a%23b/notes?limit=1&cursor=`)
    })
  )

  it.effect("with a list of a hundred thousand items is refused without decoding each item", () =>
    Effect.gen(function* () {
      const { seed, send } = yield* TestServer
      const { token } = yield* seed()
      for (const item of [1, ""]) {
        const tags = Array.from({ length: 60_000 }, () => item)
        const answer = yield* send({
          method: "POST",
          path: clients,
          token,
          key: "hostile-3",
          json: { displayName: "x", tags }
        })
        problemOf(answer, 400, "validation_failed")
        assertFault(answer, "body/tags")
        assert.isBelow(answer.text.length, 200_000)
      }
    })
  )

  it.effect("with a Content-Encoding is refused without decoding", () =>
    Effect.gen(function* () {
      const { seed, send } = yield* TestServer
      const { token } = yield* seed()
      const request = { method: "POST", path: clients, token, key: "hostile-4", json: { displayName: "x" } }
      problemOf(yield* send({ ...request, headers: { "content-encoding": "gzip" } }), 415, "unsupported_media_type")
      assert.strictEqual((yield* send({ ...request, headers: { "content-encoding": "identity" } })).status, 201)
    })
  )

  it.effect("with another token than the one before it on its connection has the rights of its own token", () =>
    Effect.gen(function* () {
      const { apply, seed, sendBytes } = yield* TestServer
      const [own, other] = [yield* seed(), yield* seed()]
      yield* apply(own.projectId, { clients: [{ id: "c1", displayName: "C" }] })
      const get = (token: string, connection: string) =>
        `GET ${clients}/c1 HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${token}\r\nconnection: ${connection}\r\n\r\n`
      const damaged = own.token.slice(0, -1) + (own.token.endsWith("a") ? "b" : "a")
      const kept = [own.token, other.token, damaged, own.token].map((token) => get(token, "keep-alive"))
      const answers = yield* sendBytes(`${kept.join("")}${get(other.token, "close")}`)
      const statuses = [...answers.matchAll(/HTTP\/1\.1 (\d+) /g)].map(([, status]) => status)
      assert.deepStrictEqual(statuses, ["200", "404", "401", "200", "404"])
    })
  )

  it.effect("with an Upgrade header is answered like any other", () =>
    Effect.gen(function* () {
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
  )
})
