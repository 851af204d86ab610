/** The Promise client: results, rejections, and calls that are aborted. */
import { assert, describe, it } from "../support/Vitest.ts"
import { Deferred, Effect } from "effect"
import { HttpClientError } from "effect/http"
import { inspect } from "node:util"
import * as Problems from "../../src/api/Problems.ts"
import { DeveloperApi } from "../../src/client/DeveloperApi.ts"
import { isProblem } from "../../src/client/Problem.ts"
import { createClient } from "../../src/client/PromiseClient.ts"
import { freePort } from "../support/Process.ts"
import { answering, problem, receipt, scripted, type Step, token } from "./Scripted.support.ts"

const source = (id: string) => ({
  id,
  channelId: "chan_1",
  providerType: "sandbox",
  displayName: "Sandbox",
  status: "active",
  capabilities: { textReply: true },
  connectedAt: "2026-11-20T10:00:00.000Z",
  revokedAt: null
})
const page = (ids: ReadonlyArray<string>, nextCursor: string | null) =>
  answering(200, { items: ids.map(source), nextCursor })

const clientOf = (...steps: readonly [Step, ...Array<Step>]) =>
  Effect.map(scripted(...steps), (server) => ({
    ...server,
    client: createClient({ baseUrl: server.baseUrl, token, retry: { delay: "1 millis" } })
  }))

const rejection = (promise: Promise<unknown>) =>
  Effect.promise(() =>
    promise.then(
      () => assert.fail("it resolved"),
      (error: unknown) => error
    )
  )

const request = { payload: { displayName: "Robin" } }

describe("a call of the Promise client", () => {
  it.live(
    "names the refused connection in message and cause, with Promises and with Effect, and no token",
    function* () {
      const port = yield* Effect.promise(freePort)
      for (const host of ["127.0.0.1", "localhost"]) {
        const options = { baseUrl: `http://${host}:${port}`, token, retry: false } as const
        const rejected = yield* rejection(createClient(options).clients.createClient(request))
        const failed = yield* DeveloperApi.pipe(
          Effect.flatMap(({ clients }) => clients.createClient(request)),
          Effect.provide(DeveloperApi.layer(options)),
          Effect.flip
        )
        for (const error of [rejected, failed]) {
          if (!HttpClientError.isHttpClientError(error)) return assert.fail(String(error))
          assert.match(error.message, new RegExp(`connect ECONNREFUSED 127\\.0\\.0\\.1:${port}`))
          assert.match(String(error.cause), new RegExp(`ECONNREFUSED 127\\.0\\.0\\.1:${port}`))
          assert.notInclude(inspect(error, { depth: 10 }) + JSON.stringify(error), token)
        }
      }
    }
  )

  it.live("takes the URL of the service, with or without the path of the API", function* () {
    const { baseUrl, requests } = yield* scripted(page([], null))
    for (const path of ["", "/", "/api/v1/developer", "/api/v1/developer/"]) {
      const client = createClient({ baseUrl: `${baseUrl}${path}`, token })
      yield* Effect.promise(() => client.messaging.listSources())
    }
    yield* Effect.promise(() =>
      createClient({ baseUrl: new URL("/behind/api/v1/developer", baseUrl), token }).messaging.listSources()
    )
    const paths = requests.map(({ line }) => /^GET ([^? ]+)/.exec(line)?.[1])
    const path = "/api/v1/developer/messaging/sources"
    assert.deepStrictEqual(paths, [path, path, path, path, `/behind${path}`])
  })

  it.live("rejects with the class of the problem", function* () {
    const { client } = yield* clientOf(problem(409, "version_conflict", {}, { currentVersion: 3 }))
    const params = { dealId: "deal_1", noteId: "note_1" }
    const error = yield* rejection(client.notes.patchNote({ params, payload: { body: "x", expectedVersion: 2 } }))
    assert.instanceOf(error, Problems.VersionConflict)
    assert.instanceOf(error, Error)
    assert.deepInclude(error, {
      code: "version_conflict",
      status: 409,
      detail: "As the script says.",
      instance: "urn:developer-api:request:1",
      currentVersion: 3
    })
    assert.isTrue(isProblem(error))
    assert.isTrue(isProblem(error, "version_conflict"))
    assert.isFalse(isProblem(error, "note_not_found"))
  })

  it.live("rejects with the stack of the call, and shows it where the failure is logged", function* () {
    const { client } = yield* clientOf(problem(404, "deal_not_found"))
    const placeOrder = async () => await client.deals.getDeal({ params: { dealId: "deal_1" } })
    const error = yield* rejection(placeOrder())
    const shown = inspect(error)
    assert.match(shown, /^deal_not_found: .*\n    at (async )?placeOrder .*PromiseClient\.test\.ts/)
    assert.include(shown, "status: 404")
    assert.notInclude(shown, "~effect/http")
  })

  it.live("answers plain objects of one form", function* () {
    const { client } = yield* clientOf(receipt)
    const answer = yield* Effect.promise(() => client.clients.createClient(request))
    assert.deepStrictEqual(Reflect.ownKeys(answer), ["body", "headers"])
    assert.notInclude(inspect(answer), "~effect")
  })

  it.live("sends no traceparent without a tracer", function* () {
    const { client, requests } = yield* clientOf(receipt)
    yield* Effect.promise(() => client.clients.createClient(request))
    assert.notProperty(requests[0]?.headers, "traceparent")
  })
})

