/**
 * Requests of callers, and their retries after 429, 502, 503, 504 and lost connections. A request is sent as it is given, because the
 * service names its faults.
 *
 * A retry is safe, because it sends the same request with the same `idempotency-key`. A mutation without a key is sent once.
 */
import { Clock, Context, Duration, Effect, Function, type Layer, Option, Random, Result } from "effect"
import { Headers, HttpClientError, HttpClientRequest, type HttpClientResponse } from "effect/http"
import { type HttpApiEndpoint, HttpApiMiddleware } from "effect/http-api"
import { Access } from "../api/Access.ts"
import { ProblemHandling } from "../api/Requests.ts"

/** A request of a caller. A member that is undefined counts as absent, as in JSON. */
export interface CallerRequest {
  readonly params?: Readonly<Record<string, string | number>> | undefined
  readonly query?: Readonly<Record<string, string | number | undefined>> | undefined
  readonly headers?: Readonly<Record<string, string | undefined>> | undefined
  readonly payload?: unknown
}

type Completion = (operation: HttpClientRequest.HttpClientRequest) => HttpClientRequest.HttpClientRequest

/**
 * Completes what the current call sends. `HttpApiClient` encodes a request by the schemas of its endpoint, which fails for what the
 * service should refuse. So its methods are called without a request: they send the method and the path of an operation.
 */
export const Completion = Context.Reference<Completion>("developer-api/Retries/Completion", {
  defaultValue: () => Function.identity
})

export const completion =
  (service: string, { headers = {}, params = {}, payload, query = {} }: CallerRequest): Completion =>
  (operation) => {
    // Text that no URL can contain becomes text that names no record.
    const segment = (_: string, name: string) => encodeURIComponent(String(params[name] ?? "").toWellFormed())
    const request = operation.pipe(
      HttpClientRequest.setUrl(`${service.replace(/\/$/, "")}${operation.url.replaceAll(/:(\w+)/g, segment)}`),
      HttpClientRequest.appendUrlParams(query),
      HttpClientRequest.setHeaders(headers)
    )
    return payload === undefined ? request : HttpClientRequest.bodyJsonUnsafe(request, payload)
  }

/** How often, how soon and for how long a call is retried. */
export interface RetryOptions {
  /** Maximum number of retries. Default: 4, and after 429 as many as begin in time. */
  readonly times?: number | undefined
  /**
   * Maximum time between the start of the call and the start of its last attempt. If the next attempt would start later, the
   * call fails. Default: one minute.
   */
  readonly within?: Duration.Input | undefined
  /**
   * Maximum delay before the first retry. It doubles with each further retry, up to 4 s. Each delay is a random part of the maximum,
   * and is added to what `Retry-After` requests. So callers that were refused at once don't return at once. Default: 250 ms.
   */
  readonly delay?: Duration.Input | undefined
}

/** Whether requests are retried, and how long one attempt may take. */
export interface AttemptOptions {
  /** Default: retries with the defaults of `RetryOptions`. `false`: no retries. */
  readonly retry?: RetryOptions | false | undefined
  /**
   * Maximum time from the start of an attempt to the end of its answer. An attempt that exceeds it counts as a lost
   * connection. Default: 30 s.
   */
  readonly timeout?: Duration.Input | undefined
}

type Outcome = Result.Result<HttpClientResponse.HttpClientResponse, HttpClientError.HttpClientError>

const longestDelay = 4_000
const defaultTimes = 4

const rateLimited = 429
/** After an answer with one of these statuses, the same request may succeed. */
const passing = new Set([rateLimited, 502, 503, 504])

const lost = (request: HttpClientRequest.HttpClientRequest, description: string, cause?: unknown) =>
  new HttpClientError.HttpClientError({
    reason: new HttpClientError.TransportError({ request, description, cause })
  })

/** Returns the messages of the innermost causes, which the error of `fetch` does not repeat: `connect ECONNREFUSED 127.0.0.1:3000`. */
const reasonOf = (cause: unknown): string | undefined => {
  if (!(cause instanceof Error)) return undefined
  const inner = cause instanceof AggregateError ? cause.errors : [cause.cause]
  const reasons = new Set(inner.map(reasonOf).filter((reason) => reason !== undefined))
  return reasons.size > 0 ? [...reasons].join(", ") : cause.message || undefined
}

