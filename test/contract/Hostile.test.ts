/** Requests whose `Host` or id is built to bypass a check or to change a link. */
import { assert, layer } from "../support/Vitest.ts"
import { assertFault, receiptOf } from "../support/ContractAnswers.ts"
import { TestServer } from "../support/TestServer.ts"
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
})