describe("an AbortSignal of the Promise client", () => {
  it.live("that is aborted already prevents the call", function* () {
    const { client, connections } = yield* clientOf(receipt)
    const reason = new Error("no more")
    const error = yield* rejection(client.clients.createClient(request, { signal: AbortSignal.abort(reason) }))
    assert.strictEqual(error, reason)
    assert.strictEqual(connections(), 0)
  })

  it.live("ends the wait before a retry", function* () {
    const { client, connections } = yield* clientOf(problem(429, "rate_limit_exceeded", { "retry-after": "50" }))
    const controller = new AbortController()
    const failed = rejection(client.clients.listClients(undefined, { signal: controller.signal }))
    yield* Effect.forkChild(
      Effect.sleep("5 millis").pipe(
        Effect.repeat({ until: () => connections() > 0 }),
        Effect.andThen(Effect.sync(() => controller.abort()))
      )
    )
    const error = yield* failed
    assert.strictEqual(error instanceof DOMException && error.name, "AbortError")
    assert.strictEqual(connections(), 1)
  })

  it.live("ends a request in flight and its connection", function* () {
    const controller = new AbortController()
    const reason = new Error("no more")
    const began = yield* Deferred.make<void>()
    const ended = yield* Deferred.make<void>()
    const client = createClient({
      baseUrl: "https://api.example.com",
      token,
      fetch: (_, init) => {
        init?.signal?.addEventListener("abort", () => Deferred.doneUnsafe(ended, Effect.void))
        Deferred.doneUnsafe(began, Effect.void)
        return new Promise(() => {})
      }
    })
    const failed = rejection(client.clients.createClient(request, { signal: controller.signal }))
    yield* Deferred.await(began)
    controller.abort(reason)
    assert.strictEqual(yield* failed, reason)
    yield* Deferred.await(ended)
  })

  it.live("ends the iteration over pages", function* () {
    const { client, connections } = yield* clientOf(page(["a"], "next"), page(["b"], null))
    const controller = new AbortController()
    const reason = new Error("no more")
    const ids: Array<string> = []
    const walk = async () => {
      for await (const { id } of client.messaging.listSources.items(undefined, { signal: controller.signal })) {
        ids.push(id)
        controller.abort(reason)
      }
    }
    assert.strictEqual(yield* rejection(walk()), reason)
    assert.deepStrictEqual([ids, connections()], [["a"], 1])
  })
})

describe("the items of the Promise client", () => {
  it.live("are fetched page by page on demand", function* () {
    const { client, requests } = yield* clientOf(page(["a", "b"], "next"), page([], "more"), page(["c"], null))
    const ids: Array<string> = []
    yield* Effect.promise(async () => {
      for await (const { id } of client.messaging.listSources.items({ query: { limit: 2 } })) {
        assert.lengthOf(requests, id === "c" ? 3 : 1)
        ids.push(id)
      }
    })
    assert.deepStrictEqual(ids, ["a", "b", "c"])
    const cursors = requests.map(({ line }) => /cursor=(\w+)/.exec(line)?.[1])
    assert.deepStrictEqual(cursors, [undefined, "next", "more"])
    assert.isTrue(requests.every(({ line }) => line.includes("limit=2")))
  })

  it.live("are not fetched beyond what is consumed", function* () {
    const { client, connections } = yield* clientOf(page(["a", "b"], "next"))
    yield* Effect.promise(async () => {
      for await (const { id } of client.messaging.listSources.items()) if (id === "b") break
    })
    assert.strictEqual(connections(), 1)
    assert.isFunction(client.messaging.listSources.items()[Symbol.asyncIterator])
    assert.strictEqual(connections(), 1)
  })

  it.live("fail with the problem of a page", function* () {
    const { client } = yield* clientOf(page(["a"], "next"), problem(400, "cursor_invalid"))
    const ids: Array<string> = []
    const error = yield* rejection(
      (async () => {
        for await (const { id } of client.messaging.listSources.items()) ids.push(id)
      })()
    )
    assert.deepStrictEqual(ids, ["a"])
    assert.isTrue(isProblem(error, "cursor_invalid"))
  })
})
