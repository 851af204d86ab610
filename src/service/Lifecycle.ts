/**
 * What all requests of a port have in common: ids, refusal while the process drains, unknown routes, rendering of problems,
 * headers collected for the answer, metrics and the access log.
 */
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import { Cause, Clock, Context, Effect, References, Tracer } from "effect"
import { HttpRouter, HttpServerError, HttpServerRequest, HttpServerResponse } from "effect/http"
import { MethodNotAllowed, MisdirectedRequest, RouteNotFound, ValidationFailed } from "../api/Problems.ts"
import { CurrentRequest, type CurrentRequestShape, newRequestState } from "../platform/CurrentRequest.ts"
import { monotonicMillis } from "../platform/MonotonicTime.ts"
import { RefusedRequests } from "../http/auth/RefusedRequests.ts"
import { makeAdmits } from "../telemetry/Logging.ts"
import { makeRecord } from "./Metrics.ts"
import { Drain, Unread } from "../http/edge/InFlight.ts"
import { outcomeUnknown, type Problem, problemOf, problemResponse } from "../http/path/ProblemResponse.ts"
import { isSend, type Methods } from "./Routes.ts"

type Request = HttpServerRequest.HttpServerRequest
type Response = HttpServerResponse.HttpServerResponse

/**
 * Wraps every route of a port, and requests for unknown routes. `methods` maps a path to the methods of its routes. `serves`
 * tells whether a `Host` header names this service; without `serves`, every `Host` does.
 */
export const layer = (methods: Methods, serves?: (host: string) => boolean) =>
  HttpRouter.middleware(
    Effect.gen(function* () {
      const drain = yield* Drain
      const record = yield* makeRecord
      const refusals = yield* RefusedRequests
      const unread = yield* Unread
      const level = yield* References.MinimumLogLevel
      const admits = makeAdmits()
      const logsSuccess = level === "Debug" || level === "Trace" || level === "All"

      const finish = (request: Request, current: CurrentRequestShape, millis: number, response: Response) => {
        const replayed = response.headers["idempotent-replayed"] !== undefined
        const measured = current.call ?? { method: request.method, status: response.status, replayed }
        record?.({
          ...measured,
          protocol: current.call === undefined ? "http" : "mcp",
          route: current.route || operationalRoute(request, methods),
          seconds: millis / 1000
        })
        const { status } = measured
        if (current.namedKeyId !== undefined && (status === 401 || status === 403 || status === 429))
          refusals.count(current.namedKeyId, status)
        if (status < 400 && !logsSuccess) return Effect.succeed(response)
        const left = logsSuccess ? {} : admits(`${status} ${current.problem}`, performance.now())
        if (left === undefined) return Effect.succeed(response)
        return Effect.as(report(request, current, status, millis, left), response)
      }

      return (routes) =>
        Effect.withFiber((fiber) => {
          const clock = fiber.getRef(Clock.Clock)
          const request = Context.getUnsafe(fiber.context, HttpServerRequest.HttpServerRequest)
          const current = newRequestState(
            NodeHttpServerRequest.toIncomingMessage(request).headers["x-request-id"],
            request.url
          )
          const started = monotonicMillis(clock)
          fiber.setContext(contextOf(fiber.context, current))

          const path = pathOf(request.url)
          const draining = drain.draining() && path !== liveness
          if (draining && isSend(request.method, path)) current.unavailable = outcomeUnknown
          const refused = draining ? undefined : refusalOf(request, serves)
          const answered = draining
            ? Effect.succeed(goingAway(current))
            : refused !== undefined
              ? Effect.succeed(problemResponse(refused, current))
              : Effect.catchCause(routes, (cause) =>
                  isClientAbort(cause)
                    ? // Nobody gets the answer; the request is only recorded.
                      finish(request, current, monotonicMillis(clock) - started, closedByCaller).pipe(
                        Effect.uninterruptible,
                        Effect.andThen(Effect.failCause(cause))
                      )
                    : recover(cause, request, current, methods)
                )
          return Effect.flatMap(answered, (response) => {
            const span = Context.getOrUndefined(fiber.context, Tracer.ParentSpan)
            if (span?._tag === "Span")
              for (const [name, value] of Object.entries(idsOf(current))) span.attribute(name, value)
            const bytes = response.body._tag === "Uint8Array" ? response.body.contentLength : 0
            unread.add(NodeHttpServerRequest.toServerResponse(request), bytes, current.caller?.projectId ?? "")
            return finish(request, current, monotonicMillis(clock) - started, withHeaders(response, current))
          })
        })
    }),
    { global: true }
  )

/** The collected headers include `x-request-id`, so an answer with this header already has all of them. */
const withHeaders = (response: Response, { headers }: CurrentRequestShape): Response =>
  response.headers["x-request-id"] === undefined ? HttpServerResponse.setHeaders(response, headers) : response

/**
 * The log and the metrics show status 499 for a request whose caller closed the connection. No answer is sent with this
 * status.
 */
const closedByCaller = HttpServerResponse.empty({ status: 499 })

/** This probe succeeds while the process drains, so that no supervisor restarts the process. */
const liveness = "/healthz"

const contextOf = (context: Context.Context<never>, current: CurrentRequestShape) =>
  Context.add(Context.add(context, CurrentRequest, current), References.CurrentLogAnnotations, {
    request_id: current.id
  })

