/** Requests outside the operations: unknown paths and open routes (contract §1, §15). */
import { assert, layer } from "../support/Vitest.ts"
import { assertUnlimited, problemOf, requestIdOf } from "../support/ContractAnswers.ts"
import { TestServer } from "../support/TestServer.ts"

/** The routes outside the operations, with the status of their answer. */
const openRoutes = {
  "/": 302,
  "/healthz": 200,
  "/readyz": 200,
  "/openapi.json": 200,
  "/docs": 200,
  "/docs/openapi.json": 200,
  "/contract": 200,
  "/contract.md": 200,
  "/client": 200,
  "/client.md": 200,
  "/agents": 200,
  "/agents.md": 200,
  "/llms.txt": 200
}

const clients = "/api/v1/developer/crm/clients"

layer(TestServer.layer(), { excludeTestServices: true })("the main port", (it) => {
  it.effect("answers route_not_found for every unknown path with any method and token", function* () {
    const { seed, send } = yield* TestServer
    const { token } = yield* seed()
    for (const path of [
      "/nothing",
      "/api",
      "/api/",
      "/api/v1",
      "/api/v1/developer",
      "/api/v1/developer/crm",
      `${clients}/x/y`,
      "/api/v1/developer/crm/deals/x/notes/y/z",
      "/api/v1/developer/crm/deals/x/y",
      "/api/v1/developer/credential/x",
      "/api/v1/developer/crm/tickets/x",
      "/api/v1/developer/crm/tickets/x/rating/y",
      "/api/v1/developer/integrations/x",
      "/api/v1/developer/integrations/x/outbound-webhook/x",
      "/api/v1/developer/integrations/x/outbound-webhook/deliveries/y/z",
      "/metrics",
      "/openapi.yaml",
      "/healthz/",
      "/docs/",
      "/favicon.ico",
      "/%00",
      "/..",
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
})
