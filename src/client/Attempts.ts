/**
 * Sends a request again while that may help and can't hurt: 429, 503, and connections that were lost.
 *
 * Safe by construction: what is sent again is the same request, with the same `idempotency-key`, so the second time it has
 * no second effect; a mutation without a key would be sent once.
 */
import { Clock, Context, Duration, Effect, type Layer, Option, Random, Result } from "effect"
import { Headers, HttpClientError, type HttpClientRequest, type HttpClientResponse } from "effect/http"
import type * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiMiddleware from "effect/http-api/HttpApiMiddleware"
import { Access } from "../api/Access.ts"
import { Operation } from "../api/Requests.ts"

/** When a request is sent again. */
export interface RetryOptions {
  /** How often, after the first time. 4 unless told. */
  readonly times?: number | undefined
  /** No attempt is started later than this after the call; a longer wait is not begun. A minute unless told. */
  readonly within?: Duration.Input | undefined
  /** Before the first retry; doubled for each further one, up to 10 s, and cut by up to half at random. 250 ms unless told. */
  readonly delay?: Duration.Input | undefined
}

/** How requests are attempted. */
export interface AttemptOptions {
  /** `false`: every request is sent once. */
  readonly retry?: RetryOptions | false | undefined
  /** How long an attempt may take, to the end of the answer; it counts as a lost connection then. 30 s unless told. */
  readonly timeout?: Duration.Input | undefined
}

type Outcome = Result.Result<HttpClientResponse.HttpClientResponse, HttpClientError.HttpClientError>

const longestDelay = 10_000

const lost = (request: HttpClientRequest.HttpClientRequest, description: string, cause?: unknown) =>
  new HttpClientError.HttpClientError({
    reason: new HttpClientError.TransportError({ request, description, cause })
  })

/** Whether a repetition has no effect of its own: the key sees to it, or there is none at all (GETs, the preview). */
const isRepeatable = (endpoint: HttpApiEndpoint.Top, { headers }: HttpClientRequest.HttpClientRequest) =>
  "idempotency-key" in headers || Context.getOrUndefined(endpoint.annotations, Access)?.policy === "read"

const mayHelp = Result.match({
  onSuccess: ({ status }: HttpClientResponse.HttpClientResponse) => status === 429 || status === 503,
  onFailure: ({ reason }: HttpClientError.HttpClientError) => reason._tag === "TransportError"
})

/** What the server asks to wait, in milliseconds (RFC 9110, section 10.2.3). */
const askedDelay = (outcome: Outcome, now: number): number =>
  Result.getSuccess(outcome).pipe(
    Option.flatMap(({ headers }) => Headers.get(headers, "retry-after")),
    Option.flatMap((value) => Result.getSuccess(Headers.parseRetryAfter(value))),
    Option.match({ onNone: () => 0, onSome: (value) => Duration.toMillis(Headers.retryAfterDelay(value, now)) })
  )

const repeated = Effect.fnUntraced(function* (
  attempt: Effect.Effect<HttpClientResponse.HttpClientResponse, HttpClientError.HttpClientError>,
  { delay = "250 millis", times = 4, within = "1 minute" }: RetryOptions
) {
  const end = (yield* Clock.currentTimeMillis) + Duration.toMillis(within)
  for (let retries = 0; ; retries++) {
    const outcome = yield* Effect.result(attempt)
    if (retries >= times || !mayHelp(outcome)) return yield* Effect.fromResult(outcome)
    const now = yield* Clock.currentTimeMillis
    const backoff =
      Math.min(Duration.toMillis(delay) * 2 ** retries, longestDelay) * (yield* Random.nextBetween(0.5, 1))
    const wait = Math.max(backoff, askedDelay(outcome, now))
    if (now + wait > end) return yield* Effect.fromResult(outcome)
    yield* Effect.sleep(Duration.millis(wait))
  }
})

/** Client half of `Operation`: sends a request, and repeats it as the options allow. */
export const attemptsLayer = ({
  retry = {},
  timeout = "30 seconds"
}: AttemptOptions): Layer.Layer<HttpApiMiddleware.ForClient<Operation>> =>
  HttpApiMiddleware.layerClient(Operation, ({ endpoint, next, request }) => {
    const attempt = next(request).pipe(
      // The body is read here, so that a connection that breaks off within it is one that was lost, too.
      Effect.tap((response) =>
        Effect.mapError(response.arrayBuffer, (cause) => lost(request, "the answer broke off", cause))
      ),
      Effect.timeoutOrElse({
        duration: timeout,
        orElse: () =>
          Effect.fail(lost(request, `no answer within ${Duration.format(Duration.fromInputUnsafe(timeout))}`))
      })
    )
    return retry === false || !isRepeatable(endpoint, request) ? attempt : repeated(attempt, retry)
  })
