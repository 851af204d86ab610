/** Prism's proxy in front of the live service: it compares each request and each answer with the reference. */
import { assert, layer } from "../support/Vitest.ts"
import { createLogger } from "@stoplight/prism-core"
import { getHttpOperationsFromSpec } from "@stoplight/prism-http"
import { createServer } from "@stoplight/prism-http-server"
import { Context, Effect, Layer } from "effect"
import { missingOf } from "../contract/Sample.ts"
import { referring, requestOf } from "../contract/Requests.ts"
import { samples, World } from "../contract/Samples.ts"
import { codeOf } from "../support/ContractAnswers.ts"
import { send } from "../support/ContractHttp.ts"
import { TestServer } from "../support/TestServer.ts"

/** Starts the proxy with a document, on a free port. With `errors` it answers 500 in place of an answer with a violation. */
const startProxy = (document: object, upstream: string) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const server = createServer(await getHttpOperationsFromSpec(document), {
        components: { logger: createLogger("proxy", { level: "silent" }) },
        config: {
          isProxy: true,
          upstream: new URL(upstream),
          upstreamProxy: undefined,
          mock: { dynamic: false },
          checkSecurity: true,
          validateRequest: true,
          validateResponse: true,
          errors: true
        },
        cors: false
      })
      return { server, url: await server.listen(0, "127.0.0.1") }
    }),
    ({ server }) => Effect.promise(() => server.close())
  )

/** The served document; `alter` changes its text. */
const documentOf = (url: string, alter: (text: string) => string = (text) => text) =>
  Effect.map(send(url, { path: "/openapi.json" }), ({ text }): object => JSON.parse(alter(text)))

class Proxy extends Context.Service<Proxy, { readonly url: string }>()("developer-api/test/Proxy") {
  static readonly layer = Layer.effect(
    Proxy,
    Effect.gen(function* () {
      const { url } = yield* TestServer
      return yield* startProxy(yield* documentOf(url), url)
    })
  )
}

layer(Proxy.layer.pipe(Layer.provideMerge(World.layer)), { excludeTestServices: true })("Prism's proxy", (it) => {
  for (const [name, sample] of Object.entries(samples)) {
    it.effect(`sees no violation in a success and in problems of ${name}`, function* () {
      const { url } = yield* Proxy
      const { issue } = yield* TestServer
      const { own, restore } = yield* World
      yield* restore(sample, own.projectId)
      const scopeless = yield* issue(own.projectId, { scopes: [] })
      const references = sample.references ?? []
      for (const [request, status, code] of [
        [requestOf(sample, own.token), sample.status, undefined],
        [requestOf(sample, "dk_unknown"), 401, "credential_invalid"],
        [requestOf(sample, scopeless), 403, "scope_missing"],
        ...references
          .slice(0, 1)
          .map(
            (reference) =>
              [
                requestOf(sample, own.token, referring(sample, [reference], missingOf)),
                reference.status ?? 404,
                reference.code
              ] as const
          )
      ] as const) {
        const answer = yield* send(url, request)
        assert.notProperty(answer.headers, "sl-violations", answer.text)
        assert.strictEqual(answer.status, status, answer.text)
        if (code !== undefined) assert.strictEqual(codeOf(answer), code)
      }
    })
  }

  it.effect("sees a violation in an answer that differs from the document", function* () {
    const { url: upstream } = yield* TestServer
    const { own } = yield* World
    const altered = yield* documentOf(upstream, (text) => text.replaceAll('"nextCursor"', '"next"'))
    const { url } = yield* startProxy(altered, upstream)
    const answer = yield* send(url, { path: "/api/v1/developer/crm/clients", token: own.token })
    assert.strictEqual(answer.status, 500)
    assert.include(answer.headers["sl-violations"], "response")
  })
})