/** Puts the reason of a failed connection into the messages of the error and of its cause. */
const explain = (error: HttpClientError.HttpClientError): HttpClientError.HttpClientError => {
  const { reason } = error
  if (reason._tag !== "TransportError" || reason.description !== undefined) return error
  const text = reasonOf(reason.cause)
  return text === undefined ? error : lost(reason.request, text, new Error(text, { cause: reason.cause }))
}

/** Whether a repetition has no second effect: the request has a key, or changes nothing (GETs and the preview). */
const isRepeatable = (endpoint: HttpApiEndpoint.Top, { headers }: HttpClientRequest.HttpClientRequest) =>
  "idempotency-key" in headers || Context.getOrUndefined(endpoint.annotations, Access)?.policy === "read"

const mayHelp = Result.match({
  onSuccess: ({ status }: HttpClientResponse.HttpClientResponse) => passing.has(status),
  onFailure: ({ reason }: HttpClientError.HttpClientError) => reason._tag === "TransportError"
})

const isRateLimited = (outcome: Outcome) => Result.isSuccess(outcome) && outcome.success.status === rateLimited

/** Returns the delay that `Retry-After` requests, in milliseconds; 0 without this header. `now` is the time of day. */
const askedDelay = (outcome: Outcome, now: number): number =>
  Result.getSuccess(outcome).pipe(
    Option.flatMap(({ headers }) => Headers.get(headers, "retry-after")),
    Option.flatMap((value) => Result.getSuccess(Headers.parseRetryAfter(value))),
    Option.match({ onNone: () => 0, onSome: (value) => Duration.toMillis(Headers.retryAfterDelay(value, now)) })
  )

/** The monotonic time in milliseconds, which no change of the time of day alters. */
const monotonicMillis = Effect.map(Clock.monotonicTimeNanos, (nanos) => Number(nanos) / 1e6)

const repeatAttempt = Effect.fnUntraced(function* (
  attempt: Effect.Effect<HttpClientResponse.HttpClientResponse, HttpClientError.HttpClientError>,
  { delay = "250 millis", times, within = "1 minute" }: RetryOptions
) {
  const end = (yield* monotonicMillis) + Duration.toMillis(within)
  for (let retries = 0; ; retries++) {
    const outcome = yield* Effect.result(attempt)
    const most = times ?? (isRateLimited(outcome) ? Infinity : defaultTimes)
    if (retries >= most || !mayHelp(outcome)) return yield* Effect.fromResult(outcome)
    const backoff = Math.min(Duration.toMillis(delay) * 2 ** retries, longestDelay) * (yield* Random.next)
    const wait = askedDelay(outcome, yield* Clock.currentTimeMillis) + backoff
    if ((yield* monotonicMillis) + wait > end) return yield* Effect.fromResult(outcome)
    yield* Effect.sleep(Duration.millis(wait))
  }
})

/** The client's implementation of the middleware `ProblemHandling`: sends a request and retries it within the limits. */
export const retriesLayer = ({
  retry = {},
  timeout = "30 seconds"
}: AttemptOptions): Layer.Layer<HttpApiMiddleware.ForClient<ProblemHandling>> =>
  HttpApiMiddleware.layerClient(ProblemHandling, ({ endpoint, next, request: given }) =>
    Effect.flatMap(Completion, (complete) => {
      const request = complete(given)
      const attempt = next(request).pipe(
        Effect.mapError(explain),
        // The body is read here, so that a connection that breaks off within the body also counts as lost.
        Effect.tap((response) =>
          Effect.mapError(response.arrayBuffer, (cause) => lost(request, "the answer broke off", cause))
        ),
        Effect.timeoutOrElse({
          duration: timeout,
          orElse: () =>
            Effect.fail(lost(request, `no answer within ${Duration.format(Duration.fromInputUnsafe(timeout))}`))
        })
      )
      return retry === false || !isRepeatable(endpoint, request) ? attempt : repeatAttempt(attempt, retry)
    })
  )
