/** The requests that are sent again, each with the same content. */
import { assert, describe, it } from "../support/Vitest.ts"
import { Effect, Schema } from "effect"
import { FetchHttpClient, HttpClientError } from "effect/http"
import { HttpApi, HttpApiClient, HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { Access } from "../../src/api/Access.ts"
import { ProblemHandling } from "../../src/api/Requests.ts"
import { retriesLayer } from "../../src/client/Retries.ts"
import { answering, calling, problem, receipt, scripted, type Step } from "./Scripted.support.ts"

const request = { payload: { displayName: "Robin" } }

const rateLimited = problem(429, "rate_limit_exceeded", { "retry-after": "0" })
const unavailable = problem(503, "service_unavailable", { "retry-after": "0" })

/** Asserts the number of attempts, and that all have the same valid idempotency key. */
const assertSame = (keys: ReadonlyArray<string | undefined>, attempts: number) => {
  assert.lengthOf(keys, attempts)
  assert.strictEqual(new Set(keys).size, 1)
  assert.match(String(keys[0]), /^[A-Za-z0-9][A-Za-z0-9._:-]{7,159}$/)
}

describe("a mutation sent by the client", () => {
  const passing: ReadonlyArray<readonly [what: string, step: Step]> = [
    ["429", rateLimited],
    ["503", unavailable],
    ["502 of an intermediary", answering(502, "<html>", { "content-type": "text/html" })],
    ["504 of an intermediary", answering(504, "", {})],
    ["503 of an intermediary", answering(503, "<html>", { "content-type": "text/html" })],
    ["a connection that is reset once the request is read", "reset"],
    ["an answer that breaks off", "broken"]
  ]
  for (const [what, step] of passing) {
    it.live(`is sent again after ${what}, under the same key`, function* () {
      const { clients, keys, requests } = yield* calling([step, step, receipt])
      const { body } = yield* clients.createClient(request)
      assert.deepStrictEqual({ ...body }, { resourceId: "cli_1", changed: true })
      assertSame(keys(), 3)
      assert.strictEqual(new Set(requests.map(({ body }) => body)).size, 1)
      assert.strictEqual(requests[0]?.line, "POST /api/v1/developer/crm/clients HTTP/1.1")
    })
  }

  it.live("is sent again when the server closes a kept connection before reading it", function* () {
    const { clients, connections, keys } = yield* calling(["closed", "closed", receipt])
    yield* clients.createClient(request)
    assertSame(keys(), 1)
    assert.strictEqual(connections(), 3)
  })

  it.live("keeps the given idempotency key through all attempts", function* () {
    const { clients, keys } = yield* calling([unavailable, "reset", receipt])
    yield* clients.createClient({ ...request, headers: { "idempotency-key": "order-4711" } })
    assert.deepStrictEqual(keys(), ["order-4711", "order-4711", "order-4711"])
  })

  it.live("fails after the configured retries with the problem of the last answer", function* () {
    const { clients, keys } = yield* calling([rateLimited, rateLimited, unavailable], {
      retry: { times: 2, delay: "1 millis" }
    })
    const error = yield* Effect.flip(clients.createClient(request))
    assert.strictEqual(error._tag, "service_unavailable")
    assertSame(keys(), 3)
  })

  it.live("fails with the transport's error when there is no answer at all", function* () {
    const { clients, keys } = yield* calling(["reset"])
    const error = yield* Effect.flip(clients.createClient(request))
    assert.instanceOf(error, HttpClientError.HttpClientError)
    assert.strictEqual(error instanceof HttpClientError.HttpClientError && error.reason._tag, "TransportError")
    assertSame(keys(), 5)
  })

  const final: ReadonlyArray<readonly [what: string, step: Step, tag: string, options?: { readonly retry: false }]> = [
    // Also when the answer has a Retry-After.
    ...(
      [
        [400, "validation_failed", { errors: { "body/displayName": ["is required"] } }],
        [401, "credential_invalid"],
        [403, "module_unavailable"],
        [409, "contact_capacity_exhausted"],
        [409, "idempotency_key_reused"],
        [413, "body_too_large"],
        [500, "internal"]
      ] as const
    ).map(
      ([status, code, more]) =>
        [`the answer is ${status} ${code}`, problem(status, code, { "retry-after": "0" }, more), code] as const
    ),
    ["a gateway answers 501", answering(501, "<html>", { "content-type": "text/html" }), "HttpClientError"],
    ["retries are off", unavailable, "service_unavailable", { retry: false }]
  ]
  for (const [what, step, tag, options] of final) {
    it.live(`is sent once when ${what}`, function* () {
      const { clients, keys } = yield* calling([step], options)
      assert.strictEqual((yield* Effect.flip(clients.createClient(request)))._tag, tag)
      assertSame(keys(), 1)
    })
  }

  it.live("that sends a message is repeated under the same key until the outcome is known", function* () {
    const conversationId = "0193f0cb-d4e5-4f70-8192-03a4b5c6d7e8"
    const sent = answering(200, {
      messageId: "msg_1",
      conversationId,
      sourceId: "src_1",
      deliveryStatus: "sent",
      createdAt: "2026-11-20T10:05:00.000Z",
      updatedAt: "2026-11-20T10:05:00.000Z",
      attempts: []
    })
    const unknown = problem(503, "provider_outcome_unknown", { "retry-after": "0" }, { messageId: "msg_1" })
    const { keys, messaging } = yield* calling([unknown, unknown, sent])
    const { body } = yield* messaging.sendMessage({ params: { conversationId }, payload: { text: "Ready." } })
    assert.strictEqual(body.deliveryStatus, "sent")
    assertSame(keys(), 3)
  })
})

it.live("a read sent by the client is sent again without an idempotency key", function* () {
  const page = answering(200, { items: [], nextCursor: null })
  const { clients, keys } = yield* calling([unavailable, "reset", "closed", "broken", page])
  const { body } = yield* clients.listClients()
  assert.isNull(body.nextCursor)
  assert.deepStrictEqual(keys(), [undefined, undefined, undefined, undefined])
})

/** Operations that the API does not have: a mutation without a key, and a POST without an effect. */
class Odd extends HttpApi.make("odd").add(
  HttpApiGroup.make("odd")
    .add(
      HttpApiEndpoint.post("unkeyed", "/unkeyed", { success: Schema.Struct({}) }),
      HttpApiEndpoint.post("preview", "/preview", { success: Schema.Struct({}) }).annotate(Access, {
        scope: "integrations.operations.read",
        module: "integrations",
        policy: "read"
      })
    )
    .middleware(ProblemHandling)
) {}

const odd = (baseUrl: string) =>
  HttpApiClient.make(Odd, { baseUrl }).pipe(
    Effect.provide([FetchHttpClient.layer, retriesLayer({ retry: { delay: "1 millis" } })])
  )

describe("a request of the low-level client", () => {
  it.live("that is a mutation without an idempotency key is sent once", function* () {
    const { baseUrl, requests } = yield* scripted("reset", answering(200, {}))
    const error = yield* Effect.flip((yield* odd(baseUrl)).odd.unkeyed())
    assert.strictEqual(error._tag, "HttpClientError")
    assert.lengthOf(requests, 1)
  })

  it.live("that is a POST without effect is sent again", function* () {
    const { baseUrl, requests } = yield* scripted("reset", answering(200, {}))
    yield* (yield* odd(baseUrl)).odd.preview()
    assert.lengthOf(requests, 2)
  })
})
