/** The API as an Effect service. */
import { Context, Effect, Layer, Option, Predicate, Redacted, Stream } from "effect"
import { WebCrypto } from "effect/crypto"
import { FetchHttpClient, type HttpClient } from "effect/http"
import * as HttpApi from "effect/http-api/HttpApi"
import * as HttpApiClient from "effect/http-api/HttpApiClient"
import type * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import { Api } from "../api/Api.ts"
import { attemptsLayer, type AttemptOptions } from "./Attempts.ts"
import { bearerLayer } from "./Bearer.ts"
import { type Answer, itemsOf, nextPage } from "./Calls.ts"
import type { Operations } from "./Operations.ts"
import { withUnexpected } from "./Problem.ts"
import { type Complete, hasMember, requestForm, type Written } from "./RequestForm.ts"

/** Where the API is, who calls, and how often a request is attempted. */
export interface DeveloperApiOptions extends AttemptOptions {
  /** Of the service, `https://api.example.com`; with a path where the service is behind one. */
  readonly baseUrl: string | URL
  /** An API key's token, `dk_…`. */
  readonly token: string | Redacted.Redacted
}

/** An operation whose types are known only to `Operations`. */
type Call<Request> = (request: Request) => Effect.Effect<Answer, unknown>

/**
 * The developer API. `api.<group>.<operation>(request)` for every operation, and `….items(request)` for the records of
 * all pages of a list, page by page as they are read.
 *
 * A mutation without an `idempotency-key` gets a new one. Lost connections, 429 and 503 are tried again with the same
 * key, as `retry` says. Who may have to repeat a call that has failed gives a key, and repeats it under that: a call
 * without one is another command each time. A request that has not the form that the contract asks for is not sent: it
 * fails with the `validation_failed` that it would be answered with, without `instance`.
 */
export class DeveloperApi extends Context.Service<DeveloperApi, Operations>()("developer-api/client/DeveloperApi") {
  /** On the platform's `fetch`, or on what `FetchHttpClient.Fetch` is. */
  static readonly layer = (options: DeveloperApiOptions): Layer.Layer<DeveloperApi> =>
    DeveloperApi.layerHttpClient(options).pipe(
      Layer.provide(FetchHttpClient.layer),
      // A redirect would carry the token, or lose the method: it is an answer like any that nobody expects.
      Layer.provide(Layer.succeed(FetchHttpClient.RequestInit, { redirect: "manual" }))
    )

  /** On an HTTP client of your own. It should not retry. */
  static readonly layerHttpClient = (
    options: DeveloperApiOptions
  ): Layer.Layer<DeveloperApi, never, HttpClient.HttpClient> =>
    Layer.effect(DeveloperApi, Effect.andThen(checked(options), operations(options.baseUrl))).pipe(
      Layer.provide([bearerLayer(options.token), attemptsLayer(options)])
    )
}

/** Settings may be missing. A program learns so where it makes the client, not from its first request. */
const checked = ({ baseUrl, token }: DeveloperApiOptions) => {
  const faults = [
    ...(isService(baseUrl) ? [] : ["baseUrl has to be a URL such as https://api.example.com"]),
    ...(isToken(token) ? [] : ["token has to be an API key's, dk_…, without white space"])
  ]
  return faults.length === 0 ? Effect.void : Effect.die(new TypeError(faults.join("; ")))
}

const isService = (baseUrl: string | URL) => {
  if (!URL.canParse(String(baseUrl))) return false
  const { hash, protocol, search, username } = new URL(baseUrl)
  return /^https?:$/.test(protocol) && [hash, search, username].every((part) => part === "")
}

const isToken = (token: string | Redacted.Redacted) => {
  const text: unknown = Redacted.isRedacted(token) ? Redacted.value(token) : token
  return typeof text === "string" && /^[\x21-\x7E]+$/.test(text)
}

const operations = Effect.fnUntraced(function* (baseUrl: string | URL) {
  const client = yield* HttpApiClient.make(Api, { baseUrl, transformResponse: withUnexpected })
  // Walking the endpoints, the compiler knows no longer which method is whose. test/client/Types.test.ts does.
  const calls = client as unknown as Readonly<Record<string, Readonly<Record<string, Call<Complete>>>>>
  const methods: Record<string, Record<string, unknown>> = {}
  HttpApi.reflect(Api, {
    onGroup: ({ group }) => {
      methods[group.identifier] = {}
    },
    onEndpoint: ({ endpoint, group }) => {
      const call = calls[group.identifier]?.[endpoint.identifier]
      if (call !== undefined)
        Object.assign(methods[group.identifier] ?? {}, { [endpoint.identifier]: method(endpoint, call) })
    }
  })
  return methods as Operations
})

const method = (endpoint: HttpApiEndpoint.Top, call: Call<Complete>) => {
  const form = requestForm(endpoint)
  const isKeyed = hasMember(endpoint.headers, "idempotency-key")
  const send = Effect.fnUntraced(function* (request: Written = {}) {
    return yield* call(yield* Effect.fromResult(form(isKeyed ? yield* withKey(request) : request)))
  })
  return hasMember(endpoint.query, "cursor") ? Object.assign(send, { items: pages(send) }) : send
}

/** A UUID is a good key of every operation. It stands in the request, so every attempt has the same one. */
const withKey = Effect.fnUntraced(function* (request: Written) {
  const headers = request.headers ?? {}
  if (Predicate.hasProperty(headers, "idempotency-key") && headers["idempotency-key"] !== undefined) return request
  const key = (yield* WebCrypto.WebCrypto).randomUUID()
  return { ...request, headers: { ...headers, "idempotency-key": key } }
})

const pages =
  (send: Call<Written>) =>
  (request: Written = {}) =>
    Stream.paginate(request, (at) =>
      Effect.map(send(at), (answer) => [itemsOf(answer), Option.fromUndefinedOr(nextPage(at, answer))] as const)
    )
