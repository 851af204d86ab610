/** The API as an Effect service with idempotency keys, retries and paged lists. */
import { Context, Effect, Layer, Option, Predicate, Redacted, type Schema, Stream } from "effect"
import { WebCrypto } from "effect/crypto"
import { FetchHttpClient, Headers, type HttpClient, HttpClientRequest } from "effect/http"
import { HttpApiClient, type HttpApiEndpoint, HttpApiMiddleware, HttpApiSchema } from "effect/http-api"
import { Api, endpoints } from "../api/Api.ts"
import { Authentication } from "../api/Requests.ts"
import { membersOf } from "../api/schema/Faults.ts"
import { type AttemptOptions, retriesLayer, type CallerRequest, Completion, completion } from "./Retries.ts"
import type { Operations } from "./Operations.ts"
import { withUnexpected } from "./Problem.ts"

/** Options of `DeveloperApi`. If `baseUrl` or `token` is invalid, the layer dies with a `TypeError`. */
export interface DeveloperApiOptions extends AttemptOptions {
  /**
   * The URL of the service, such as `https://api.example.com`, with its path prefix if it has one. The path of the API,
   * `/api/v1/developer`, may follow.
   */
  readonly baseUrl: string | URL
  /** The token of an API key, `dk_…`. */
  readonly token: string | Redacted.Redacted
}

/** An answer with the members that pagination reads. */
export interface Answer {
  readonly body: { readonly items?: ReadonlyArray<unknown>; readonly nextCursor?: string | null }
  readonly headers: object
}

/** An operation without its specific types. `Operations` has these types. */
export type Call<Request, Value = Answer> = (request: Request) => Effect.Effect<Value, unknown>

/** Narrows a member of a client. In a loop over the operations, the compiler loses the types of the operations. */
export const isCall = <Request, Value = Answer>(value: unknown): value is Call<Request, Value> =>
  typeof value === "function"

/**
 * Adds `Authorization: Bearer <token>` to each request of a client of `Api`. `DeveloperApi` includes this layer; use it
 * for clients that you make with `HttpApiClient`.
 */
export const bearerLayer = (
  token: string | Redacted.Redacted
): Layer.Layer<HttpApiMiddleware.ForClient<Authentication>> =>
  HttpApiMiddleware.layerClient(Authentication, ({ next, request }) =>
    next(HttpClientRequest.bearerToken(request, token))
  )

/**
 * The developer API: `api.<group>.<operation>(request)` for every operation, and `….items(request)` for the records of all pages
 * of a list, read page by page.
 *
 * A mutation without an `idempotency-key` gets a new one. Lost connections, 429, 502, 503 and 504 are retried with the same
 * key, within the limits of `retry`. If the program itself may repeat a command, it has to pass a key, because each call without a
 * key is another command. The service checks each request: `validation_failed` names all faults with their locations.
 */
export class DeveloperApi extends Context.Service<DeveloperApi, Operations>()("developer-api/DeveloperApi") {
  /** Uses `FetchHttpClient.Fetch`, by default the platform's `fetch`. */
  static readonly layer = (options: DeveloperApiOptions): Layer.Layer<DeveloperApi> =>
    DeveloperApi.layerHttpClient(options).pipe(
      Layer.provide(FetchHttpClient.layer),
      // A redirect could send the token to another host or change the method, so it counts as an unexpected answer.
      Layer.provide(Layer.succeed(FetchHttpClient.RequestInit, { redirect: "manual" }))
    )

  /** Uses the HTTP client that the caller provides. This client should not retry requests, because the layer already does. */
  static readonly layerHttpClient = (
    options: DeveloperApiOptions
  ): Layer.Layer<DeveloperApi, never, HttpClient.HttpClient> =>
    Layer.effect(
      DeveloperApi,
      Effect.andThen(
        checkOptions(options),
        Effect.suspend(() => operations(serviceUrl(options.baseUrl)))
      )
    ).pipe(Layer.provide([bearerLayer(options.token), retriesLayer(options)]))
}

