/** Every request from its arrival to its answer: its id, its route, its problems, and how long it took. */
import { Cause, Clock, Context, Effect, Layer, References } from "effect"
import { HttpEffect, HttpRouter, HttpServerError, HttpServerRequest, HttpServerResponse } from "effect/http"
import { Access } from "../api/Access.ts"
import { Internal, MethodNotAllowed, ProviderOutcomeUnknown, RouteNotFound } from "../api/Problems.ts"
import { Answers } from "../api/Requests.ts"
import { arriving, CurrentRequest, type CurrentRequestShape } from "../platform/CurrentRequest.ts"
import { RequestMetrics } from "../platform/RequestMetrics.ts"
import { nameServerSpan } from "../platform/Telemetry.ts"
import { Drain } from "./Drain.ts"
import { isProblem, type Problem, problemResponse } from "./ProblemResponse.ts"
import { hasEmptySegment, routable, splitTarget } from "./RequestTarget.ts"
import { isSend, type Methods } from "./Routes.ts"

/** Renders the problems of an operation, and tells which one it was. */
export const operations = Layer.succeed(
  Answers,
  Answers.of((operation, { endpoint }) =>
    Effect.withFiber((fiber) => {
      const current = fiber.getRef(CurrentRequest)
      current.route = endpoint.path
      if (Context.getUnsafe(endpoint.annotations, Access).policy === "messages") current.unavailable = outcomeUnknown
      nameServerSpan(fiber.context, `${endpoint.method} ${endpoint.path}`)
      return Effect.catch(operation, (error) => {
        const problem: unknown = error
        if (!isProblem(problem)) return Effect.fail(error)
        const told = problem.code === "service_unavailable" ? current.unavailable(problem.detail ?? "") : problem
        return Effect.succeed(problemResponse(told, current))
      })
    })
  )
)

/** 503 of a send means this one thing (contract §4), be it that the service itself can't tell. */
const outcomeUnknown = (detail: string) =>
  new ProviderOutcomeUnknown({ detail: `${detail} Keep the idempotency-key.`, messageId: null })

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
        const within = contextOf(current)
        const [path] = splitTarget(request.url)
        const started = yield* Clock.currentTimeMillis
        if (drain.draining() && isSend(request.method, path)) current.unavailable = outcomeUnknown
        const response = drain.draining()
          ? goingAway(current)
          : hasEmptySegment(path)
            ? problemResponse(notFound(), current)
            : yield* Effect.provideContext(answer(routes, request, current, methods), within)
        const millis = (yield* Clock.currentTimeMillis) - started

        const { status } = response
        metrics.record?.({
          route: current.route || operationalRoute(request, methods),
          method: request.method,
          status,
          seconds: millis / 1000,
          replayed: response.headers["idempotent-replayed"] !== undefined
        })
        if (current.problem !== undefined) yield* Effect.annotateCurrentSpan("error.type", current.problem)
        if (status >= 400 || logsSuccess) yield* Effect.provideContext(log(request, status, millis), within)
        return response
      })
    }),
    { global: true }
  )

/** What is done and logged for a request is known to be so. */
const contextOf = (current: CurrentRequestShape) =>
  Context.make(CurrentRequest, current).pipe(Context.add(References.CurrentLogAnnotations, { requestId: current.id }))

/** A route outside of the API has no parameters: its path is its template. Empty where nothing is. */
const operationalRoute = ({ url }: HttpServerRequest.HttpServerRequest, methods: Methods) => {
  const [path] = splitTarget(url)
  return path.startsWith("/api/") || methods(path).length === 0 ? "" : path
}

const answer = <E>(
  routes: Effect.Effect<HttpServerResponse.HttpServerResponse, E, never>,
  request: HttpServerRequest.HttpServerRequest,
  current: CurrentRequestShape,
  methods: Methods
) => {
  const url = routable(request.url)
  const routed =
    url === request.url
      ? routes
      : Effect.provideService(routes, HttpServerRequest.HttpServerRequest, request.modify({ url }))
  return Effect.catchCause(routed, (cause) => recover(cause, request, current, methods))
}

/** What no operation answered: an unknown route, an interruption, or a bug. */
const recover = <E>(
  cause: Cause.Cause<E>,
  request: HttpServerRequest.HttpServerRequest,
  current: CurrentRequestShape,
  methods: Methods
): Effect.Effect<HttpServerResponse.HttpServerResponse, E> => {
  const error = Cause.squash(cause)
  if (error instanceof HttpServerError.HttpServerError && error.reason._tag === "RouteNotFound") {
    const allow = methods(splitTarget(request.url)[0]).join(", ")
    if (allow === "") return Effect.succeed(problemResponse(notFound(), current))
    const problem = new MethodNotAllowed({ detail: `The path knows ${allow}.` })
    return Effect.succeed(HttpServerResponse.setHeader(problemResponse(problem, current), "allow", allow))
  }
  if (Cause.hasInterruptsOnly(cause)) {
    // A caller who hung up reads no answer; one who waits while the process ends shall know.
    return isClientAbort(cause) ? Effect.failCause(cause) : Effect.succeed(goingAway(current))
  }
  return Effect.as(
    Effect.logError("A request failed", cause),
    problemResponse(new Internal({ detail: "The failure was logged under this request's id." }), current)
  )
}

const isClientAbort = (cause: Cause.Cause<unknown>) =>
  cause.reasons.some((reason) => reason.annotations.has(HttpServerError.ClientAbort.key))

const notFound = (): Problem => new RouteNotFound({ detail: "Paths are case-sensitive and take no trailing slash." })

const goingAway = (current: CurrentRequestShape) =>
  HttpServerResponse.setHeader(
    problemResponse(current.unavailable("This process is shutting down. Send it again."), current),
    "connection",
    "close"
  )

const log = (request: HttpServerRequest.HttpServerRequest, status: number, millis: number) => {
  const line = `${request.method} ${splitTarget(request.url)[0]} ${status} ${millis} ms`
  return status < 400 ? Effect.logDebug(line) : status < 500 ? Effect.logInfo(line) : Effect.logWarning(line)
}