/** The router ends a path at the same characters. */
const pathOf = (target: string): string => {
  const end = target.search(/[?;#]/)
  return end === -1 ? target : target.slice(0, end)
}

/** Turns a failure of the routes into an answer. The failure is a problem, an unknown route, an interruption or a defect. */
const recover = <E>(
  cause: Cause.Cause<E>,
  request: Request,
  current: CurrentRequestShape,
  methods: Methods
): Effect.Effect<Response, E> => {
  const error: unknown = Cause.squash(cause)
  if (error instanceof HttpServerError.HttpServerError && error.reason._tag === "RouteNotFound") {
    return Effect.succeed(unrouted(methods(pathOf(request.url)), current))
  }
  // The process is ending, and the caller still waits.
  if (Cause.hasInterruptsOnly(cause)) return Effect.succeed(goingAway(current))
  return Effect.map(problemOf(cause, current), (problem) => problemResponse(problem, current))
}

const unrouted = (allowed: ReadonlyArray<string>, current: CurrentRequestShape) => {
  if (allowed.length === 0) return problemResponse(new RouteNotFound(), current)
  const allow = allowed.join(", ")
  const problem = new MethodNotAllowed({ detail: MethodNotAllowed.detail(allow) })
  return HttpServerResponse.setHeader(problemResponse(problem, current), "allow", allow)
}

const isClientAbort = (cause: Cause.Cause<unknown>) =>
  cause.reasons.some((reason) => reason.annotations.has(HttpServerError.ClientAbort.key))

/**
 * Finds percent-encoding that is malformed or not UTF-8. The router would find no route for such a path, and each such parameter
 * of a query would cost it an exception.
 */
const targetFault = (target: string): readonly [location: string, fault: string] | undefined =>
  isEncoded(target) ? undefined : [isEncoded(pathOf(target)) ? "query" : "path", "must be percent-encoded UTF-8"]

const isEncoded = (text: string): boolean => {
  if (!text.includes("%")) return true
  try {
    decodeURIComponent(text)
    return true
  } catch {
    return false
  }
}

/** Headers that a request may have only once. If one is repeated, Node reads its first value, and a proxy may read another. */
const single = ["host", "authorization"]
const lengths = new Set(single.map(({ length }) => length))

/**
 * Returns the first fault of the headers on which routing and authentication depend. HTTP/1.1 requires a `Host` (RFC 9112,
 * section 3.2).
 */
const headerFault = (request: Request): readonly [location: string, fault: string] | undefined => {
  const { headers, httpVersion, rawHeaders } = NodeHttpServerRequest.toIncomingMessage(request)
  let seen = 0
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? ""
    const at = lengths.has(name.length) ? single.indexOf(name.toLowerCase()) : -1
    if (at < 0) continue
    if ((seen & (1 << at)) !== 0) return [`header/${single[at]}`, "must not be repeated"]
    seen |= 1 << at
  }
  return headers.host === undefined && httpVersion !== "1.0" ? ["header/host", "is required"] : undefined
}

const refusalOf = (request: Request, serves: ((host: string) => boolean) | undefined): Problem | undefined => {
  const fault = targetFault(request.url) ?? headerFault(request)
  if (fault !== undefined) {
    const [location, message] = fault
    return new ValidationFailed({ errors: { [location]: [message] } })
  }
  const host = serves === undefined ? undefined : request.headers["host"]
  return host === undefined || serves?.(host) !== false ? undefined : new MisdirectedRequest()
}

const goingAway = (current: CurrentRequestShape) =>
  HttpServerResponse.setHeader(
    problemResponse(current.unavailable("This process is shutting down. Send it again."), current),
    "connection",
    "close"
  )

/**
 * Returns the path of a route outside the API, such as `/healthz`. Returns an empty text for a path of the API or an unknown
 * path.
 */
const operationalRoute = ({ url }: Request, methods: Methods) => {
  const path = pathOf(url)
  return path.startsWith("/api/") || methods(path).length === 0 ? "" : path
}

/**
 * The ids of a request in its span and in its line of the log. A verified key gives the ids of its project and its own. Without one,
 * `named_key_id` is the id that the token names.
 */
const idsOf = ({ caller, id, namedKeyId }: CurrentRequestShape) => ({
  request_id: id,
  ...(caller === undefined
    ? namedKeyId && { named_key_id: namedKeyId }
    : { project_id: caller.projectId, key_id: caller.keyId })
})

/** Maximum number of characters of a path in the access log. */
const maxShown = 256

const shown = (target: string) => {
  const path = pathOf(target)
  return path.length > maxShown ? `${path.slice(0, maxShown)}…` : path
}

/** Marks the span of a failed request, and writes the access log. */
const report = (request: Request, current: CurrentRequestShape, status: number, millis: number, left: object) => {
  const { call, outage, problem, route } = current
  const name = call === undefined ? `${request.method} ${shown(request.url)}` : `MCP ${call.method} ${route}`
  const line = `${name} ${status} ${problem === undefined ? "" : `${problem} `}${Math.round(millis)} ms`
  const reason = outage === undefined ? [] : ["The database can't be used", outage]
  const log =
    status < 400 ? Effect.logDebug(line) : status < 500 ? Effect.logInfo(line) : Effect.logWarning(line, ...reason)
  const { remoteAddress } = NodeHttpServerRequest.toIncomingMessage(request).socket
  const logged = Effect.annotateLogs(log, {
    ...idsOf(current),
    address: remoteAddress,
    ...left
  })
  return problem === undefined ? logged : Effect.andThen(Effect.annotateCurrentSpan("error.type", problem), logged)
}