/** Reports missing or malformed settings when the client is made, not at its first request. */
const checkOptions = ({ baseUrl, token }: DeveloperApiOptions) => {
  const faults = [
    ...(isService(baseUrl) ? [] : ["baseUrl has to be a URL such as https://api.example.com"]),
    ...(isToken(token) ? [] : ["token has to be an API key's, dk_…, without white space"])
  ]
  return faults.length === 0 ? Effect.void : Effect.die(new TypeError(faults.join("; ")))
}

const isService = (baseUrl: string | URL) => {
  if (!URL.canParse(String(baseUrl))) return false
  const { hash, password, protocol, search, username } = new URL(baseUrl)
  return /^https?:$/.test(protocol) && [hash, password, search, username].every((part) => part === "")
}

/** Returns the URL of the service without the path of the API, which is part of each endpoint. */
const serviceUrl = (baseUrl: string | URL) => String(baseUrl).replace(/\/api\/v1\/developer\/?$/, "")

const isToken = (token: string | Redacted.Redacted) => {
  const text: unknown = Redacted.isRedacted(token) ? Redacted.value(token) : token
  return typeof text === "string" && /^[\x21-\x7E]+$/.test(text)
}

const operations = Effect.fnUntraced(function* (service: string) {
  const client: object = yield* HttpApiClient.make(Api, { transformResponse: withUnexpected })
  const groups: Record<string, Record<string, unknown>> = {}
  for (const { endpoint, group } of endpoints()) {
    const calls = Predicate.hasProperty(client, group.identifier) ? client[group.identifier] : undefined
    const call = Predicate.hasProperty(calls, endpoint.identifier) ? calls[endpoint.identifier] : undefined
    if (!isCall<undefined, Decoded>(call)) continue
    groups[group.identifier] = { ...groups[group.identifier], [endpoint.identifier]: method(endpoint, call, service) }
  }
  return groups as Operations
})

const method = ({ headers, query }: HttpApiEndpoint.Top, call: Call<undefined, Decoded>, service: string) => {
  const isKeyed = hasMember(headers, "idempotency-key")
  const send = Effect.fnUntraced(function* (request: CallerRequest = {}) {
    const complete = completion(service, isKeyed ? yield* withKey(request) : request)
    return plainAnswer(yield* Effect.provideService(call(undefined), Completion, complete))
  })
  return hasMember(query, "cursor") ? Object.assign(send, { items: pages(send) }) : send
}

/** An answer as the framework decodes it: its body, or its body with its headers. */
type Decoded = Answer["body"] | (Answer & { readonly [HttpApiSchema.WithHeadersValueTypeId]: unknown })

/** Returns a plain object of one form for all operations, without the mark of the framework on answers with headers. */
const plainAnswer = (answer: Decoded): Answer =>
  HttpApiSchema.WithHeadersValueTypeId in answer
    ? { body: answer.body, headers: answer.headers }
    : { body: answer, headers: {} }

export const hasMember = (schema: Schema.Top | undefined, member: string): boolean =>
  schema !== undefined && membersOf(schema.ast).includes(member)

/** Adds a UUID as the idempotency key if the request has none, before the first attempt, so that every attempt has the same. */
const withKey = Effect.fnUntraced(function* (request: CallerRequest) {
  const headers = Headers.fromInput(request.headers)
  if (headers["idempotency-key"] !== undefined) return request
  const key = (yield* WebCrypto.WebCrypto).randomUUID()
  return { ...request, headers: { ...headers, "idempotency-key": key } }
})

const pages =
  (send: Call<CallerRequest>) =>
  (request: CallerRequest = {}) =>
    Stream.paginate(request, (at) =>
      Effect.map(send(at), (answer) => [itemsOf(answer), Option.fromUndefinedOr(nextPage(at, answer))] as const)
    )

export const itemsOf = ({ body }: Answer): ReadonlyArray<unknown> => body.items ?? []

export const nextPage = (request: CallerRequest, { body }: Answer): CallerRequest | undefined =>
  body.nextCursor == null ? undefined : { ...request, query: { ...request.query, cursor: body.nextCursor } }
