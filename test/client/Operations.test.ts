/** The client against the real service: every operation, and typical uses of each kind. */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { NotModified } from "../../src/api/Endpoints.ts"
import { DeveloperApi } from "../../src/client/DeveloperApi.ts"
import { createClient } from "../../src/client/PromiseClient.ts"
import { newKey, queryOf, requestOf } from "../contract/Requests.ts"
import { World } from "../contract/Samples.ts"
import { walkingOver } from "../contract/Walk.support.ts"
import { TestServer } from "../support/TestServer.ts"
import { declared, methodOf } from "./Walk.support.ts"

const promises = Effect.gen(function* () {
  const { own } = yield* World
  return createClient({ baseUrl: (yield* TestServer).url, token: own.token })
})

/** The Effect client, in a new project with the records of the samples. */
const effects = Effect.gen(function* () {
  const { projectId, token } = yield* (yield* World).seed()
  const { url } = yield* TestServer
  const api = yield* Effect.provide(DeveloperApi, DeveloperApi.layer({ baseUrl: `${url}/`, token }))
  return { api, projectId }
})

/** Returns the JSON of a body without what differs when the same request is sent again. */
const lasting = (body: unknown): unknown =>
  JSON.parse(
    JSON.stringify({ ...Object(body), signingSecret: undefined, observedAt: undefined, durationMs: undefined })
  )

layer(World.layer, { excludeTestServices: true })("with the typed client", (it) => {
  it.effect("every operation is there for Effect and for Promises, and items for each list", function* () {
    const { api } = yield* effects
    for (const client of [api, yield* promises]) {
      const found = Object.entries(client).flatMap(([group, methods]) =>
        Object.entries<object>(methods).map(([name, method]) => ({ group, name, isList: "items" in method }))
      )
      assert.deepStrictEqual(found, declared)
    }
  })

  walkingOver(it)("is called, and its answer decoded", function* (sample, { name, own, restore, send }) {
    yield* restore(sample, own.projectId)
    const method = methodOf(yield* promises, name)
    const { body, params } = sample
    const query = Object.fromEntries(queryOf(sample))
    const key = sample.key === undefined ? undefined : newKey()
    const headers = key === undefined ? {} : { headers: { "idempotency-key": key } }
    const decoded = Object(yield* Effect.promise(() => method({ params, query, payload: body, ...headers })))
    const answer = yield* send(requestOf(sample, own.token, { key }))
    // An answer without headers of its own is its body.
    const { body: record = decoded, headers: { etag, link } = {} } = decoded
    assert.deepStrictEqual(lasting(record), lasting(answer.json))
    assert.deepStrictEqual([etag, link], [answer.headers.etag, answer.headers.link])
  })

  it.effect("the answer to a repeated idempotency key is marked as replayed", function* () {
    const { clients } = (yield* effects).api
    const request = { payload: { displayName: "Once" }, headers: { "idempotency-key": "once-and-only" } }
    const first = yield* clients.createClient(request)
    const second = yield* clients.createClient(request)
    assert.strictEqual(second.body.resourceId, first.body.resourceId)
    assert.strictEqual(second.headers["idempotent-replayed"], "true")
    const reused = yield* Effect.flip(clients.createClient({ ...request, payload: { displayName: "Twice" } }))
    assert.strictEqual(reused._tag, "idempotency_key_reused")
  })

  it.effect("a condition is a header of a request, and its refusal a failure of the operation", function* () {
    const { clients } = (yield* effects).api
    const { body } = yield* clients.createClient({ payload: { displayName: "At its version" } })
    const params = { clientId: body.resourceId }
    const { headers } = yield* clients.getClient({ params, headers: { "if-match": '"1"', "if-none-match": '"2"' } })
    const unchanged = clients.getClient({ params, headers: { "if-none-match": headers.etag } })
    assert.instanceOf(yield* Effect.flip(unchanged), NotModified)
    const change = (displayName: string) =>
      clients.patchClient({ params, payload: { displayName }, headers: { "if-match": headers.etag } })
    assert.isTrue((yield* change("First")).body.changed)
    const refused = yield* Effect.flip(change("Second"))
    assert.deepInclude(refused, { _tag: "precondition_failed", currentVersion: 2 })
  })

  it.effect("ids with any visible character are encoded", function* () {
    const { seed, url } = yield* TestServer
    const ids = ["a/b", "a+b*", "%2F", "?x=1#y", "a.b", "..."]
    const { token } = yield* seed({ clients: ids.map((id) => ({ id, displayName: id })) })
    const { clients } = yield* Effect.provide(DeveloperApi, DeveloperApi.layer({ baseUrl: url, token }))
    for (const clientId of ids) {
      assert.strictEqual((yield* clients.getClient({ params: { clientId } })).body.displayName, clientId)
    }
  })
})
