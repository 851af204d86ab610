/** Every request from its arrival to its answer: its id, its route, its problems, and how long it took. */
import { Cause, Clock, Effect, Layer, References } from "effect"
import { HttpEffect, HttpRouter, HttpServerError, HttpServerRequest, HttpServerResponse } from "effect/http"
import { Internal, MethodNotAllowed, RouteNotFound, ServiceUnavailable } from "../api/Problems.ts"
import { Answers } from "../api/Requests.ts"
import { arriving, CurrentRequest } from "../platform/CurrentRequest.ts"
import { RequestMetrics } from "../platform/RequestMetrics.ts"
import { nameServerSpan } from "../platform/Telemetry.ts"
import { Drain } from "./Drain.ts"
import { isProblem, type Problem, problemResponse } from "./ProblemResponse.ts"
import { hasEmptySegment, routable, splitTarget } from "./RequestTarget.ts"
import type { Methods } from "./Routes.ts"

/** Renders the problems of an operation, and tells which one it was. */
export const operations = Layer.succeed(
  Answers,
  Answers.of((operation, { endpoint }) =>
    Effect.withFiber((fiber) => {
      const current = fiber.getRef(CurrentRequest)
      current.route = endpoint.path
      nameServerSpan(fiber.context, `${endpoint.method} ${endpoint.path}`)
      return Effect.catch(operation, (error) => {
        const problem: unknown = error
        return isProblem(problem) ? Effect.succeed(problemResponse(problem, current.id)) : Effect.fail(error)
      })
    })
  )
)

/** What surrounds every route of a port, the unknown ones included. */
export const everything = (methods: Methods) =>
  HttpRouter.middleware(
    Effect.gen(function* () {
      const drain = yield* Drain
      const metrics = yield* RequestMetrics
      const level = yield* References.MinimumLogLevel
      const logsSuccess = level === "Debug" || level === "Trace" || level === "All"

      return Effect.fnUntraced(function* (routes) {
        const request = yield* HttpServerRequest.HttpServerRequest
        const current = arriving(request.headers["x-request-id"], request.url)
        yield* HttpEffect.appendPreResponseHandler((_, response) =>
          Effect.succeed(HttpServerResponse.setHeader(response, "x-request-id", current.id))
        )
        const started = yield* Clock.currentTimeMillis
        const response = drain.draining()
          ? goingAway(current.id)
          : hasEmptySegment(splitTarget(request.url)[0])
            ? problemResponse(notFound(), current.id)
            : yield* Effect.provideService(answer(routes, request, current.id, methods), CurrentRequest, current)
        const millis = (yield* Clock.currentTimeMillis) - started

        const { status } = response
        metrics.record?.({
          route: current.route || operationalRoute(request, methods),
          method: request.method,
          status,
          seconds: millis / 1000
        })
        if (status >= 400 || logsSuccess) {
          yield* Effect.provideService(log(request, status, millis), CurrentRequest, current)
        }
        return response
      })
    }),
    { global: true }
  )

/** A route outside of the API has no parameters: its path is its template. Empty where nothing is. */
const operationalRoute = ({ url }: HttpServerRequest.HttpServerRequest, methods: Methods) => {
  const [path] = splitTarget(url)
  return path.startsWith("/api/") || methods(path).length === 0 ? "" : path
}

const answer = <E>(
  routes: Effect.Effect<HttpServerResponse.HttpServerResponse, E, never>,
  request: HttpServerRequest.HttpServerRequest,
  requestId: string,
  methods: Methods
) => {
  const url = routable(request.url)
  const routed =
    url === request.url
      ? routes
      : Effect.provideService(routes, HttpServerRequest.HttpServerRequest, request.modify({ url }))
  return Effect.catchCause(routed, (cause) => recover(cause, request, requestId, methods))
}

/** What no operation answered: an unknown route, an interruption, or a bug. */
const recover = <E>(
  cause: Cause.Cause<E>,
  request: HttpServerRequest.HttpServerRequest,
  requestId: string,
  methods: Methods
): Effect.Effect<HttpServerResponse.HttpServerResponse, E> => {
  const error = Cause.squash(cause)
  if (error instanceof HttpServerError.HttpServerError && error.reason._tag === "RouteNotFound") {
    const allow = methods(splitTarget(request.url)[0]).join(", ")
    if (allow === "") return Effect.succeed(problemResponse(notFound(), requestId))
    const problem = new MethodNotAllowed({ detail: `The path knows ${allow}.` })
    return Effect.succeed(HttpServerResponse.setHeader(problemResponse(problem, requestId), "allow", allow))
  }
  if (Cause.hasInterruptsOnly(cause)) {
    // A caller who hung up reads no answer; one who waits while the process ends shall know.
    return isClientAbort(cause) ? Effect.failCause(cause) : Effect.succeed(goingAway(requestId))
  }
  return Effect.as(
    Effect.logError("A request failed", cause),
    problemResponse(new Internal({ detail: "The failure was logged under this request's id." }), requestId)
  )
}

const isClientAbort = (cause: Cause.Cause<unknown>) =>
  cause.reasons.some((reason) => reason.annotations.has(HttpServerError.ClientAbort.key))

const notFound = (): Problem => new RouteNotFound({ detail: "Paths are case-sensitive and take no trailing slash." })

const goingAway = (requestId: string) =>
  HttpServerResponse.setHeader(
    problemResponse(new ServiceUnavailable({ detail: "This process is shutting down. Send it again." }), requestId),
    "connection",
    "close"
  )

const log = (request: HttpServerRequest.HttpServerRequest, status: number, millis: number) => {
  const line = `${request.method} ${splitTarget(request.url)[0]} ${status} ${millis} ms`
  return status < 400 ? Effect.logDebug(line) : status < 500 ? Effect.logInfo(line) : Effect.logWarning(line)
}
