/** Requests that were made to get past a check, or to cost more than they should. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { assertFault, problemOf } from "../support/ContractAnswers.ts"
import { TestServer } from "../support/TestServer.ts"

const clients = "/api/v1/developer/crm/clients"

layer(TestServer.layer(), { excludeTestServices: true })("a hostile request", (it) => {
  it.effect("gets past no check, and into no Link, with a Host that is none", () =>
    Effect.gen(function* () {
      const { seed, send } = yield* TestServer
      const { token } = yield* seed()
      for (const n of [1, 2]) {
        yield* send({ method: "POST", path: clients, token, key: `hostile-${n}`, json: { displayName: `${n}` } })
      }
      for (const host of ["a/b/c", "a?", "a b[", "x>;rel=prev", "a/b?x=1", "a#b", "[::1", "user@host"]) {
        const headers = { host }
        assertFault(yield* send({ path: `${clients}/%00`, token, headers }), "path/clientId")
        assertFault(yield* send({ path: `${clients}/%FF`, token, headers }), "path/clientId")
        assertFault(yield* send({ path: `${clients}?limit=1&limit=2`, token, headers }), "query/limit")
        const page = yield* send({ path: `${clients}?limit=1`, token, headers })
        assert.strictEqual(page.status, 200)
        assert.match(
          String(page.headers["link"]),
          /^<\/api\/v1\/developer\/crm\/clients\?limit=1&cursor=[\w-]+>; rel="next"$/
        )
      }
      const page = yield* send({ path: `${clients}?limit=1`, token, headers: { host: "api.example:8443" } })
      assert.match(String(page.headers["link"]), /^<http:\/\/api\.example:8443\/api\/v1\//)
    })
  )

  it.effect("is told what is wrong with a list of a hundred thousand, without each being judged", () =>
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

  it.effect("does not have its body decoded from what it says it is", () =>
    Effect.gen(function* () {
      const { seed, send } = yield* TestServer
      const { token } = yield* seed()
      const request = { method: "POST", path: clients, token, key: "hostile-4", json: { displayName: "x" } }
      problemOf(yield* send({ ...request, headers: { "content-encoding": "gzip" } }), 415, "unsupported_media_type")
      assert.strictEqual((yield* send({ ...request, headers: { "content-encoding": "identity" } })).status, 201)
    })
  )

  it.effect("is answered like any other when it offers another protocol", () =>
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
